"""One table's turn in a run.

    intent     ledger: the bounds and the id of the batch             before_read
    stage      rows written where no reader looks, manifest last      after_write
    check      a check of severity "fail" stops here
    publish    one rename or exchange                                 before_publish, after_publish
    commit     ledger: watermark, row count, schema, outcome at once  before_commit, after_commit
    clear      what staging left behind

The words on the right are the failpoints at which tests kill the process. A crash before the
commit leaves the intent: the next run finds it, sees how far the batch got, and finishes it
from there. A crash after the commit leaves only files to clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from holdfast.checks import Facts, evaluate
from holdfast.errors import CheckFailed, HoldfastError
from holdfast.failpoints import reach
from holdfast.model import (
    Batch,
    BatchManifest,
    CheckResult,
    PlannedTable,
    Position,
    RowCount,
    TableName,
    TableOutcome,
    TableSchema,
    Watermark,
)
from holdfast.pipelines.job import Job
from holdfast.pipelines.looking import (
    Look,
    describe_census,
    look,
    overlap_window,
    refuse_unsafe,
    stamp,
)
from holdfast.spark.loading import source_columns
from holdfast.spark.measures import Census
from holdfast.spark.opening import open_target
from holdfast.spark.sources import CountedRows, SourceTable
from holdfast.spark.targets import Staging, Target

STEPS: Final = (
    "before_read",
    "after_write",
    "before_publish",
    "after_publish",
    "before_commit",
    "after_commit",
)

Phase = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Committed:
    batch: Batch
    manifest: BatchManifest
    outcome: TableOutcome


class TableReplication:
    """Copies one table, once."""

    def __init__(self, job: Job, table: TableName, phase: Phase) -> None:
        self._job = job
        self._table = table
        self._phase = phase
        self._started = time.monotonic()
        self._records = job.records
        self._settings = job.pipeline.settings_for(table.source)

    def run(self, plan: PlannedTable | None = None) -> TableOutcome:
        """Finish what a crash left, then copy what is new; with a plan, do exactly that."""
        recovered = self._recover()
        if plan is not None and plan.reason == "recover":
            return recovered.outcome if recovered else self._nothing(None)
        if plan is not None and plan.action == "nothing":
            return self._nothing(None)
        self._phase("planning")
        found = look(self._job, self._table, high=plan.high if plan else None)
        batch = found.batch(self._job, self._table, plan)
        if batch is None:
            assert found.probe is not None, "without a probe nobody knows"
            return self._unchanged(found, found.probe.census, recovered)
        return self._copy(found, batch, recovered)

    def _recover(self) -> _Committed | None:
        """Finish the batch that a crashed run left open, if there is one."""
        with self._records.ledger.reading() as view:
            intent = self._records.intents.get(view, self._table.key)
        if intent is None:
            return None
        self._phase("recovering")
        batch = stamp(intent, self._job)
        target = open_target(self._job.spark, self._job.pipeline, self._table)
        manifest = target.staged(batch.batch_id)
        if manifest is None:
            # Nothing of it is complete, hence nothing is visible: planning anew reads the same
            # rows again, and with them those that have come since.
            self._abandon(batch, target)
            return None
        results = self._judge(batch, manifest)
        if not target.is_published(batch.batch_id):
            if self._is_empty(batch, manifest):
                self._abandon(batch, target)
                return None
            self._refuse(batch, target, manifest, results)
        said = f"finished batch {batch.batch_id} of an interrupted run"
        return self._publish_and_commit(
            replace(batch, reason="recover"), manifest, target, results, None, (said,)
        )

    def _copy(self, found: Look, batch: Batch, recovered: _Committed | None) -> TableOutcome:
        self._intend(batch, found)
        reach("before_read", self._table.key)
        self._phase("copying")
        manifest = found.target.stage(self._staging(found, batch))
        reach("after_write", self._table.key)
        census = Census(manifest.source_rows, manifest.without_cursor, manifest.in_future)
        if manifest.rows == 0 and not found.must_publish:
            self._refuse(batch, found.target, manifest, ())
            self._abandon(batch, found.target)
            return self._unchanged(found, census, recovered)
        results = self._judge(batch, manifest)
        self._refuse(batch, found.target, manifest, results)
        notes = describe_census(census, self._settings)
        return self._publish_and_commit(
            batch, manifest, found.target, results, recovered, notes
        ).outcome

    def _is_empty(self, batch: Batch, manifest: BatchManifest) -> bool:
        """Whether publishing a batch would change nothing but the list of batches."""
        return manifest.rows == 0 and not batch.replaces_all and not batch.replaces

    def _intend(self, batch: Batch, found: Look) -> None:
        with self._records.ledger.writing() as change:
            self._records.leases.check(change, self._job.name, self._job.generation)
            self._records.intents.put(change, self._table.key, batch, expect=0)
            self._records.intents.prune(change, self._table.key, 20)
            columns = source_columns(found.source)
            self._records.remember_source_columns(change, self._table.key, columns)

    def _staging(self, found: Look, batch: Batch) -> Staging:
        source = found.source
        null_columns = _checked_columns(self._settings.checks.null_rate, source)
        counted = self._rows(found, batch, null_columns)
        return Staging(
            batch=batch,
            rows=counted.rows,
            drift=found.drift,
            before=found.before,
            cursor=source.cursor,
            key=source.key,
            null_columns=null_columns,
            window=overlap_window(source, self._settings.overlap, batch.high),
            with_metadata=self._job.pipeline.metadata_columns,
            census=counted.census,
            measures=counted.measures,
        )

    def _rows(self, found: Look, batch: Batch, null_columns: tuple[str, ...]) -> CountedRows:
        source, probe = found.source, found.probe
        if batch.strategy == "full_refresh" or source.cursor is None:
            return CountedRows(source.frame, lambda: Census(None))
        if batch.high is None and batch.expected_rows == 0:
            # Not one row may be copied yet; without a bound all of them would be.
            census = probe.census if probe else Census(None)
            return CountedRows(source.frame.limit(0), lambda: census)
        if probe is None:
            return source.counted_rows(batch.low, batch.high, found.skew_limit, null_columns)
        return CountedRows(source.rows(batch.low, batch.high), lambda: probe.census)

    def _publish_and_commit(
        self,
        batch: Batch,
        manifest: BatchManifest,
        target: Target,
        results: tuple[CheckResult, ...],
        recovered: _Committed | None,
        notes: tuple[str, ...],
    ) -> _Committed:
        self._phase("publishing")
        reach("before_publish", self._table.key)
        self._refuse_if_overtaken()
        target.publish(batch)
        reach("after_publish", self._table.key)
        outcome = self._outcome(batch, manifest, results, recovered, notes)
        reach("before_commit", self._table.key)
        self._commit(batch, manifest, outcome)
        reach("after_commit", self._table.key)
        target.clear(batch.batch_id)
        return _Committed(batch, manifest, outcome)

    def _commit(self, batch: Batch, manifest: BatchManifest, outcome: TableOutcome) -> None:
        now = self._job.clock()
        key = self._table.key
        with self._records.ledger.writing() as change:
            self._records.leases.check(change, self._job.name, self._job.generation)
            before = self._records.watermarks.get(change, key)
            self._records.remember_watermark(change, key, self._watermark(batch, manifest, before))
            if manifest.source_rows is not None:
                sample = RowCount(manifest.source_rows, now, self._job.run_id)
                self._records.remember_row_count(change, key, sample)
            known = self._records.schemas.get(change, key)
            if known is None or known.schema != manifest.schema:
                schema = TableSchema(manifest.schema, batch.batch_id, manifest.drift)
                self._records.schemas.put(change, key, schema)
            self._records.intents.delete(change, key)
            self._records.remember_outcome(change, self._job.run_id, outcome)

    def _watermark(
        self, batch: Batch, manifest: BatchManifest, before: Watermark | None
    ) -> Watermark:
        return Watermark(
            position=self._furthest(batch, manifest, before),
            updated_at=self._job.clock(),
            cause="run",
            actor=self._job.actor,
            run_id=self._job.run_id,
            batch=batch,
            rows=manifest.rows,
            # Only if the window that was measured ends where the watermark now stands.
            late_rows=manifest.late_rows if manifest.last == batch.high else "",
        )

    def _furthest(
        self, batch: Batch, manifest: BatchManifest, before: Watermark | None
    ) -> Position | None:
        """Where the watermark goes: the highest row written, never back except on purpose."""
        last = manifest.last
        if batch.replaces_all or batch.strategy == "full_refresh":
            limit = self._job.clock() + self._settings.max_future_skew
            moment = last.moment() if last else None
            # A refresh copies rows from the future too, but never starts from them.
            return None if moment is not None and moment > limit else last
        here = before.position if before else None
        if last is None or here is None:
            return last or here
        return max(here.typed(last.columns, last.types), last)

    def _unchanged(self, found: Look, census: Census, recovered: _Committed | None) -> TableOutcome:
        newest = found.position.moment() if found.position else None
        results = self._evaluate(
            Facts(
                now=self._job.clock(),
                strategy=self._settings.strategy,
                source_rows=census.total,
                history=self._history(),
                newest=newest,
                has_cursor=found.source.cursor is not None,
                column_changes=found.drift.changes,
            )
        )
        failed = [result for result in results if result.status == "fail"]
        if failed:
            raise _check_failed(self._table.key, failed, results, "Nothing was copied.")
        base = recovered.outcome if recovered else self._empty_outcome(census.total)
        outcome = replace(
            base,
            checks=results,
            drift=found.drift.changes,
            notes=(*base.notes, *describe_census(census, self._settings)),
            low=base.low or found.position,
            duration_ms=self._elapsed_ms(),
        )
        with self._records.ledger.writing() as change:
            self._records.leases.check(change, self._job.name, self._job.generation)
            if census.total is not None:
                sample = RowCount(census.total, self._job.clock(), self._job.run_id)
                self._records.remember_row_count(change, self._table.key, sample)
            self._records.remember_outcome(change, self._job.run_id, outcome)
        return outcome

    def _nothing(self, source_rows: int | None) -> TableOutcome:
        outcome = self._empty_outcome(source_rows)
        with self._records.ledger.writing() as change:
            self._records.remember_outcome(change, self._job.run_id, outcome)
        return outcome

    def _judge(self, batch: Batch, manifest: BatchManifest) -> tuple[CheckResult, ...]:
        """Check a staged batch before anyone sees it."""
        newest = self._furthest(batch, manifest, self._watermark_now())
        return self._evaluate(
            Facts(
                now=self._job.clock(),
                strategy=batch.strategy,
                source_rows=manifest.source_rows,
                history=self._history(),
                newest=newest.moment() if newest else None,
                has_cursor=bool(self._settings.cursor),
                column_changes=manifest.drift,
                expected_rows=batch.expected_rows,
                read_rows=manifest.rows,
                # A merge writes the table, not the batch.
                written_rows=None if batch.strategy == "merge" else manifest.written,
                nulls=tuple(manifest.nulls.items()),
            )
        )

    def _evaluate(self, facts: Facts) -> tuple[CheckResult, ...]:
        results = evaluate(self._settings.checks, facts)
        if not self._job.allow_failed_checks:
            return results
        return tuple(replace(r, status="warn") if r.status == "fail" else r for r in results)

    def _refuse(
        self,
        batch: Batch,
        target: Target,
        manifest: BatchManifest,
        results: tuple[CheckResult, ...],
    ) -> None:
        """Give a staged batch up, with the reason, if publishing it would be wrong."""
        census = Census(manifest.source_rows, manifest.without_cursor, manifest.in_future)
        failed = [result for result in results if result.status == "fail"]
        try:
            refuse_unsafe(self._job, self._table, self._settings, census, self._watermark_now())
            if failed:
                effect = "The batch was not published."
                raise _check_failed(self._table.key, failed, results, effect)
        except HoldfastError:
            self._abandon(batch, target)
            raise

    def _watermark_now(self) -> Watermark | None:
        with self._records.ledger.reading() as view:
            return self._records.watermarks.get(view, self._table.key)

    def _abandon(self, batch: Batch, target: Target) -> None:
        """Give up a batch nobody has seen."""
        self._refuse_if_overtaken()
        target.clear(batch.batch_id)
        with self._records.ledger.writing() as change:
            self._records.leases.check(change, self._job.name, self._job.generation)
            self._records.intents.delete(change, self._table.key)

    def _refuse_if_overtaken(self) -> None:
        """Leave the target to a newer run; the commit checks again, inside its transaction."""
        with self._records.ledger.reading() as view:
            self._records.leases.check(view, self._job.name, self._job.generation)

    def _history(self) -> tuple[int, ...]:
        with self._records.ledger.reading() as view:
            window = self._settings.checks.anomaly_window
            growth = self._settings.checks.growth
            limit = max(window, growth.max_flat_runs if growth else 0)
            samples = self._records.row_counts.history(view, self._table.key, limit=limit)
        return tuple(sample.count for _, sample in samples if sample is not None)

    def _outcome(
        self,
        batch: Batch,
        manifest: BatchManifest,
        results: tuple[CheckResult, ...],
        recovered: _Committed | None,
        notes: tuple[str, ...],
    ) -> TableOutcome:
        earlier = recovered.outcome if recovered else None
        return TableOutcome(
            table=self._table.key,
            status="copied",
            strategy=batch.strategy,
            reason=batch.reason,
            rows=manifest.rows + (earlier.rows if earlier else 0),
            low=earlier.low if earlier else batch.low,
            high=manifest.last or batch.high,
            batch_ids=(*(earlier.batch_ids if earlier else ()), batch.batch_id),
            source_rows=manifest.source_rows,
            duration_ms=self._elapsed_ms(),
            checks=results,
            drift=manifest.drift,
            notes=(*(earlier.notes if earlier else ()), *notes),
        )

    def _empty_outcome(self, source_rows: int | None) -> TableOutcome:
        return TableOutcome(
            table=self._table.key,
            status="unchanged",
            strategy=self._settings.strategy,
            reason=None,
            rows=0,
            low=None,
            high=None,
            batch_ids=(),
            source_rows=source_rows,
            duration_ms=self._elapsed_ms(),
        )

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


def _checked_columns(null_rate: dict[str, float], source: SourceTable) -> tuple[str, ...]:
    wanted = {name.lower() for name in null_rate}
    return tuple(name for name in source.frame.columns if name.lower() in wanted)


def _check_failed(
    table: str, failed: list[CheckResult], results: tuple[CheckResult, ...], effect: str
) -> HoldfastError:
    said = "; ".join(f"{result.check}: {result.message}" for result in failed)
    return CheckFailed(
        f"{table}: {said}. {effect}",
        hint="Correct the source, change the check or its severity, or let it pass once: "
        f"holdfast run --allow-failed-checks --table {table}",
        results=results,
    )
