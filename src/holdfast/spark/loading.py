"""Opening a table of a source."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.config import Source, TableSettings
from holdfast.errors import SourceError
from holdfast.model import SourceColumns, TableName
from holdfast.spark.columns import without_own_columns
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import is_local
from holdfast.spark.footers import Footers, read_footers
from holdfast.spark.jdbc import relation
from holdfast.spark.reading import reader_for, table_location
from holdfast.spark.sources import SourceTable


def open_table(
    spark: SparkSession,
    source: Source,
    table: TableName,
    settings: TableSettings,
    known: SourceColumns | None = None,
) -> SourceTable:
    """Open one table of a source and find the columns its settings name.

    `known` are the columns it had before: if the files are of the same kinds as then, Spark need
    not learn them again.
    """
    with translated(f"{table}: opening the source"):
        frame, footers = _load(spark, source, table, settings, known)
        frame = without_own_columns(frame)
    if not frame.schema.fields:
        raise SourceError(
            f"{table}: the source has no columns.",
            hint="Check its path and format, or give it a `schema`.",
        )
    return SourceTable.of(table, source, frame, settings, footers)


def source_columns(source: SourceTable) -> SourceColumns | None:
    """What to remember of an opened table's columns; `None` if its files do not tell kinds."""
    if source.footers is None or source.footers.partitioned:
        return None
    return SourceColumns(source.frame.schema.json(), source.footers.kinds)


def _load(
    spark: SparkSession,
    source: Source,
    table: TableName,
    settings: TableSettings,
    known: SourceColumns | None,
) -> tuple[DataFrame, Footers | None]:
    if source.format == "table":
        return spark.table(source.table_name(table.source)), None
    reader = reader_for(spark, source, settings.options)
    if source.format == "jdbc":
        return reader.option("dbtable", relation(spark, source, table.source)).load(), None
    location = table_location(spark, source, table)
    if source.format != "parquet" or not is_local(spark, location):
        reader = reader.schema(settings.schema_ddl) if settings.schema_ddl else reader
        return reader.load(location), None
    if settings.schema_ddl:
        frame = reader.schema(settings.schema_ddl).load(location)
        return frame, read_footers(frame.inputFiles(), settings.watermark)
    if known is not None and _merges_columns(settings.options):
        schema = StructType.fromJson(json.loads(known.schema))
        frame = reader_for(spark, source, settings.options).schema(schema).load(location)
        footers = read_footers(frame.inputFiles(), settings.watermark)
        if footers and footers.kinds == known.kinds and not footers.partitioned:
            return frame, footers
    frame = reader.load(location)
    return frame, read_footers(frame.inputFiles(), settings.watermark)


def _merges_columns(options: Mapping[str, str]) -> bool:
    """Whether columns are learned from all files, as `Footers.kinds` are, and not from one."""
    chosen = {name.lower(): value.lower() for name, value in options.items()}
    return chosen.get("mergeschema", "true") == "true"
