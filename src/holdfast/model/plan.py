"""What a run would do, decided before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from holdfast.model.batch import Reason, Strategy
from holdfast.model.position import Position
from holdfast.model.run import Failure


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """What is to be done with one table, and why."""

    table: str
    source: str
    target: str
    """The path the rows go to."""
    action: Literal["copy", "nothing", "blocked"]
    strategy: Strategy
    reason: Reason | None
    low: Position | None
    high: Position | None
    rows: int
    """Rows the source has in `(low, high]` now."""
    source_rows: int | None
    batch_id: str | None
    replaces_all: bool
    watermark_version: int
    """The version of the watermark the plan was made from; 0 if there was none."""
    intent_version: int
    """The version of the open batch it was made from; 0 if there was none."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A stored plan; `apply` runs exactly this or refuses."""

    plan_id: str
    pipeline: str
    created_at: datetime
    fingerprint: str
    document: dict[str, Any]
    """The normalised configuration the plan was made from."""
    full_refresh: bool
    tables: tuple[PlannedTable, ...]
    applied_by_run: str | None = None
