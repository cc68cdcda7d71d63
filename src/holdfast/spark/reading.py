"""How a source is read: options that keep rows and columns from getting lost, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrameReader, SparkSession

from holdfast.config import Source
from holdfast.errors import SourceError
from holdfast.model import TableName
from holdfast.spark.filesystem import files_for, is_pattern, join

# Spark takes a table's columns from one file unless told otherwise: a column that only newer
# files have would be lost without a word, and in CSV would shift the others.
_SAFE_OPTIONS: Final[dict[str, dict[str, str]]] = {
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
    "csv": {"enforceSchema": "false"},
}


def reader_for(spark: SparkSession, source: Source, options: Mapping[str, str]) -> DataFrameReader:
    """A reader of a source's format with safe options, and the user's over them."""
    reader = spark.read.format(source.format)
    given = {name.lower() for name in options}
    for name, value in _SAFE_OPTIONS.get(source.format, {}).items():
        if name.lower() not in given:
            reader = reader.option(name, value)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader


def table_location(spark: SparkSession, source: Source, table: TableName) -> str:
    """The path of a file table: a directory of its name, or one file with the format's suffix."""
    root = str(source.path)
    if is_pattern(root):
        raise SourceError(
            f"{table}: Spark would take the source's path for a pattern: {root}.",
            hint="Choose a path without any of * ? [ ] { } \\",
        )
    directory = join(root, *table.source.split("."))
    files = files_for(spark, root)
    if files.exists(directory):
        return directory
    parent, _, name = directory.rpartition("/")
    # Also compressed ones: orders.csv, orders.csv.gz.
    suffixed = [n for n in files.names(parent) if f"{n}.".startswith(f"{name}.{source.format}.")]
    if suffixed:
        return join(parent, suffixed[0])
    raise SourceError(
        f"{table}: the source is not there: {directory} (nor {name}.{source.format} beside it).",
        hint=f"Check pipeline.{table.pipeline}.source.path and the table's name.",
    )
