"""How much goes into one micro-batch, in the words of each source.

| format | max_events | max_files | max_bytes | respect_source_tx |
|---|---|---|---|---|
| csv, json, parquet, ... | | maxFilesPerTrigger | maxBytesPerTrigger | |
| delta | | maxFilesPerTrigger | maxBytesPerTrigger | |
| kafka | maxOffsetsPerTrigger | | | kafka.isolation.level |
| rate-micro-batch | rowsPerBatch | | | |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.config.options import option_names
from holdfast.config.section import Finding, as_table, dotted_key
from holdfast.config.values import flag
from holdfast.errors import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from holdfast.config.stream import BatchLimits, StreamSource

STREAM_FILE_FORMATS: Final = ("csv", "json", "parquet", "orc", "text", "avro", "xml")

_OF_FILES: Final = {"max_files": "maxFilesPerTrigger", "max_bytes": "maxBytesPerTrigger"}
_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys((*STREAM_FILE_FORMATS, "delta"), _OF_FILES),
    "kafka": {
        "max_events": "maxOffsetsPerTrigger",
        "respect_source_tx": "kafka.isolation.level",
    },
    "rate-micro-batch": {"max_events": "rowsPerBatch"},
    "rate": {},
}
"""The option of the source behind each limit that it can take."""

_AMOUNTS: Final = ("max_events", "max_files", "max_bytes")
_LIMITS: Final = (*_AMOUNTS, "respect_source_tx")


def source_options(source: StreamSource, batch: BatchLimits) -> dict[str, str]:
    """Return the options Spark's reader gets: the source's own, and the limits in its words.

    A `ConfigError` says which limit the source cannot take, or has twice.
    """
    found = list(limit_rules(_tables(source), _tables(batch)))
    if found:
        problems = [ConfigProblem(dotted_key(item.location), item.message) for item in found]
        raise ConfigError("The batch limits do not fit the source:", problems=problems)
    options = dict(source.options)
    for limit, option in _OPTIONS.get(source.format, {}).items():
        value = getattr(batch, limit)
        if limit == "respect_source_tx":
            if value:
                options[option] = "read_committed"
        elif value is not None:
            options[option] = str(value)
    return options


def limit_options(kind: str) -> tuple[str, ...]:
    """Return the options of a format, in lower case, that only say how much a batch takes."""
    return tuple(option.lower() for option in _OPTIONS.get(kind, {}).values())


def limit_rules(source: Mapping[str, Any], batch: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the limits that a source cannot take, or has twice."""
    written = source.get("format")
    if not isinstance(written, str) or "${" in written:
        return
    kind = written.lower()
    taken = _OPTIONS.get(kind, {})
    names = option_names(source.get("options"))
    for limit in _LIMITS:
        if not _is_set(batch, limit):
            continue
        at = ("batch", limit)
        if limit not in taken:
            yield Finding(at, _refusal(written, limit))
        elif taken[limit].lower() in names:
            option = names[taken[limit].lower()]
            yield Finding(at, f"is given twice: source.options has {option}; keep one of them")
    if kind in STREAM_FILE_FORMATS:
        yield from _both_of_files(batch, names)
    has_rows = _is_set(batch, "max_events") or "rowsperbatch" in names
    if kind == "rate-micro-batch" and not has_rows:
        message = f'this key is missing; format "{kind}" needs the number of rows of a batch'
        yield Finding(("batch", "max_events"), message)


def _refusal(written: str, limit: str) -> str:
    kind = written.lower()
    choices = [name for name in _OPTIONS.get(kind, {}) if name in _AMOUNTS]
    if limit not in _AMOUNTS:
        return f'format "{written}" does not say where a transaction ends; only "kafka" does'
    if kind == "rate":
        instead = "give source.options.rowsPerSecond, or use the format rate-micro-batch"
    elif choices:
        instead = f"use {' or '.join(choices)}"
    else:
        instead = "give the source's own option for it in source.options"
    return f'format "{written}" cannot limit a batch this way; {instead}'


def _both_of_files(batch: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Finding]:
    limited = [
        limit
        for limit, option in _OF_FILES.items()
        if _is_set(batch, limit) or option.lower() in names
    ]
    if len(limited) == len(_OF_FILES):
        # Point at the key of the batch rather than at an option.
        key = next((limit for limit in reversed(limited) if _is_set(batch, limit)), None)
        at = ("batch", key) if key else ("source", "options", names["maxbytespertrigger"])
        yield Finding(at, "Spark takes a limit of files or of bytes, not both; keep one of them")


def _is_set(batch: Mapping[str, Any], limit: str) -> bool:
    value = batch.get(limit)
    return bool(flag(value)) if limit == "respect_source_tx" else value is not None


def _tables(section: StreamSource | BatchLimits) -> dict[str, Any]:
    return as_table(section, type(section))
