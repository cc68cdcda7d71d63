"""A run: tables side by side, one failing alone, interruptible, resumable."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.clock import isoformat
from holdfast.errors import CheckFailed, HoldfastError, Interrupted, LeaseLost
from holdfast.ledger.leases import TTL_SECONDS
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
        with self._heartbeat(lease):
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
            outcome = self._unfinished(
                table, "interrupted" if interrupted else "failed", self._unexpected(table, error)
            )
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

    def _unexpected(self, table: TableName, error: Exception) -> HoldfastError:
        """Keep the trace of a mistake of ours where it can be reported from."""
        hint = "This is a mistake in Holdfast."
        if self._log_path is not None:
            self._log_path.parent.mkdir(parents=True, exist_ok=True)
            with self._log_path.open("a", encoding="utf-8") as log:
                log.write(f"{isoformat(self._job.clock())} {table.key}\n")
                log.write("".join(traceback.format_exception(error)))
            hint += f" Please report it with the trace in {self._log_path}"
        return HoldfastError(f"{table.key}: {type(error).__name__}: {error}", hint=hint)

    def _remember(self, run: Run) -> None:
        with self._job.records.ledger.writing() as change:
            self._job.records.remember_run(change, run)

    @contextmanager
    def _heartbeat(self, lease: Lease) -> Iterator[None]:
        """Renew the lease until the run ends, and stop the run if it is lost."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(TTL_SECONDS / 3):
                try:
                    self._job.records.leases.renew(self._job.name, lease)
                except LeaseLost:
                    self.stop()
                    return
                except HoldfastError:
                    # A busy ledger: two more beats follow before the lease runs out, and every
                    # commit checks it anyway.
                    continue

        thread = threading.Thread(target=beat, name="holdfast-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _status(outcomes: Sequence[TableOutcome]) -> RunStatus:
    kinds = {outcome.status for outcome in outcomes}
    if "interrupted" in kinds:
        return "interrupted"
    if "failed" not in kinds:
        return "success"
    return "failed" if kinds == {"failed"} else "partial"
