"""Opening a stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from holdfast.config.stream import StreamSource
from holdfast.errors import UsageError
from holdfast.spark.failures import translated

_STATEFUL: Final = re.compile(
    r"^[\s:+-]*~(Aggregate|Deduplicate\w*|FlatMapGroups\w*|TransformWith\w*|GlobalLimit"
    r"|Join)",
    re.MULTILINE,
)
"""Nodes of a plan for which Spark would keep state between micro-batches."""


def open_stream(
    spark: SparkSession, source: StreamSource, options: Mapping[str, str], *, pipeline: str
) -> DataFrame:
    """The rows of a source as they come; `options` are its own with the batch limits."""
    with translated(f"{pipeline}: opening the source"):
        reader = spark.readStream.format(source.format)
        for name, value in options.items():
            reader = reader.option(name, value)
        if source.schema_ddl is not None:
            reader = reader.schema(source.schema_ddl)
        return reader.load(source.path) if source.path is not None else reader.load()


def describe_source(source: StreamSource) -> str:
    """A source in a few words: `json files in events`, `kafka orders`."""
    if source.path is not None:
        return f"{source.format} {source.path}"
    for name, value in source.options.items():
        if name.lower() in ("subscribe", "subscribepattern", "assign"):
            return f"{source.format} {value}"
    return source.format


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
