"""Everything Holdfast remembers, by kind, on top of any ledger."""

from __future__ import annotations

from typing import Final

from holdfast.ledger.contract import Ledger, Transaction
from holdfast.ledger.leases import Leases
from holdfast.ledger.typed import Collection
from holdfast.model import (
    Batch,
    CheckpointEntry,
    Head,
    Intent,
    Live,
    Pin,
    Plan,
    RollBack,
    RowCount,
    Run,
    SchemaEntry,
    SinkPosition,
    SourceColumns,
    TableOutcome,
    TableSchema,
    Watermark,
)

KEPT_VERSIONS: Final = 1000
"""Steps of history kept per table."""
KEPT_RUNS: Final = 500
"""Runs, and plans, kept per pipeline."""


class Records:
    """The ledger's collections. The newest version of a record is the truth; older ones are
    its history: a table's watermarks, its row counts, its schemas."""

    watermarks: Final = Collection("watermarks", Watermark)
    intents: Final = Collection("intents", Batch)
    row_counts: Final = Collection("row_counts", RowCount)
    schemas: Final = Collection("schemas", TableSchema)
    source_columns: Final = Collection("source_columns", SourceColumns)
    runs: Final = Collection("runs", Run)
    outcomes: Final = Collection("outcomes", TableOutcome)
    plans: Final = Collection("plans", Plan)

    # Checkpoints; `holdfast.checkpoint` says how they belong together.
    heads: Final = Collection("heads", Head)
    checkpoints: Final = Collection("checkpoints", CheckpointEntry)
    manifests: Final = Collection("manifests", str)
    ancestors: Final = Collection("ancestors", str)
    epoch_intents: Final = Collection("epoch_intents", Intent)
    stream_schemas: Final = Collection("stream_schemas", SchemaEntry)
    sink_positions: Final = Collection("sink_positions", SinkPosition)
    pins: Final = Collection("pins", Pin)
    rollbacks: Final = Collection("rollbacks", RollBack)
    live: Final = Collection("live", Live)

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.leases = Leases(ledger)

    def remember_watermark(self, change: Transaction, table: str, watermark: Watermark) -> None:
        """Move a table's watermark, keeping where it was."""
        self.watermarks.put(change, table, watermark)
        self.watermarks.prune(change, table, KEPT_VERSIONS)

    def remember_row_count(self, change: Transaction, table: str, count: RowCount) -> None:
        """Add a sample to a table's row-count history."""
        self.row_counts.put(change, table, count)
        self.row_counts.prune(change, table, KEPT_VERSIONS)

    def remember_source_columns(
        self, change: Transaction, table: str, columns: SourceColumns | None
    ) -> None:
        """Remember a source's columns, so that they need not be learned at every run."""
        if columns is not None and self.source_columns.get(change, table) != columns:
            self.source_columns.put(change, table, columns)
            self.source_columns.prune(change, table, 1)

    def remember_outcome(self, change: Transaction, run_id: str, outcome: TableOutcome) -> None:
        """Record how a table fared in a run."""
        self.outcomes.put(change, f"{run_id}/{outcome.table}", outcome)

    def outcomes_of(self, view: Transaction, run_id: str) -> list[TableOutcome]:
        """Every outcome recorded for a run so far, by table."""
        return [outcome for _, outcome in self.outcomes.items(view, f"{run_id}/")]

    def remember_run(self, change: Transaction, run: Run) -> None:
        """Record a run and forget the oldest ones of its pipeline."""
        key = f"{run.pipeline}/{run.run_id}"
        if self.runs.get(change, key) is None:
            self._forget_old_runs(change, run.pipeline)
        self.runs.put(change, key, run)

    def runs_of(self, view: Transaction, pipeline: str) -> list[Run]:
        """A pipeline's runs, newest first: their ids are ordered by time."""
        return [run for _, run in self.runs.items(view, f"{pipeline}/")][::-1]

    def last_run(self, view: Transaction, pipeline: str) -> Run | None:
        """A pipeline's newest run."""
        keys = view.keys(self.runs.namespace, f"{pipeline}/")
        return self.runs.get(view, keys[-1]) if keys else None

    def tables(self, view: Transaction) -> list[str]:
        """Every table that has ever had a watermark or has a batch open."""
        return sorted(
            {
                *view.keys(self.watermarks.namespace),
                *view.keys(self.intents.namespace),
            }
        )

    def _forget_old_runs(self, change: Transaction, pipeline: str) -> None:
        keys = change.keys(self.runs.namespace, f"{pipeline}/")
        for key in keys[: max(0, len(keys) - KEPT_RUNS + 1)]:
            run_id = key.rpartition("/")[2]
            for outcome in change.keys(self.outcomes.namespace, f"{run_id}/"):
                self.outcomes.prune(change, outcome, 0)
            self.runs.prune(change, key, 0)
