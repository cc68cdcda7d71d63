"""What the checks say of a table, from the numbers a run has measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.checks import Facts, evaluate
from holdfast.config import TableSettings
from holdfast.errors import CheckFailed
from holdfast.model import Batch, BatchManifest, CheckResult, Position, TableName
from holdfast.pipelines.job import Job

Verdict = tuple[CheckResult, ...]


class Judge:
    """The checks of one table in one run."""

    def __init__(self, job: Job, table: TableName, settings: TableSettings) -> None:
        self._job = job
        self._table = table
        self._settings = settings

    def of_batch(self, batch: Batch, manifest: BatchManifest, newest: Position | None) -> Verdict:
        """Check a staged batch before anyone sees it; `newest` is where the watermark would go."""
        return self._evaluate(
            Facts(
                now=self._job.clock(),
                strategy=batch.strategy,
                source_rows=manifest.source_rows,
                history=self._history(),
                newest=newest.moment() if newest else None,
                has_cursor=bool(self._settings.cursor),
                column_changes=manifest.drift,
                live_source=self._job.pipeline.source.format == "jdbc",
                expected_rows=batch.expected_rows,
                read_rows=manifest.rows,
                # A merge writes the table, not the batch.
                written_rows=None if batch.strategy == "merge" else manifest.written,
                nulls=tuple(manifest.nulls.items()),
            )
        )

    def of_standstill(
        self, total: int | None, newest: Position | None, column_changes: tuple[str, ...]
    ) -> Verdict:
        """Check a table that has nothing new; raises if a check of severity `fail` objects."""
        results = self._evaluate(
            Facts(
                now=self._job.clock(),
                strategy=self._settings.strategy,
                source_rows=total,
                history=self._history(),
                newest=newest.moment() if newest else None,
                has_cursor=bool(self._settings.cursor),
                column_changes=column_changes,
            )
        )
        self.refuse_failed(results, "Nothing was copied.")
        return results

    def refuse_failed(self, results: Sequence[CheckResult], effect: str) -> None:
        """Raise `CheckFailed` if a check of severity `fail` objects."""
        failed = [result for result in results if result.status == "fail"]
        if not failed:
            return
        said = "; ".join(f"{result.check}: {result.message}" for result in failed)
        raise CheckFailed(
            f"{self._table}: {said}. {effect}",
            hint="Correct the source, change the check or its severity, or let it pass once: "
            f"holdfast run --allow-failed-checks --table {self._table}",
            results=results,
        )

    def _evaluate(self, facts: Facts) -> Verdict:
        results = evaluate(self._settings.checks, facts)
        if not self._job.allow_failed_checks:
            return results
        return tuple(replace(r, status="warn") if r.status == "fail" else r for r in results)

    def _history(self) -> tuple[int, ...]:
        """Earlier row counts, newest first, as many as any check looks at."""
        growth = self._settings.checks.growth
        limit = max(self._settings.checks.anomaly_window, growth.max_flat_runs if growth else 0)
        records = self._job.records
        with records.ledger.reading() as view:
            samples = records.row_counts.history(view, self._table.key, limit=limit)
        return tuple(sample.count for _, sample in samples if sample is not None)
