"""A run: tables side by side, one failing alone, interruptible, resumable."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import CheckFailed, HoldfastError, Interrupted, LeaseLost
from holdfast.model import (
    Failure,
    Lease,
    PlannedTable,
    Run,
    RunStatus,
    TableName,
    TableOutcome,
    TableStatus,
)
from holdfast.pipelines.job import Job, Progress
from holdfast.pipelines.leasing import heartbeat
from holdfast.pipelines.mistakes import unexpected
from holdfast.pipelines.replicating import TableReplication
from holdfast.pipelines.signals import noticing_interrupts
from holdfast.spark.jobs import cancel, labelled


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run with the outcome of each of its tables."""

    run: Run
    outcomes: tuple[TableOutcome, ...]


class Runner:
    """Runs the tables of one job under its lease."""

    def __init__(self, job: Job, progress: Progress, *, log_path: Path | None = None) -> None:
        self._job = job
        self._progress = progress
        self._log_path = log_path
        self._stop = threading.Event()

    def run(
        self,
        tables: Sequence[TableName],
        *,
        lease: Lease,
        plans: Mapping[str, PlannedTable] | None = None,
        plan_id: str | None = None,
        resumes: str | None = None,
    ) -> RunResult:
        """Copy every table; returns even when tables fail or the user interrupts."""
        job = self._job
        run = Run(
            run_id=job.run_id,
            pipeline=job.name,
            status="running",
            started_at=job.clock(),
            finished_at=None,
            tables=tuple(table.key for table in tables),
            actor=job.actor,
            generation=job.generation,
            plan_id=plan_id,
            resumes=resumes,
        )
        self._remember(run)
        self._progress.begin([table.key for table in tables])
        with heartbeat(job.records, job.name, lease, self.stop):
            outcomes = self._run_tables(tables, plans or {})
        run = replace(run, status=_status(outcomes), finished_at=job.clock())
        self._remember(run)
        return RunResult(run, tuple(outcomes))

    def stop(self) -> None:
        """Start no further table and cancel the Spark jobs of those that run."""
        self._stop.set()
        cancel(self._job.spark, self._job.run_id)

    def _run_tables(
        self, tables: Sequence[TableName], plans: Mapping[str, PlannedTable]
    ) -> list[TableOutcome]:
        workers = min(self._job.pipeline.concurrency, max(1, len(tables)))
        with ThreadPoolExecutor(workers, thread_name_prefix="holdfast") as pool:
            futures = [pool.submit(self._turn, table, plans.get(table.key)) for table in tables]
            with noticing_interrupts() as asked:
                self._wait(futures, asked)
            return [future.result() for future in futures]

    def _wait(self, futures: list[Future[TableOutcome]], asked: threading.Event) -> None:
        pending = set(futures)
        while pending:
            # Short waits: the interpreter handles a signal only between two of them.
            _, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
            if asked.is_set():
                # Again at every turn: a table may have started a job since the last time.
                self.stop()

    def _turn(self, table: TableName, plan: PlannedTable | None) -> TableOutcome:
        """Run one table, turning whatever goes wrong into its outcome."""
        if self._stop.is_set():
            return self._unfinished(table, "interrupted", None)
        job = self._job
        try:
            with labelled(job.spark, job.run_id, f"holdfast {table.key}"):
                outcome = TableReplication(
                    job, table, lambda phase: self._progress.phase(table.key, phase)
                ).run(plan)
        except HoldfastError as error:
            interrupted = self._stop.is_set() or isinstance(error, Interrupted)
            outcome = self._unfinished(table, "interrupted" if interrupted else "failed", error)
        except Exception as error:  # noqa: BLE001 - one table's accident must not end the others
            interrupted = self._stop.is_set()
            named = unexpected(table.key, error, log_path=self._log_path, now=self._job.clock())
            outcome = self._unfinished(table, "interrupted" if interrupted else "failed", named)
        self._progress.done(outcome)
        return outcome

    def _unfinished(
        self, table: TableName, status: TableStatus, error: HoldfastError | None
    ) -> TableOutcome:
        outcome = TableOutcome(
            table=table.key,
            status=status,
            strategy=self._job.pipeline.settings_for(table.source).strategy,
            reason=None,
            rows=0,
            low=None,
            high=None,
            batch_ids=(),
            source_rows=None,
            duration_ms=0,
            checks=error.results if isinstance(error, CheckFailed) else (),
            failure=None
            if error is None or status == "interrupted"
            else Failure(type(error).__name__, error.message, error.hint),
        )
        if not isinstance(error, LeaseLost):
            with self._job.records.ledger.writing() as change:
                self._job.records.remember_outcome(change, self._job.run_id, outcome)
        return outcome

    def _remember(self, run: Run) -> None:
        with self._job.records.ledger.writing() as change:
            self._job.records.remember_run(change, run)


def _status(outcomes: Sequence[TableOutcome]) -> RunStatus:
    kinds = {outcome.status for outcome in outcomes}
    if "interrupted" in kinds:
        return "interrupted"
    if "failed" not in kinds:
        return "success"
    return "failed" if kinds == {"failed"} else "partial"
