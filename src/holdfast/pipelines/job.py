"""What every table of a run shares."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast.clock import Clock
from holdfast.config import ReplicatePipeline
from holdfast.ledger.records import Records
from holdfast.model import TableOutcome
from holdfast.spark.session import SparkSession


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one pipeline."""

    name: str
    pipeline: ReplicatePipeline
    records: Records
    spark: SparkSession
    run_id: str
    generation: int
    actor: str
    started_at: datetime
    full_refresh: bool = False
    allow_failed_checks: bool = False

    @property
    def clock(self) -> Clock:
        """The ledger's clock, so that a run has one idea of the time."""
        return self.records.ledger.clock

    @property
    def loaded_by(self) -> str:
        """Who is written into the rows as having copied them."""
        return self.pipeline.loaded_by or self.actor


class Progress(Protocol):
    """Someone who is told how a run goes on; called from several threads."""

    def begin(self, tables: list[str], doing: str = "copying") -> None:
        """It is known which tables there are."""

    def phase(self, table: str, phase: str) -> None:
        """A table has got to another phase."""

    def planned(self, table: str) -> None:
        """It is decided what is to be done with a table."""

    def done(self, outcome: TableOutcome) -> None:
        """A table is finished."""


class Silence:
    """Progress that nobody looks at."""

    def begin(self, tables: list[str], doing: str = "copying") -> None:
        """Say nothing."""

    def planned(self, table: str) -> None:
        """Say nothing."""

    def phase(self, table: str, phase: str) -> None:
        """Say nothing."""

    def done(self, outcome: TableOutcome) -> None:
        """Say nothing."""
