"""How far a table has been read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import total_ordering
from typing import Any

from holdfast.clock import isoformat
from holdfast.errors import UsageError

UNTYPED = ""
"""The type of a value that a person wrote; it takes its column's type when it is first used."""

INTEGER_TYPES = frozenset({"tinyint", "smallint", "int", "bigint"})
_DECIMAL_DIGITS = 38
TEMPORAL_TYPES = frozenset({"timestamp", "timestamp_ntz", "date"})


def is_cursor_type(name: str) -> bool:
    """Whether a column of this Spark type has a total order that a position can record."""
    return (
        name in INTEGER_TYPES
        or name in TEMPORAL_TYPES
        or name == "string"
        or name.startswith("decimal(")
    )


def canonical(type_name: str, text: str) -> str:
    """Write a value the one way its type is written, or raise `UsageError`."""
    try:
        if type_name.startswith("decimal("):
            _refuse_finer(type_name, text)
        return _FORMATS[_family(type_name)](text)
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise UsageError(f"{text!r} is not a value of type {type_name}.") from error


def _refuse_finer(type_name: str, text: str) -> None:
    """Refuse digits the type has no place for: Spark would round them, maybe past a row."""
    scale = int(type_name.rstrip(")").rpartition(",")[2])
    exponent = Decimal(text).normalize().as_tuple().exponent
    if isinstance(exponent, int) and -exponent > scale:
        raise ValueError(f"{text} has more than {scale} digits after the point")


@total_ordering
@dataclass(frozen=True, slots=True)
class Position:
    """One value per cursor column, most significant first; a row is read when it is past it."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """Spark's name of each column's type, or `UNTYPED`."""
    values: tuple[str, ...]
    """Canonical text; timestamps are UTC to the microsecond."""

    def typed(self, columns: tuple[str, ...], types: tuple[str, ...]) -> Position:
        """Return the same place as a position over columns of these names and types."""
        if len(columns) != len(self.values):
            raise UsageError(
                f"The position ({self}) has {len(self.values)} value(s), "
                f"but the cursor has {len(columns)} column(s): {', '.join(columns)}."
            )
        if [name.lower() for name in columns] != [name.lower() for name in self.columns]:
            raise UsageError(
                f"The position ({self}) is one of {', '.join(self.columns)}, "
                f"but the cursor is {', '.join(columns)} now."
            )
        values = tuple(canonical(new, text) for new, text in zip(types, self.values, strict=True))
        return Position(columns, types, values)

    def first(self, count: int) -> Position:
        """Return the place in the first columns alone, which stands for every tie in them."""
        return Position(self.columns[:count], self.types[:count], self.values[:count])

    def minus(self, span: timedelta) -> Position:
        """Return the place `span` earlier in the first column, before every tie in it."""
        first = _PARSERS[_family(self.types[0])](self.values[0])
        if isinstance(first, datetime):
            beginning = datetime.min.replace(tzinfo=first.tzinfo)
            text = max(first - min(span, first - beginning), beginning).isoformat()
        elif isinstance(first, date):
            # Whole days, rounded up: an overlap may read too much, never too little.
            days = min(-(-span // timedelta(days=1)), (first - date.min).days)
            text = (first - timedelta(days=days)).isoformat()
        else:
            raise UsageError(
                f"An overlap needs a time column, but {self.columns[0]} is {self.types[0]}."
            )
        earlier = canonical(self.types[0], text)
        return Position(self.columns[:1], self.types[:1], (earlier,))

    def moment(self) -> datetime | None:
        """Return the first column as a moment in UTC, or `None` if it is not a time."""
        if self.types[0] not in TEMPORAL_TYPES:
            return None
        value = _PARSERS[_family(self.types[0])](self.values[0])
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        return None

    def __lt__(self, other: Position) -> bool:
        for type_name, mine, theirs in zip(self.types, self.values, other.values, strict=False):
            parse = _PARSERS[_family(type_name)]
            left, right = parse(mine), parse(theirs)
            if left != right:
                return bool(left < right)
        return len(self.values) < len(other.values)

    def __str__(self) -> str:
        return ", ".join(self.values)


def _family(type_name: str) -> str:
    if type_name in INTEGER_TYPES:
        return "integer"
    return "decimal" if type_name.startswith("decimal(") else type_name


def _timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _timestamp_ntz(text: str) -> datetime:
    return _timestamp(text).replace(tzinfo=None)


def _date(text: str) -> date:
    return datetime.fromisoformat(text).date()


def _plain_decimal(text: str) -> str:
    value = Decimal(text)
    if not value.is_finite() or value.adjusted() > _DECIMAL_DIGITS:
        raise ValueError(f"{text} is no number with at most {_DECIMAL_DIGITS} digits")
    return format(value, "f")


# Values of one family only ever meet values of the same family.
_PARSERS: dict[str, Callable[[str], Any]] = {
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "date": _date,
    "integer": int,
    "decimal": Decimal,
    "string": str,
    UNTYPED: str,
}

_FORMATS: dict[str, Callable[[str], str]] = {
    "timestamp": lambda text: isoformat(_timestamp(text)),
    "timestamp_ntz": lambda text: _timestamp_ntz(text).isoformat(timespec="microseconds"),
    "date": lambda text: _date(text).isoformat(),
    "integer": lambda text: str(int(text)),
    "decimal": _plain_decimal,
    "string": str,
    UNTYPED: str,
}
