"""What a run did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.model.batch import Reason, Strategy
from holdfast.model.checks import CheckResult
from holdfast.model.position import Position

RunStatus = Literal["running", "success", "partial", "failed", "interrupted", "died"]
TableStatus = Literal["copied", "unchanged", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something failed, and what to do about it."""

    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """How one table fared in one run."""

    table: str
    status: TableStatus
    strategy: Strategy
    reason: Reason | None
    rows: int
    low: Position | None
    high: Position | None
    batch_ids: tuple[str, ...]
    """Batches committed in this run: two when a crashed one was finished first."""
    source_rows: int | None
    duration_ms: int
    checks: tuple[CheckResult, ...] = ()
    drift: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def anomalies(self) -> tuple[CheckResult, ...]:
        """The row-count anomalies among its checks."""
        return tuple(c for c in self.checks if c.check == "anomaly" and c.bad)


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a pipeline."""

    run_id: str
    pipeline: str
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None
    tables: tuple[str, ...]
    actor: str
    generation: int
    plan_id: str | None = None
    resumes: str | None = None
    failure: Failure | None = None
    """Why it ended before its tables did, for example an unreadable source."""
