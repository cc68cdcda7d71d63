"""Telling whether a pipeline still copies what it copied when a plan was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.config.loading import dotted_key
from holdfast.config.redaction import is_redacted, is_secret, redacted
from holdfast.config.root import Config
from holdfast.config.section import Location


def pipeline_document(config: Config, name: str) -> dict[str, object]:
    """Return all that decides what a pipeline copies, ready for JSON and without secrets.

    How fast it copies (`concurrency`, `[spark]`) is left out, and two ways of writing the same
    thing give the same document.
    """
    pipeline = config.pipeline_named(name)
    body = pipeline.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"concurrency", "table"}
    )
    for unordered in (body, body.get("discovery", {})):
        for key in ("tables", "include", "exclude"):
            if key in unordered:
                unordered[key] = sorted(unordered[key])
    # Unset keys of an override are the pipeline's; a set `freshness = false` must stay visible.
    body["table"] = {
        table: _with_cursor(override.model_dump(mode="json", by_alias=True, exclude_unset=True))
        for table, override in sorted(pipeline.table.items())
    }
    document = {"pipeline": {name: _with_cursor(body)}}
    return {key: _without_secrets(value, (key,)) for key, value in document.items()}


def fingerprint(document: Mapping[str, object]) -> str:
    """Return a digest that is equal for equal documents."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Say key by key what moved between two documents."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    keys = [*before, *(key for key in after if key not in before)]
    return [
        f"{dotted_key(key)}: {_change(key, before.get(key), after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _with_cursor(body: dict[str, Any]) -> dict[str, Any]:
    """Write `watermark = "ts"` as `cursor = ["ts"]`, which means the same."""
    watermark = body.pop("watermark", None)
    return {**body, "cursor": [watermark]} if watermark else body


def _without_secrets(value: Any, at: Location) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item, (*at, key)) for key, item in value.items()}
    if isinstance(value, str) and is_secret(at, value):
        return redacted(value)
    return value


def _leaves(value: Any, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*at, key))
    else:
        yield at, value


def _change(key: Location, before: Any, after: Any) -> str:
    if is_redacted(before) or is_redacted(after):
        verb = "changed" if before and after else "added" if after else "removed"
        return f"{verb} (a secret, not shown)"
    if key[-1] == "tables" and isinstance(before, list) and isinstance(after, list):
        added = [name for name in after if name not in before]
        removed = [name for name in before if name not in after]
        parts = [("added", added), ("removed", removed)]
        return ", ".join(f"{verb} {_names(names)}" for verb, names in parts if names)
    return f"was {_written(before)}, is {_written(after)}"


def _names(names: list[str]) -> str:
    return " and ".join(_written(name) for name in names)


def _written(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
