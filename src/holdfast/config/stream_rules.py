"""The rules over several keys of a stream pipeline.

They look at the tables of the file as written, so that a mistake in one key does not hide a
mistake in how two others go together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.config.choosing import table_of
from holdfast.config.limits import STREAM_FILE_FORMATS, limit_rules
from holdfast.config.options import option_names, option_value
from holdfast.config.section import Finding, Section, as_table
from holdfast.config.sinks import SINKS
from holdfast.config.spelling import closest
from holdfast.config.values import flag, is_uri, number

Table = Mapping[str, Any]

_OTHER_FORMATS: Final = ("kafka", "rate", "rate-micro-batch")
_KNOWN: Final = (*STREAM_FILE_FORMATS, *_OTHER_FORMATS, "delta")
_TOPICS: Final = ("subscribe", "subscribePattern", "assign")
_COPY: Final = 'copy it with a pipeline of type = "replicate"'
_NOT_STREAMED: Final = {
    "socket": "cannot be a source: what it sent cannot be read again after a crash",
    "jdbc": f"cannot be streamed; {_COPY}",
    "table": f"cannot be streamed; {_COPY}, or name the format and path of its files",
    "hive": f"cannot be streamed; {_COPY}, or name the format and path of its files",
    "console": "cannot be read",
    "memory": "cannot be read again after a crash",
    "noop": "cannot be read",
}


def stream_format(value: Any) -> str:
    """Accept any format Spark streams, but not one that is nearly the name of a common one."""
    wrong = _wrong_format(value)
    if wrong is not None:
        raise wrong.as_error()
    return str(value).lower() if value.lower() in _KNOWN else str(value)


def _wrong_format(value: Any) -> Finding | None:
    if not isinstance(value, str) or not value.strip():
        return Finding(expected='the name of a Spark streaming format such as "json" or "kafka"')
    lowered = value.lower()
    if lowered in _NOT_STREAMED:
        return Finding(message=f'"{lowered}" {_NOT_STREAMED[lowered]}')
    # Plug-ins have names of their own: only a close likeness counts as a misspelling.
    meant = "" if lowered in _KNOWN else closest(value, _KNOWN, likeness=0.8)
    what = "the name of a Spark streaming format"
    return Finding(expected=what, suggestion=f'"{meant}"') if meant else None


def source_rules(data: Table) -> Iterator[Finding]:
    """Yield the keys that the format of a source needs and those it cannot use."""
    name = data.get("format")
    kind = name.lower() if isinstance(name, str) else ""
    options = data.get("options", {})
    names = option_names(options)
    if kind in STREAM_FILE_FORMATS:
        if data.get("path") is None:
            message = f'this key is missing; format "{kind}" needs the directory of the files'
            yield Finding(("path",), message)
        if "path" in names:
            yield Finding(("options", names["path"]), "cannot be set here; use the key `path`")
    if kind in _OTHER_FORMATS:
        for key in ("path", "schema"):
            if data.get(key) is not None:
                yield Finding((key,), f'has no meaning with format "{kind}"')
    if kind == "kafka" and isinstance(options, Mapping):
        yield from _kafka_rules(names)


def _kafka_rules(names: Mapping[str, str]) -> Iterator[Finding]:
    if "kafka.bootstrap.servers" not in names:
        message = 'this key is missing; format "kafka" needs it, for example'
        yield Finding(("options", "kafka.bootstrap.servers"), f'{message} "host:9092"')
    given = [names[topic.lower()] for topic in _TOPICS if topic.lower() in names]
    if not given:
        message = 'this key is missing; format "kafka" needs the topics in one of subscribe,'
        yield Finding(("options", "subscribe"), f"{message} subscribePattern and assign")
    for second in given[1:]:
        message = f"give either {given[0]} or {second}, not both"
        yield Finding(("options", second), message)


def inference_rules(source: Table, conf: object) -> Iterator[Finding]:
    """Yield a source of files whose columns Spark would have to guess and will not."""
    kind = source.get("format")
    if not isinstance(kind, str) or kind.lower() not in STREAM_FILE_FORMATS:
        return
    if kind.lower() == "text":
        return
    # Unlike options, settings are known to Spark by their exact names.
    inferred = option_value(conf, "spark.sql.streaming.schemaInference") or ""
    if source.get("schema") is None and inferred.lower() != "true":
        message = "this key is missing; a stream needs to know its columns beforehand, for example"
        yield Finding(
            ("schema",),
            f'{message} schema = "id long, ts timestamp" (or set'
            " spark.sql.streaming.schemaInference = true in [spark] conf)",
        )


def batch_rules(data: Table) -> Iterator[Finding]:
    """Yield what Spark cannot do with any source."""
    inflight = number(data.get("max_inflight"))
    if inflight is not None and inflight > 1:
        message = "cannot be more than 1: Spark runs one micro-batch at a time"
        yield Finding(("max_inflight",), message)
    policy = data.get("commit_policy", "required")
    if policy == "quorum" and data.get("quorum") is None:
        message = 'this key is missing; commit_policy "quorum" needs the number of sinks that'
        yield Finding(("quorum",), f"{message} must have a batch")
    if policy in ("all", "required") and data.get("quorum") is not None:
        message = f'has no meaning with commit_policy "{policy}"; use commit_policy = "quorum"'
        yield Finding(("quorum",), message)


def checkpoint_rules(data: Table) -> Iterator[Finding]:
    """Yield a place for checkpoints that is not on this machine."""
    location = data.get("location")
    if not isinstance(location, str) or not is_uri(location):
        return
    scheme = location.partition(":")[0].lower()
    if scheme == "file":
        yield Finding(("location",), "write it as a path, without file:")
    else:
        message = f"{scheme}:// is not available in this version; use a directory on this machine"
        yield Finding(("location",), message)


def pipeline_rules(
    data: Table, *, source: type[Section], batch: type[Section]
) -> Iterator[Finding]:
    """Yield every rule that a stream pipeline's table breaks."""
    if data.get("sql") is not None:
        for key in ("select", "where"):
            if data.get(key) is not None:
                yield Finding((key,), "give either `sql` or `select` and `where`, not both")
    limits = as_table(data.get("batch"), batch)
    origin = as_table(data.get("source"), source)
    if _wrong_format(origin.get("format")) is None:
        yield from limit_rules(origin, limits)
    sinks = data.get("sinks")
    if isinstance(sinks, list | tuple) and sinks:
        tables = [table_of(sink, SINKS) for sink in sinks]
        yield from _repeated_names(tables)
        yield from _policy_rules(limits, tables)


def _repeated_names(sinks: list[dict[str, Any]]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, sink in enumerate(sinks):
        name = sink.get("name")
        if isinstance(name, str) and name in seen:
            message = f'another sink is called "{name}"; each needs a name of its own'
            yield Finding(("sinks", index, "name"), message)
        if isinstance(name, str):
            seen.add(name)


def _policy_rules(batch: Table, sinks: list[dict[str, Any]]) -> Iterator[Finding]:
    policy = batch.get("commit_policy", "required")
    required = [flag(sink.get("required", True)) for sink in sinks]
    yield from _without_meaning(policy, sinks, required)
    if policy == "required" and not any(needed is not False for needed in required):
        message = "no sink is required, so that nothing would hold a checkpoint back; make one"
        message += ' required, or use commit_policy = "quorum"'
        yield Finding(("batch", "commit_policy"), message)
    quorum = number(batch.get("quorum"))
    if policy != "quorum" or quorum is None or quorum < 1:
        return
    needed = sum(item is True for item in required)
    if quorum > len(sinks):
        message = f"found {quorum:g}, but the pipeline has {_sinks(len(sinks))}"
        yield Finding(("batch", "quorum"), message)
    elif quorum < needed:
        message = f"found {quorum:g}, but {_sinks(needed)} must have every batch (required = true)"
        yield Finding(("batch", "quorum"), message)


def _without_meaning(
    policy: object, sinks: list[dict[str, Any]], required: list[bool | None]
) -> Iterator[Finding]:
    for index, sink in enumerate(sinks):
        for key in ("on_failure", "spool"):
            if sink.get(key) is None:
                continue
            at = ("sinks", index, key)
            if required[index]:
                message = "has no meaning for a sink that is required: the pipeline waits for it"
                yield Finding(at, f"{message}; add required = false, or remove it")
            elif policy == "all":
                message = 'has no meaning with commit_policy "all": the pipeline waits for every'
                yield Finding(at, f"{message} sink")


def _sinks(count: int) -> str:
    return "1 sink" if count == 1 else f"{count} sinks"
