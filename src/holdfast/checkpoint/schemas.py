"""How one schema differs from another, read from the JSON that Spark writes."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.errors import UsageError

_SQL_NAMES: Final = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
}


def schema_changes(before: str, after: str) -> tuple[str, ...]:
    """Say column by column how a schema became another one."""
    return tuple(_compare(_fields(before), _fields(after), ""))


def _fields(text: str) -> list[dict[str, Any]]:
    try:
        fields = json.loads(text)["fields"]
        for field in fields:
            field["name"], field["type"]
    except (ValueError, KeyError, TypeError):
        raise UsageError("A schema is not what Spark writes as JSON: it has no fields.") from None
    return list(fields)


def _compare(before: list[dict[str, Any]], after: list[dict[str, Any]], path: str) -> list[str]:
    old = {field["name"]: field for field in before}
    new = {field["name"]: field for field in after}
    changes: list[str] = []
    for name, field in old.items():
        if name not in new:
            changes.append(f"column {path}{name} ({type_name(field['type'])}) was removed")
        else:
            changes.extend(_compare_field(field, new[name], f"{path}{name}"))
    for name, field in new.items():
        if name not in old:
            changes.append(f"column {path}{name} ({type_name(field['type'])}) was added")
    if not changes and list(old) != list(new):
        what = f"the fields of {path.rstrip('.')}" if path else "the columns"
        changes.append(f"{what} are in another order: {', '.join(new)}")
    return changes


def _compare_field(before: dict[str, Any], after: dict[str, Any], path: str) -> list[str]:
    old, new = before["type"], after["type"]
    changes: list[str] = []
    if _is_struct(old) and _is_struct(new):
        changes.extend(_compare(old["fields"], new["fields"], f"{path}."))
    elif old != new:
        was, now = type_name(old), type_name(new)
        if was == now:
            changes.append(f"column {path} ({now}) holds nulls differently within it")
        else:
            changes.append(f"column {path} was {was}, is {now}")
    if before.get("nullable", True) != after.get("nullable", True):
        may = "may be null now" if after.get("nullable", True) else "may no longer be null"
        changes.append(f"column {path} {may}")
    return changes


def type_name(kind: Any) -> str:
    """Return a type as SQL writes it, for example `array<struct<id:bigint>>`."""
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    if not isinstance(kind, dict):
        return str(kind)
    name = kind.get("type")
    if name == "struct":
        inner = ",".join(f"{f['name']}:{type_name(f['type'])}" for f in kind["fields"])
        return f"struct<{inner}>"
    if name == "array":
        return f"array<{type_name(kind.get('elementType'))}>"
    if name == "map":
        return f"map<{type_name(kind.get('keyType'))},{type_name(kind.get('valueType'))}>"
    return str(name)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, dict) and kind.get("type") == "struct"
