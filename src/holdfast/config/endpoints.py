"""Where rows come from and where they go: `source`, `target`, `discovery`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from holdfast.config.options import Options
from holdfast.config.pattern import SchemaPattern, placeholders
from holdfast.config.section import Finding, Section, expected
from holdfast.config.spelling import closest
from holdfast.config.values import (
    Location,
    OptionalLocation,
    OptionalText,
    Text,
    list_of,
    repeated_items,
)

FILE_FORMATS: Final = ("csv", "json", "parquet", "orc", "avro", "xml", "text", "delta")
NAMED_FORMATS: Final = ("jdbc", "table")
"""The formats whose tables have names instead of paths."""

_REFUSED_TARGETS: Final = {
    "jdbc": "a database cannot take a batch and its marker in one step; copy to a directory",
    "kafka": "a topic cannot take back the first half of a batch that failed",
    "console": "it keeps nothing",
    "memory": "it keeps nothing once the run is over",
    "noop": "it keeps nothing",
    "hive": "a catalog table cannot be published batch by batch; copy to a directory",
    "table": "a catalog table cannot be published batch by batch; copy to a directory",
}


def _known_format(value: Any) -> str:
    """Accept any Spark format, but not one that is nearly the name of a common one."""
    if not isinstance(value, str) or not value.strip():
        raise expected('the name of a Spark format such as "csv", "parquet" or "jdbc"')
    lowered = value.lower()
    if lowered in (*FILE_FORMATS, *NAMED_FORMATS, *_REFUSED_TARGETS):
        return lowered
    # Plug-ins have names of their own: only a close likeness counts as a misspelling.
    meant = closest(value, (*FILE_FORMATS, *NAMED_FORMATS), likeness=0.8)
    if meant:
        raise expected("the name of a Spark format", suggestion=f'"{meant}"')
    return str(value)


def _target_format(value: Any) -> str:
    if isinstance(value, str) and value.lower() in _REFUSED_TARGETS:
        reason = _REFUSED_TARGETS[value.lower()]
        raise Finding(message=f'"{value}" cannot be a target: {reason}').as_error()
    return _known_format(value)


class Source(Section):
    """Where the rows come from: anything Spark reads as a batch."""

    format: Annotated[str, BeforeValidator(_known_format)] = Field(
        description='the name of a Spark format such as "csv", "parquet", "jdbc" or "table"'
    )
    path: OptionalLocation = None
    namespace: OptionalText = None
    options: Options = Field(default_factory=dict)
    schema_ddl: OptionalText = Field(default=None, alias="schema")

    def table_name(self, table: str) -> str:
        """Return the name by which a catalog or a database knows one of the tables."""
        return f"{self.namespace}.{table}" if self.namespace else table

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the keys that the format needs and those it cannot use."""
        name = data.get("format")
        kind = name.lower() if isinstance(name, str) else ""
        if kind in FILE_FORMATS:
            if data.get("path") is None:
                message = f'this key is missing; format "{kind}" needs the directory of the tables'
                yield Finding(("path",), message)
            if data.get("namespace") is not None:
                yield Finding(("namespace",), f'has no meaning with format "{kind}"; use path')
        if kind in NAMED_FORMATS:
            yield from _named_format_rules(kind, data)


def _named_format_rules(kind: str, data: Mapping[str, Any]) -> Iterator[Finding]:
    if data.get("path") is not None:
        message = f'has no meaning with format "{kind}"; tables are found by name'
        yield Finding(("path",), f"{message} (see namespace)")
    if data.get("schema") is not None:
        yield Finding(("schema",), schema_refusal(kind))
    options = data.get("options", {})
    if kind != "jdbc" or not isinstance(options, Mapping):
        return
    by_lowercase = {str(name).lower(): name for name in options}
    if "url" not in by_lowercase:
        message = 'this key is missing; format "jdbc" needs it, for example'
        yield Finding(("options", "url"), f'{message} "jdbc:postgresql://host/database"')
    for name in ("dbtable", "query"):
        if name in by_lowercase:
            message = "would read the same rows for every table; name the tables in `tables`"
            yield Finding(("options", by_lowercase[name]), message)


def schema_refusal(kind: str) -> str:
    """Say why a format whose tables have types of their own takes no `schema`."""
    instead = "; use the option customSchema" if kind == "jdbc" else ""
    return f'cannot be set with format "{kind}": its tables have their own types{instead}'


class Target(Section):
    """Where the rows go: one directory per table below `path`."""

    format: Annotated[str, BeforeValidator(_target_format)] = "parquet"
    path: Location = Field(description="the directory below which each table gets its own")
    options: Options = Field(default_factory=dict)


_Globs = Annotated[tuple[Text, ...], list_of("name patterns", '["orders_*"]')]


class Discovery(Section):
    """Which tables to copy, found anew at every run."""

    schema_pattern: OptionalText = None
    target_schema: OptionalText = None
    include: _Globs = ("*",)
    exclude: tuple[Text, ...] = ()

    def compiled_pattern(self) -> SchemaPattern | None:
        """Return the pattern that schema names must fit, when there is one."""
        return SchemaPattern.compile(self.schema_pattern) if self.schema_pattern else None

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong with the two patterns, alone and together."""
        for key in ("include", "exclude"):
            yield from repeated_items(key, data.get(key))
        pattern, template = data.get("schema_pattern"), data.get("target_schema")
        known = None
        # A variable that is not set is reported elsewhere: its ${...} is not a placeholder.
        if isinstance(pattern, str) and "${" not in pattern:
            try:
                known = SchemaPattern.compile(pattern).fields
            except ValueError as error:
                yield Finding(("schema_pattern",), f'found "{pattern}": {error}')
        if isinstance(template, str):
            yield from _template_rules(template, known, has_pattern=pattern is not None)


def _template_rules(
    template: str, known: tuple[str, ...] | None, *, has_pattern: bool
) -> Iterator[Finding]:
    at = ("target_schema",)
    if not has_pattern:
        yield Finding(at, "needs schema_pattern beside it, whose placeholders it uses")
        return
    try:
        used = placeholders(template)
    except ValueError as error:
        yield Finding(at, f'found "{template}": {error}')
        return
    for name in used:
        if known is not None and name not in known:
            meant = closest(name, known)
            message = f"{{{name}}} does not occur in schema_pattern"
            yield Finding(at, message, suggestion=f"{{{meant}}}" if meant else "")
