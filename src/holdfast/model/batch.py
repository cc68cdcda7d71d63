"""One unit of copied rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.model.position import Position

Strategy = Literal["incremental", "merge", "full_refresh"]

Reason = Literal["first_run", "watermark", "late_rows", "deleted", "refresh", "rewound", "recover"]
"""Why a batch is copied; `recover` finishes one that a crash left open."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The intent to copy the rows in `(low, high]`, durable before the first of them is read."""

    batch_id: str
    table: str
    run_id: str
    generation: int
    strategy: Strategy
    reason: Reason
    low: Position | None
    """Exclusive; `None` reads from the beginning."""
    high: Position | None
    """Inclusive; `None` reads to the end (a refresh without a cursor)."""
    loaded_at: datetime
    loaded_by: str
    expected_rows: int | None = None
    """Rows the source had in these bounds, if they were counted before the read."""
    replaces_all: bool = False
    """The batch becomes the whole table."""
    replaces: tuple[str, ...] = ()
    """Ids of published batches that this one stands in for."""


@dataclass(frozen=True, slots=True)
class BatchManifest:
    """What a batch contains; stored beside its rows, so that a crash loses none of it."""

    format: int
    batch_id: str
    rows: int
    """Rows read from the source for this batch."""
    written: int
    """Rows counted in the files that were staged: the batch, or the whole table if it is one."""
    whole_table: bool
    """What was staged is the complete table and takes the place of the old one."""
    last: Position | None
    """The highest position among them, or `None` if there were none."""
    nulls: dict[str, int]
    """Nulls per column, for the columns whose null rate is checked."""
    schema: str
    """The table's columns after this batch, as Spark writes a schema in JSON."""
    late_rows: str = ""
    """A digest of the rows inside the overlap window, by which late ones are noticed."""
    source_rows: int | None = None
    """Rows of the whole source."""
    without_cursor: int = 0
    """Rows of the source that a cursor with a null in it keeps from being copied."""
    in_future: int = 0
    """Rows of the source that lie in the future and wait."""
    drift: tuple[str, ...] = ()
    """How the source's columns had changed, as sentences."""
