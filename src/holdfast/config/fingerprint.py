"""Telling whether a pipeline still does what it did when a plan or a checkpoint was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.config.limits import STREAM_FILE_FORMATS, limit_options
from holdfast.config.redaction import is_redacted, is_secret, redacted
from holdfast.config.replicate import ReplicatePipeline
from holdfast.config.root import Config
from holdfast.config.section import Location, dotted_key
from holdfast.config.stream import StreamPipeline

_OF_FILES: Final = frozenset({"pathglobfilter", "recursivefilelookup", "filenameonly"})
_OFFSET_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "kafka": frozenset({"kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign"}),
    "rate": frozenset({"rowspersecond", "rampuptime"}),
    "rate-micro-batch": frozenset({"starttimestamp", "advancemillisperbatch"}),
}
"""The options, in lower case, that choose the rows an offset counts."""


def pipeline_document(config: Config, name: str) -> dict[str, object]:
    """Return all that decides what a pipeline delivers, ready for JSON and without secrets.

    How fast it does so (`concurrency`, the limits of a batch, retries, `[spark]`) is left out, and
    two ways of writing the same thing give the same document.
    """
    pipeline = config.pipeline_named(name)
    body = _stream(pipeline) if isinstance(pipeline, StreamPipeline) else _replication(pipeline)
    document = {"pipeline": {name: body}}
    return {key: _without_secrets(value, (key,)) for key, value in document.items()}


def source_digest(pipeline: StreamPipeline) -> str:
    """Return a digest of what decides the meaning of a stream's offsets.

    While it is equal, the pipeline can go on from its checkpoints. How much is read at once, as
    whom, and as which columns may change.
    """
    source = pipeline.source
    options = {
        name.lower(): _in_any_order(name, value)
        for name, value in source.options.items()
        if _decides_offsets(source.format, name.lower()) and not is_secret(("options", name), value)
    }
    return fingerprint({"format": source.format, "path": source.path, "options": options})


def _replication(pipeline: ReplicatePipeline) -> dict[str, Any]:
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
    return _with_cursor(body)


def _stream(pipeline: StreamPipeline) -> dict[str, Any]:
    body = pipeline.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        exclude={
            "sinks": {"__all__": {"name", "retry", "spool"}},
            "batch": {"max_events", "max_files", "max_bytes", "max_ms", "max_inflight"},
            "checkpoint": {"retain", "fail_if_no_checkpoint"},
            "source_retry": True,
        },
    )
    # By name, so that a sink that is moved in the file stays the same one.
    names = [sink.name for sink in pipeline.sinks]
    body["sinks"] = dict(sorted(zip(names, body["sinks"], strict=True)))
    return body


def _decides_offsets(kind: str, option: str) -> bool:
    if option in limit_options(kind):
        return False
    if kind in STREAM_FILE_FORMATS:
        return option in _OF_FILES
    if kind in _OFFSET_OPTIONS:
        return option in _OFFSET_OPTIONS[kind]
    # Nobody knows the options of a plug-in: only what is plainly a limit may change.
    return not option.endswith("pertrigger")


def _in_any_order(name: str, value: str) -> str:
    if name.lower() not in ("subscribe", "kafka.bootstrap.servers"):
        return value
    return ",".join(sorted(part.strip() for part in value.split(",")))


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
    if isinstance(value, list):
        return [_without_secrets(item, (*at, index)) for index, item in enumerate(value)]
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
