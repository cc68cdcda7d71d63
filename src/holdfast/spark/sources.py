"""Where rows come from: any format Spark can read in batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession

from holdfast.config import Source, TableSettings
from holdfast.errors import SourceError
from holdfast.model import Position, TableName
from holdfast.spark import jdbc
from holdfast.spark.columns import without_own_columns
from holdfast.spark.counting import count_parquet_rows
from holdfast.spark.cursor import Cursor, resolve_column
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import files_for, is_local, join
from holdfast.spark.measures import (
    Census,
    Probe,
    Window,
    census_measures,
    probe_frame,
    read_census,
)

__all__ = ["DataFrame", "SourceTable", "open_table", "table_location"]

# Spark takes a table's columns from one file unless told otherwise: a column that only newer
# files have would be lost without a word, and in CSV would shift the others.
_SAFE_OPTIONS: Final[dict[str, dict[str, str]]] = {
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
    "csv": {"enforceSchema": "false"},
}
# Formats of which every row is read whatever the filter.
_PARSED_WHOLE: Final = frozenset({"csv", "json", "xml", "text", "avro"})


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table of a source, opened: its columns are known, its rows not yet read.

    For files the list of files is fixed here, so that everything a run asks of the table is
    asked of the same files.
    """

    table: TableName
    source: Source
    frame: DataFrame
    cursor: Cursor | None
    key: tuple[str, ...]

    def probe(
        self,
        *,
        low: Position | None,
        high: Position | None,
        skew_limit: Position | None,
        window: Window | None,
    ) -> Probe:
        """Count the rows, find the new ones, and fix the upper bound of what may be copied."""
        ceiling = high if high is not None else skew_limit
        with translated(f"{self.table}: reading the source"):
            if self.source.format == "jdbc" and self.cursor is not None:
                return jdbc.probe(
                    self.frame,
                    self.cursor,
                    reader=_reader(self.frame.sparkSession, self.source, self.source.options),
                    url=self.source.options["url"],
                    relation=self.source.table_name(self.table.source),
                    low=low,
                    ceiling=ceiling,
                    skew_limit=skew_limit,
                    window=window,
                )
            if self.cursor is None:
                total = self.frame.count()
                return Probe(Census(total), total, None)
            return probe_frame(
                self.frame,
                self.cursor,
                low=low,
                ceiling=ceiling,
                skew_limit=skew_limit,
                window=window,
            )

    def rows(self, low: Position | None, high: Position | None) -> DataFrame:
        """The rows in `(low, high]`; `high` is `None` for "to the end"."""
        if self.cursor is None:
            return self.frame
        return self.frame.where(self.cursor.between(low, high))

    @property
    def counts_while_reading(self) -> bool:
        """Whether reading the new rows says what a probe would, for less.

        The list of files must be fixed, so that the rows that are there cannot change between
        counting and reading. Text has to be parsed to the last row anyway, and Parquet files on
        this machine say in their footers how many rows they have.
        """
        return self.source.format in _PARSED_WHOLE or self._has_local_footers

    @property
    def _has_local_footers(self) -> bool:
        if self.source.format != "parquet":
            return False
        return is_local(self.frame.sparkSession, str(self.source.path))

    def counted_rows(
        self, low: Position | None, high: Position | None, skew_limit: Position | None
    ) -> tuple[DataFrame, Callable[[], Census]]:
        """The rows in `(low, high]`, and a census that is complete once they were read."""
        assert self.cursor is not None, "a source without a cursor is read whole"
        observation = Observation()
        if self._has_local_footers:
            total = count_parquet_rows(self.frame.inputFiles())
            counts = census_measures(self.cursor, skew_limit, total=False)
            # The first filter is one the footers can answer; only what is left is counted.
            frame = self.frame.where(self.cursor.not_before(low)).observe(observation, *counts)
        else:
            total = None
            counts = census_measures(self.cursor, skew_limit, total=True)
            frame = self.frame.observe(observation, *counts)
        rows = frame.where(self.cursor.between(low, high))
        return rows, lambda: read_census(observation.get, total=total)

    def over(self, frame: DataFrame, settings: TableSettings) -> SourceTable:
        """The same table with other columns."""
        return _fitted(self.table, self.source, frame, settings)


def open_table(
    spark: SparkSession, source: Source, table: TableName, settings: TableSettings
) -> SourceTable:
    """Open one table of a source and find the columns its settings name."""
    with translated(f"{table}: opening the source"):
        frame = without_own_columns(_load(spark, source, table, settings))
    if not frame.schema.fields:
        raise SourceError(
            f"{table}: the source has no columns.",
            hint="Check its path and format, or give it a `schema`.",
        )
    return _fitted(table, source, frame, settings)


def _fitted(
    table: TableName, source: Source, frame: DataFrame, settings: TableSettings
) -> SourceTable:
    schema, name = frame.schema, str(table)
    cursor = Cursor.over(schema, settings.cursor, table=name) if settings.cursor else None
    key = tuple(
        resolve_column(schema, column, table=name, role="primary key")
        for column in settings.primary_key
    )
    return SourceTable(table, source, frame, cursor, key)


def table_location(spark: SparkSession, source: Source, table: TableName) -> str:
    """The path of a file table: a directory of its name, or one file with the format's suffix."""
    root = str(source.path)
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


def _load(
    spark: SparkSession, source: Source, table: TableName, settings: TableSettings
) -> DataFrame:
    if source.format == "table":
        return spark.table(source.table_name(table.source))
    reader = _reader(spark, source, settings.options)
    if settings.schema_ddl:
        reader = reader.schema(settings.schema_ddl)
    if source.format == "jdbc":
        return reader.option("dbtable", source.table_name(table.source)).load()
    return reader.load(table_location(spark, source, table))


def _reader(spark: SparkSession, source: Source, options: Mapping[str, str]) -> DataFrameReader:
    reader = spark.read.format(source.format)
    given = {name.lower() for name in options}
    for name, value in _SAFE_OPTIONS.get(source.format, {}).items():
        if name.lower() not in given:
            reader = reader.option(name, value)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader
