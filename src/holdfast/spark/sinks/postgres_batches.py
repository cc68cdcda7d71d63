"""How the rows of a batch leave Spark: over its executors, or, if they are few, to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.spark.failures import translated
from holdfast.spark.sinks.postgres_errors import Failure
from holdfast.spark.sinks.postgres_staging import (
    STAGED,
    StagingPlan,
    joined_lines,
    stager,
)
from holdfast.spark.sinks.postgres_table import FittedColumn
from holdfast.spark.sinks.postgres_types import copy_line

DIRECT_ROWS: Final = 20_000
_DIRECT_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch, ready to be loaded."""

    tables: dict[str, int]
    """Staging tables, and the rows in each."""
    lines: tuple[bytes, ...]
    """Lines for COPY that were too few for a table."""
    rows: int

    @property
    def is_small(self) -> bool:
        """Whether the driver could have taken all of it at once."""
        return (
            not self.tables
            and self.rows <= DIRECT_ROWS
            and sum(map(len, self.lines)) <= _DIRECT_BYTES
        )


class Batches:
    """Takes rows out of Spark, for one sink."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._small = False
        self._line: tuple[tuple[FittedColumn, ...], Column] | None = None

    def stage(
        self,
        frame: DataFrame,
        columns: Sequence[FittedColumn],
        plan: StagingPlan,
    ) -> Staged:
        """Stage a batch.

        After a small batch the next one is expected to be small as well. Then no Python worker
        takes part, which halves the time; if it is not small, it is staged after all.
        """
        line = self._line_of(tuple(columns))
        # Should the rows be more than the driver can hold, the next try does not ask it to.
        small, self._small = self._small, False
        with translated(f"{self._what}: making the rows"):
            staged = self._collect(frame, line) if small else None
            if staged is None:
                staged = self._distribute(frame, line, plan)
        self._small = staged.is_small
        return staged

    def _collect(self, frame: DataFrame, line: Column) -> Staged | None:
        table = frame.limit(DIRECT_ROWS + 1).select(line).toArrow()
        if table.num_rows > DIRECT_ROWS:
            return None
        lines = tuple(joined_lines(chunk) for chunk in table.column(0).chunks)
        return Staged({}, lines, table.num_rows)

    def _distribute(self, frame: DataFrame, line: Column, plan: StagingPlan) -> Staged:
        answers = frame.select(line).mapInArrow(stager(plan), STAGED).collect()
        for answer in answers:
            if answer.failure is not None:
                raise Failure.from_json(answer.failure).explain(self._what)
        return Staged(
            {answer.stage: answer.rows for answer in answers if answer.stage is not None},
            tuple(bytes(answer.lines) for answer in answers if answer.lines is not None),
            sum(answer.rows for answer in answers),
        )

    def _line_of(self, columns: tuple[FittedColumn, ...]) -> Column:
        # Kept from batch to batch: it is many calls into the JVM, about 10 ms a column.
        if self._line is None or self._line[0] != columns:
            parts = [(_column(c.field.name), c.field.dataType, c.kind) for c in columns]
            self._line = (columns, copy_line(parts).alias("line"))
        return self._line[1]


def _column(name: str) -> Column:
    # Quoted: a dot in a name would mean a field of a struct.
    return F.col("`" + name.replace("`", "``") + "`")
