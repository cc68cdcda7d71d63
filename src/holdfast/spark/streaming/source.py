"""Opening a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from holdfast.config.stream import StreamSource
from holdfast.errors import SourceChanged, UsageError
from holdfast.spark.failures import explain, translated
from holdfast.spark.filesystem import files_for, is_local, is_pattern, local_path

_STATEFUL: Final = re.compile(
    r"^[\s:+-]*~(Aggregate|Deduplicate\w*|FlatMapGroups\w*|TransformWith\w*|GlobalLimit"
    r"|Join)",
    re.MULTILINE,
)
"""Nodes of a plan for which Spark would keep state between micro-batches."""
_STREAMED: Final = re.compile(r"StreamingRelation\w* (.+?), \[")


def open_stream(
    spark: SparkSession, source: StreamSource, options: Mapping[str, str], *, pipeline: str
) -> DataFrame:
    """The rows of a source as they come; `options` are its own with the batch limits."""
    with translated(f"{pipeline}: opening the source"):
        reader = spark.readStream.format(source.format)
        for name, value in options.items():
            reader = reader.option(name, value)
        if source.schema_ddl is not None:
            reader = _with_schema(reader, source.schema_ddl, pipeline)
        if source.path is None:
            return reader.load()
        return reader.load(_as_pattern(spark, source.path))


def _with_schema(reader: DataStreamReader, ddl: str, pipeline: str) -> DataStreamReader:
    try:
        return reader.schema(ddl)
    except (ParseException, AnalysisException) as error:
        said = explain(f"{pipeline}: source.schema", error)
        raise UsageError(
            said.message, hint='Write it like "id long, merchant string, at timestamp".'
        ) from error


def _as_pattern(spark: SparkSession, path: str) -> str:
    """A path as Spark takes it, which is a pattern: one that is there as it is means itself."""
    if not is_pattern(path) or not is_local(spark, path) or not local_path(path).exists():
        return path
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def describe_source(source: StreamSource) -> str:
    """A source in a few words: `json files in events`, `kafka orders`."""
    if source.path is not None:
        return f"{source.format} {source.path}"
    for name, value in source.options.items():
        if name.lower() in ("subscribe", "subscribepattern", "assign"):
            return f"{source.format} {value}"
    return source.format


def streamed(frame: DataFrame) -> tuple[str, ...]:
    """The sources of a streaming DataFrame, as Spark's plan names them."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    return tuple(_STREAMED.findall(str(plan.treeString())))


def refuse_vanished(spark: SparkSession, entries: Mapping[str, bytes], *, pipeline: str) -> None:
    """Refuse to run an epoch whose files are gone: Spark would pass over them without a word.

    `entries` are the new entries of the sources' logs, by their path. A compacted one repeats
    those before it, which have been read.
    """
    for path, content in entries.items():
        number = path.rpartition("/")[2].removesuffix(".compact")
        for line in content.decode().splitlines()[1:]:
            entry = _file_entry(line)
            if entry is None or str(entry.get("batchId")) != number:
                continue
            # Spark writes a URI. So do local paths start here; Hadoop's own are not encoded.
            place = str(entry["path"])
            place = place if place.startswith("file:") else unquote(place)
            if not files_for(spark, place).exists(place):
                raise SourceChanged(
                    f"{pipeline}: a file of the epoch that was begun is gone: {place}.",
                    hint="Put it back. To go on without it, stop the run and give the epoch up: "
                    f"holdfast checkpoint rollback {pipeline} latest",
                )


def _file_entry(line: str) -> dict[str, Any] | None:
    """An entry of a file source's log; other sources write what they like."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "path" in found else None


def refuse_stateful(frame: DataFrame, *, pipeline: str) -> None:
    """Refuse a stream whose query keeps state of Spark's own, which no checkpoint would hold."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    text = str(plan.treeString())
    found = _STATEFUL.search(text)
    # A join with a table that does not move needs no state.
    if found and (found.group(1) != "Join" or text.count("StreamingRelation") > 1):
        raise UsageError(
            f"{pipeline}: the streaming DataFrame has an operator with state in Spark "
            f"({found.group(1)}), which a checkpoint of Holdfast does not contain.",
            hint="Apply it to each micro-batch instead: .sql(...) or .transform(...).",
        )
