"""How a table fared, put into one value."""

from __future__ import annotations

from holdfast.config import TableSettings
from holdfast.model import Batch, BatchManifest, CheckResult, TableName, TableOutcome


def copied(
    batch: Batch,
    manifest: BatchManifest,
    *,
    results: tuple[CheckResult, ...],
    notes: tuple[str, ...],
    duration_ms: int,
    earlier: TableOutcome | None,
) -> TableOutcome:
    """A batch was committed; `earlier` is one of a crashed run that was finished before it."""
    return TableOutcome(
        table=batch.table,
        status="copied",
        strategy=batch.strategy,
        reason=batch.reason,
        rows=manifest.rows + (earlier.rows if earlier else 0),
        low=earlier.low if earlier else batch.low,
        high=manifest.last or batch.high,
        batch_ids=(*(earlier.batch_ids if earlier else ()), batch.batch_id),
        source_rows=manifest.source_rows,
        duration_ms=duration_ms,
        checks=results,
        drift=manifest.drift,
        notes=(*(earlier.notes if earlier else ()), *notes),
    )


def unchanged(
    table: TableName, settings: TableSettings, source_rows: int | None, duration_ms: int
) -> TableOutcome:
    """There was nothing to copy."""
    return TableOutcome(
        table=table.key,
        status="unchanged",
        strategy=settings.strategy,
        reason=None,
        rows=0,
        low=None,
        high=None,
        batch_ids=(),
        source_rows=source_rows,
        duration_ms=duration_ms,
    )
