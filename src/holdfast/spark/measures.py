"""What is counted while rows are read.

The same aggregates serve a probe (`DataFrame.agg`) and a write (`DataFrame.observe`), so that
measuring a batch costs no second pass over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.model import Position
from holdfast.spark.cursor import Cursor, quoted


@dataclass(frozen=True, slots=True)
class Window:
    """The rows an overlap reads again, and the columns that tell one version of a row."""

    after: Position
    up_to: Position
    identity: tuple[str, ...]
    """Primary key and cursor: two rows equal in these are the same version of the same row."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What a pass over the rows of a batch found."""

    rows: int
    last: Position | None
    nulls: dict[str, int]
    digest: str
    """Of the rows inside the window; empty without one."""


@dataclass(frozen=True, slots=True)
class Census:
    """What is known of a whole source, copied or not."""

    total: int | None
    """Rows of the whole source; `None` if they were not counted."""
    without_cursor: int = 0
    """Rows in which a cursor column is null."""
    in_future: int = 0
    """Rows past the tolerated clock skew, left for later."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a source holds, found before any of it is copied."""

    census: Census
    rows: int
    """Rows in `(low, high]`."""
    high: Position | None
    """The highest position that may be copied; `None` if no row may."""
    digest: str = ""


def batch_measures(
    cursor: Cursor | None,
    null_columns: Sequence[str],
    window: Window | None,
    *,
    within: str = "true",
) -> list[Column]:
    """Aggregates over the rows of a batch, those that meet `within`."""
    columns = [f"count_if({within}) AS rows"]
    if cursor is not None:
        columns += _greatest(cursor, f"{within} AND {cursor.present()}")
    for i, name in enumerate(null_columns):
        columns.append(f"count_if({within} AND {quoted(name)} IS NULL) AS nulls{i}")
    if window is not None and cursor is not None:
        columns += _digest(cursor, window)
    return [F.expr(text) for text in columns]


def read_measures(
    found: Mapping[str, object], cursor: Cursor | None, null_columns: Sequence[str]
) -> Measures:
    """Turn the result of `batch_measures` into a value."""
    return Measures(
        rows=_int(found["rows"]),
        last=None if cursor is None else _last(cursor, found),
        nulls={name: _int(found[f"nulls{i}"]) for i, name in enumerate(null_columns)},
        digest=_read_digest(found),
    )


def census_measures(
    cursor: Cursor | None, skew_limit: Position | None, *, total: bool
) -> list[Column]:
    """Aggregates over a source's rows; `read_census` takes their result."""
    columns = ["count(1) AS total"] if total else []
    if cursor is not None:
        columns.append(f"count_if(NOT {cursor.present()}) AS without_cursor")
    if cursor is not None and skew_limit is not None:
        columns.append(f"count_if(NOT {cursor.up_to(skew_limit)}) AS in_future")
    return [F.expr(text) for text in columns]


def read_census(found: Mapping[str, object], *, total: int | None = None) -> Census:
    """Turn the result of `census_measures` into a value; `total` is one that is known anyway."""
    return Census(
        total=_int(found["total"]) if "total" in found else total,
        without_cursor=_int(found.get("without_cursor", 0)),
        in_future=_int(found.get("in_future", 0)),
    )


def probe_frame(
    frame: DataFrame,
    cursor: Cursor,
    *,
    low: Position | None,
    ceiling: Position | None,
    skew_limit: Position | None,
    window: Window | None,
) -> Probe:
    """Look at a whole source once: how many rows, how many are new, how far they reach."""
    eligible = cursor.between(low, ceiling)
    columns = [
        f"count_if({eligible}) AS rows",
        *_greatest(cursor, eligible),
        *(_digest(cursor, window) if window is not None else []),
    ]
    counts = census_measures(cursor, skew_limit, total=True)
    found = frame.agg(*counts, *(F.expr(text) for text in columns)).collect()[0].asDict()
    return Probe(
        census=read_census(found),
        rows=_int(found["rows"]),
        high=_last(cursor, found),
        digest=_read_digest(found),
    )


def _greatest(cursor: Cursor, condition: str) -> list[str]:
    return [f"{text} AS last{i}" for i, text in enumerate(cursor.greatest(condition))]


def _last(cursor: Cursor, found: Mapping[str, object]) -> Position | None:
    values = [found[f"last{i}"] for i in range(len(cursor.columns))]
    return None if values[0] is None else cursor.position(values)


def _digest(cursor: Cursor, window: Window) -> list[str]:
    inside = cursor.between(window.after, window.up_to)
    identity = f"xxhash64({', '.join(quoted(name) for name in window.identity)})"
    return [
        f"count_if({inside}) AS window_rows",
        # Exclusive or, not a sum: a sum of hashes overflows, which ANSI mode refuses.
        f"bit_xor(CASE WHEN {inside} THEN {identity} END) AS window_hash",
    ]


def _read_digest(found: Mapping[str, object]) -> str:
    if "window_rows" not in found:
        return ""
    return f"{_int(found['window_rows'])}:{_int(found['window_hash'] or 0) & (2**64 - 1):016x}"


def _int(value: object) -> int:
    return int(str(value))
