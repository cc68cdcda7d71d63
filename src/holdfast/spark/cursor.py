"""Positions as Spark sees them: predicates, literals, and the greatest one of a frame.

Everything here is SQL text. Built from column objects, the same expressions would cost a
hundred calls into the JVM for every table.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql.types import StructType

from holdfast.clock import isoformat
from holdfast.errors import SourceError
from holdfast.model import Position
from holdfast.model.position import TEMPORAL_TYPES, is_cursor_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The columns that order a table, most significant first, with their Spark types."""

    columns: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def over(cls, schema: StructType, columns: Sequence[str], *, table: str) -> Cursor:
        """Find the cursor's columns in a schema, or say which one is missing or unfit."""
        found = [resolve_column(schema, name, table=table, role="cursor") for name in columns]
        types = [schema[name].dataType.simpleString() for name in found]
        for name, type_name in zip(found, types, strict=True):
            if not is_cursor_type(type_name):
                raise SourceError(
                    f"{table}: column {name} is {type_name}, which cannot order rows.",
                    hint="A cursor column must be an integer, decimal, date, timestamp or string.",
                )
        return cls(tuple(found), tuple(types))

    @property
    def is_temporal(self) -> bool:
        """Whether the first column is a time, so that "in the future" means something."""
        return self.types[0] in TEMPORAL_TYPES

    def position(self, values: Sequence[object]) -> Position:
        """Build a position from the texts that `greatest` or `text` gave."""
        texts = tuple(
            _from_micros(value) if name == "timestamp" else str(value)
            for name, value in zip(self.types, values, strict=True)
        )
        return Position(self.columns, self.types, texts).typed(self.columns, self.types)

    def at(self, moment: datetime) -> Position | None:
        """The position that every row up to `moment` is at or before; `None` if not a time."""
        if not self.is_temporal:
            return None
        first = Position(self.columns[:1], ("timestamp",), (isoformat(moment),))
        return first.typed(self.columns[:1], self.types[:1])

    def after(self, position: Position | None) -> str:
        """Select the rows past a position; `None` selects every row that has one."""
        return self.present() if position is None else self._beyond(position, 0)

    def up_to(self, position: Position | None) -> str:
        """Select the rows at or before a position; `None` selects every row that has one."""
        # Not a negation of `after`: sources push a plain comparison down, but no NOT.
        return self.present() if position is None else self._within(position, 0)

    def between(self, low: Position | None, high: Position | None) -> str:
        """Select the rows in `(low, high]`."""
        return f"({self.after(low)} AND {self.up_to(high)})"

    def not_copied(self, low: Position | None) -> str:
        """Select the rows past a position, and those that have none, so that they are counted."""
        if low is None:
            return "true"
        missing = " OR ".join(f"{quoted(name)} IS NULL" for name in self.columns)
        return f"({self.after(low)} OR {missing})"

    def present(self) -> str:
        """Select the rows in which no cursor column is null."""
        return "(" + " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.columns) + ")"

    def greatest(self, condition: str) -> list[str]:
        """Aggregate the greatest position among the rows that meet `condition`.

        Gives one text per column, as `position` takes them: nested values would reach Python as
        bare JVM objects when they come out of an observation.
        """
        if len(self.columns) == 1:
            # Spark compiles an aggregate of a plain value much better than one of a struct.
            return [self.text(f"max(CASE WHEN {condition} THEN {quoted(self.columns[0])} END)", 0)]
        parts = ", ".join(f"{quoted(name)} AS c{i}" for i, name in enumerate(self.columns))
        found = f"max(CASE WHEN {condition} THEN struct({parts}) END)"
        return [self.text(f"{found}.c{i}", i) for i in range(len(self.columns))]

    def text(self, value: str, i: int) -> str:
        """Turn a value of column `i` into the text `position` takes."""
        return (
            f"CAST({f'unix_micros({value})' if self.types[i] == 'timestamp' else value} AS STRING)"
        )

    def _beyond(self, position: Position, i: int) -> str:
        column, bound = self._pair(position, i)
        if i + 1 == len(position.values):
            return f"({column} > {bound})"
        # The first comparison alone is what a source can push down.
        return f"({column} >= {bound} AND ({column} > {bound} OR {self._beyond(position, i + 1)}))"

    def _within(self, position: Position, i: int) -> str:
        column, bound = self._pair(position, i)
        if i + 1 == len(position.values):
            return f"({column} <= {bound})"
        return f"({column} <= {bound} AND ({column} < {bound} OR {self._within(position, i + 1)}))"

    def _pair(self, position: Position, i: int) -> tuple[str, str]:
        return quoted(self.columns[i]), literal(self.types[i], position.values[i])


def literal(type_name: str, text: str) -> str:
    """Write a canonical value as SQL that folds to a literal, so that sources push it down."""
    if type_name == "timestamp":
        return f"timestamp_micros({_to_micros(text)})"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'" if type_name == "string" else f"CAST('{escaped}' AS {type_name})"


def resolve_column(schema: StructType, name: str, *, table: str, role: str) -> str:
    """Find a column the way Spark does, by name whatever its case, or suggest the nearest."""
    by_lower = {field.lower(): field for field in schema.fieldNames()}
    found = by_lower.get(name.lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    meant = f" Did you mean {by_lower[near[0]]}?" if near else ""
    raise SourceError(
        f"{table}: the {role} column {name} is not in the source.{meant}",
        hint=f"The source has: {', '.join(schema.fieldNames())}.",
    )


def quoted(name: str) -> str:
    """Write a column's name so that no character in it means anything else."""
    return "`" + name.replace("`", "``") + "`"


def _to_micros(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _from_micros(value: object) -> str:
    try:
        return isoformat(_EPOCH + timedelta(microseconds=int(str(value))))
    except OverflowError as error:
        raise SourceError(
            f"A cursor value lies {value} microseconds from 1970, outside the years 1 to 9999.",
            hint="Correct the value at the source; such a row cannot be ordered.",
        ) from error
