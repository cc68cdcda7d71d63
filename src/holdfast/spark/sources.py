"""Where rows come from: any format Spark can read in batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Observation

from holdfast.config import Source, TableSettings
from holdfast.model import Position, TableName
from holdfast.spark import jdbc
from holdfast.spark.cursor import Cursor, resolve_column
from holdfast.spark.failures import translated
from holdfast.spark.footers import Footers
from holdfast.spark.measures import (
    Census,
    Measures,
    Probe,
    Window,
    batch_measures,
    census_measures,
    probe_frame,
    read_census,
    read_measures,
)
from holdfast.spark.reading import reader_for

# Formats of which every row is read whatever the filter.
_PARSED_WHOLE: Final = frozenset({"csv", "json", "xml", "text", "avro"})


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows that are counted as they are read; the counts may be asked for afterwards."""

    rows: DataFrame
    census: Callable[[], Census]
    measures: Callable[[], Measures] | None = None
    """`None` if nobody counts the rows but the one who reads them."""


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
    options: Mapping[str, str]
    """The source's options, with the table's own over them."""
    footers: Footers | None = None
    """What its files say of themselves, where they are Parquet and on this machine."""

    @classmethod
    def of(
        cls,
        table: TableName,
        source: Source,
        frame: DataFrame,
        settings: TableSettings,
        footers: Footers | None = None,
    ) -> SourceTable:
        """Find the columns that a table's settings name."""
        schema, name = frame.schema, str(table)
        cursor = Cursor.over(schema, settings.cursor, table=name) if settings.cursor else None
        key = tuple(
            resolve_column(schema, column, table=name, role="primary key")
            for column in settings.primary_key
        )
        return cls(table, source, frame, cursor, key, settings.options, footers)

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
                    reader=reader_for(self.frame.sparkSession, self.source, self.options),
                    source=self.source,
                    table=self.table.source,
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
        return self.source.format in _PARSED_WHOLE or self.footers is not None

    def counted_rows(
        self,
        low: Position | None,
        high: Position | None,
        skew_limit: Position | None,
        null_columns: Sequence[str],
    ) -> CountedRows:
        """The rows in `(low, high]`, counted with the rest of the source as they are read."""
        cursor = self.cursor
        assert cursor is not None, "a source without a cursor is read whole"
        frame, total = self.frame, None
        within = cursor.between(low, high)
        if self.footers is not None:
            total = self.footers.rows
            # A filter the footers can answer: only what is left is read and counted.
            frame = frame.where(cursor.not_copied(low))
            # What follows does not name the table's own bound again. Spark compiles code for
            # every constant it meets, and the present is the same for all tables of a run.
            within = cursor.up_to(high)
        observation = Observation()
        frame = frame.observe(
            observation,
            *census_measures(cursor, skew_limit, total=total is None),
            *batch_measures(cursor, null_columns, None, within=within),
        )
        return CountedRows(
            frame.where(within),
            census=lambda: read_census(observation.get, total=total),
            measures=lambda: read_measures(observation.get, cursor, null_columns),
        )

    def over(self, frame: DataFrame, settings: TableSettings) -> SourceTable:
        """The same table with other columns and no files."""
        return SourceTable.of(self.table, self.source, frame, settings)
