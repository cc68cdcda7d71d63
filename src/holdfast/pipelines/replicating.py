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

from holdfast.errors import HoldfastError
from holdfast.failpoints import reach
from holdfast.model import (
    Batch,
    BatchManifest,
    PlannedTable,
    Position,
    RowCount,
    TableName,
    TableOutcome,
    TableSchema,
    Watermark,
)
from holdfast.pipelines.job import Job
from holdfast.pipelines.judging import Judge, Verdict
from holdfast.pipelines.looking import Look, look, overlap_window
from holdfast.pipelines.outcomes import copied, unchanged
from holdfast.pipelines.safety import describe_census, refuse_unsafe
from holdfast.spark.loading import source_columns
from holdfast.spark.measures import Census, Measures
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
        self._judge = Judge(job, table, self._settings)

    def run(self, plan: PlannedTable | None = None) -> TableOutcome:
        """Finish what a crash left, then copy what is new; with a plan, do exactly that."""
        recovered = self._recover()
        if plan is not None and plan.reason == "recover":
            return recovered.outcome if recovered else self._nothing()
        if plan is not None and plan.action == "nothing":
            return self._nothing()
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
        batch = replace(intent, run_id=self._job.run_id, generation=self._job.generation)
        target = open_target(self._job.spark, self._job.pipeline, self._table)
        manifest = target.staged(batch.batch_id)
        if manifest is None:
            # Nothing of it is complete, hence nothing is visible: planning anew reads the same
            # rows again, and with them those that have come since.
            self._abandon(batch, target)
            return None
        results = self._verdict(batch, manifest)
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
        if manifest.rows == 0 and not found.must_publish and not batch.expected_rows:
            self._refuse(batch, found.target, manifest, ())
            self._abandon(batch, found.target)
            return self._unchanged(found, census, recovered)
        results = self._verdict(batch, manifest)
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
            known=self._known(found, batch, null_columns),
        )

    def _known(self, found: Look, batch: Batch, null_columns: tuple[str, ...]) -> Measures | None:
        """What the rows will be if as many are read as the source's files say there are."""
        if not found.exact or found.probe is None or null_columns:
            return None
        # All rows up to the bound, hence the one at the bound too.
        return Measures(found.probe.rows, found.probe.high, {}, "")

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
        results: Verdict,
        recovered: _Committed | None,
        notes: tuple[str, ...],
    ) -> _Committed:
        self._phase("publishing")
        reach("before_publish", self._table.key)
        self._refuse_if_overtaken()
        target.publish(batch)
        reach("after_publish", self._table.key)
        outcome = copied(
            batch,
            manifest,
            results=results,
            notes=notes,
            duration_ms=self._elapsed_ms(),
            earlier=recovered.outcome if recovered else None,
        )
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
        changes = found.drift.changes
        results = self._judge.of_standstill(census.total, found.position, changes)
        base = recovered.outcome if recovered else self._nothing_done(census.total)
        outcome = replace(
            base,
            checks=results,
            drift=changes,
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

    def _nothing(self) -> TableOutcome:
        outcome = self._nothing_done(None)
        with self._records.ledger.writing() as change:
            self._records.remember_outcome(change, self._job.run_id, outcome)
        return outcome

    def _refuse(
        self,
        batch: Batch,
        target: Target,
        manifest: BatchManifest,
        results: Verdict,
    ) -> None:
        """Give a staged batch up, with the reason, if publishing it would be wrong."""
        census = Census(manifest.source_rows, manifest.without_cursor, manifest.in_future)
        try:
            refuse_unsafe(self._job, self._table, self._settings, census, self._watermark_now())
            self._judge.refuse_failed(results, "The batch was not published.")
        except HoldfastError:
            self._abandon(batch, target)
            raise

    def _verdict(self, batch: Batch, manifest: BatchManifest) -> Verdict:
        newest = self._furthest(batch, manifest, self._watermark_now())
        return self._judge.of_batch(batch, manifest, newest)

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

    def _nothing_done(self, source_rows: int | None) -> TableOutcome:
        return unchanged(self._table, self._settings, source_rows, self._elapsed_ms())

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


def _checked_columns(null_rate: dict[str, float], source: SourceTable) -> tuple[str, ...]:
    wanted = {name.lower() for name in null_rate}
    return tuple(name for name in source.frame.columns if name.lower() in wanted)
