"""Positions as Spark sees them: predicates, literals, and the greatest one of a frame."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F
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
        """Build a position from what `texts` selected."""
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

    def after(self, position: Position | None) -> Column:
        """Select the rows past a position; `None` selects every row that has one."""
        if position is None:
            return self.present()
        return self._beyond(position, 0)

    def up_to(self, position: Position | None) -> Column:
        """Select the rows at or before a position; `None` selects every row that has one."""
        if position is None:
            return self.present()
        # Not `~beyond`: that would be null, hence false, in another way for null cursors, and
        # sources push a plain comparison down where they do not push a negation.
        return self._within(position, 0)

    def present(self) -> Column:
        """Select the rows in which no cursor column is null."""
        condition = F.col(quoted(self.columns[0])).isNotNull()
        for name in self.columns[1:]:
            condition = condition & F.col(quoted(name)).isNotNull()
        return condition

    def greatest(self, condition: Column) -> Column:
        """Aggregate the greatest position among the rows that meet `condition`."""
        parts = [F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(self.columns)]
        return F.max(F.when(condition, F.struct(*parts)))

    def texts(self, position: Column) -> Column:
        """Turn what `greatest` gave into the values `position` takes."""
        values = []
        for i, type_name in enumerate(self.types):
            field = position.getField(f"c{i}")
            value = F.unix_micros(field) if type_name == "timestamp" else field
            values.append(value.cast("string").alias(f"c{i}"))
        return F.struct(*values)

    def _beyond(self, position: Position, i: int) -> Column:
        column, bound = self._pair(position, i)
        if i + 1 == len(position.values):
            return column > bound
        # The first comparison alone is what a source can push down.
        return (column >= bound) & ((column > bound) | self._beyond(position, i + 1))

    def _within(self, position: Position, i: int) -> Column:
        column, bound = self._pair(position, i)
        if i + 1 == len(position.values):
            return column <= bound
        return (column <= bound) & ((column < bound) | self._within(position, i + 1))

    def _pair(self, position: Position, i: int) -> tuple[Column, Column]:
        return F.col(quoted(self.columns[i])), literal(self.types[i], position.values[i])


def literal(type_name: str, text: str) -> Column:
    """Write a canonical value as a Spark literal that sources can push down."""
    if type_name == "timestamp":
        return F.timestamp_micros(F.lit(_to_micros(text)))
    if type_name == "string":
        return F.lit(text)
    return F.lit(text).cast(type_name)


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
