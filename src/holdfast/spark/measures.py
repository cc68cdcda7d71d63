"""What is counted while rows are read: one pass, one set of aggregates.

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
    """What a pass over some rows found."""

    rows: int
    last: Position | None
    nulls: dict[str, int]
    digest: str
    """Of the rows inside the window; empty without one."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a source holds, before any of it is copied."""

    total: int
    rows: int
    """Rows in `(low, high]`."""
    high: Position | None
    """The highest position that may be copied; `None` if no row may."""
    without_cursor: int
    """Rows in which a cursor column is null."""
    in_future: int
    """Rows past the tolerated clock skew, left for later."""
    digest: str = ""


def batch_measures(
    cursor: Cursor | None, null_columns: Sequence[str], window: Window | None
) -> list[Column]:
    """Aggregates over the rows of a batch; `read_measures` takes their result."""
    columns = [F.count(F.lit(1)).alias("rows")]
    if cursor is not None:
        columns += _flat(cursor, cursor.greatest(cursor.present()))
    for i, name in enumerate(null_columns):
        columns.append(F.count_if(F.col(quoted(name)).isNull()).alias(f"nulls{i}"))
    if window is not None and cursor is not None:
        columns += _digest(cursor, window)
    return columns


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


def probe_frame(
    frame: DataFrame,
    cursor: Cursor | None,
    *,
    low: Position | None,
    ceiling: Position | None,
    skew_limit: Position | None,
    window: Window | None,
) -> Probe:
    """Look at a whole source once: how many rows, how many are new, how far they reach."""
    if cursor is None:
        total = frame.count()
        return Probe(total, total, None, 0, 0)
    eligible = cursor.after(low) & cursor.up_to(ceiling)
    columns = [
        F.count(F.lit(1)).alias("total"),
        F.count_if(eligible).alias("rows"),
        F.count_if(~cursor.present()).alias("without_cursor"),
        F.count_if(F.lit(False) if skew_limit is None else ~cursor.up_to(skew_limit)).alias(
            "in_future"
        ),
        *_flat(cursor, cursor.greatest(eligible)),
        *(_digest(cursor, window) if window is not None else []),
    ]
    found = frame.agg(*columns).collect()[0].asDict()
    return Probe(
        total=_int(found["total"]),
        rows=_int(found["rows"]),
        high=_last(cursor, found),
        without_cursor=_int(found["without_cursor"]),
        in_future=_int(found["in_future"]),
        digest=_read_digest(found),
    )


def _flat(cursor: Cursor, position: Column) -> list[Column]:
    # Flat, because an observation hands nested values to Python as bare JVM objects.
    texts = cursor.texts(position)
    return [texts.getField(f"c{i}").alias(f"last{i}") for i in range(len(cursor.columns))]


def _last(cursor: Cursor, found: Mapping[str, object]) -> Position | None:
    values = [found[f"last{i}"] for i in range(len(cursor.columns))]
    return None if values[0] is None else cursor.position(values)


def _digest(cursor: Cursor, window: Window) -> list[Column]:
    inside = cursor.after(window.after) & cursor.up_to(window.up_to)
    identity = F.xxhash64(*(F.col(quoted(name)) for name in window.identity))
    return [
        F.count_if(inside).alias("window_rows"),
        # Exclusive or, not a sum: a sum of hashes overflows, which ANSI mode refuses.
        F.bit_xor(F.when(inside, identity)).alias("window_hash"),
    ]


def _read_digest(found: Mapping[str, object]) -> str:
    if "window_rows" not in found:
        return ""
    return f"{_int(found['window_rows'])}:{_int(found['window_hash'] or 0) & (2**64 - 1):016x}"


def _int(value: object) -> int:
    return int(str(value))
