"""The JSON documents of the commands, field by field, so that internals may change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.clock import isoformat
from holdfast.model import (
    CheckResult,
    Failure,
    Plan,
    PlannedTable,
    Position,
    Run,
    TableOutcome,
    Watermark,
)
from holdfast.pipelines.state import HistoryEntry, TableState


def moment(value: datetime | None) -> str | None:
    """A moment in UTC, or null."""
    return isoformat(value) if value is not None else None


def position(value: Position | None) -> dict[str, str] | None:
    """A position as column and value."""
    return None if value is None else dict(zip(value.columns, value.values, strict=True))


def failure(value: Failure | None) -> dict[str, str] | None:
    """Why something failed, or null."""
    if value is None:
        return None
    return {"error": value.error, "message": value.message, "hint": value.hint}


def check(result: CheckResult) -> dict[str, Any]:
    """One verdict."""
    return {
        "check": result.check,
        "status": result.status,
        "message": result.message,
        "observed": result.observed,
        "expected": result.expected,
        "column": result.column,
    }


def outcome(value: TableOutcome) -> dict[str, Any]:
    """How a table fared."""
    return {
        "table": value.table,
        "status": value.status,
        "strategy": value.strategy,
        "reason": value.reason,
        "rows": value.rows,
        "low": position(value.low),
        "high": position(value.high),
        "batch_ids": list(value.batch_ids),
        "source_rows": value.source_rows,
        "duration_ms": value.duration_ms,
        "checks": [check(result) for result in value.checks],
        "anomalies": [check(result) for result in value.anomalies],
        "schema_changes": list(value.drift),
        "notes": list(value.notes),
        "failure": failure(value.failure),
    }


def run(value: Run, outcomes: tuple[TableOutcome, ...]) -> dict[str, Any]:
    """A run with its tables."""
    return {
        "run_id": value.run_id,
        "pipeline": value.pipeline,
        "status": value.status,
        "started_at": moment(value.started_at),
        "finished_at": moment(value.finished_at),
        "actor": value.actor,
        "generation": value.generation,
        "plan_id": value.plan_id,
        "resumes": value.resumes,
        "rows": sum(entry.rows for entry in outcomes),
        "tables": [outcome(entry) for entry in outcomes],
    }


def planned(value: PlannedTable) -> dict[str, Any]:
    """What is to be done with a table."""
    return {
        "table": value.table,
        "source": value.source,
        "target": value.target,
        "action": value.action,
        "strategy": value.strategy,
        "reason": value.reason,
        "low": position(value.low),
        "high": position(value.high),
        "rows": value.rows,
        "source_rows": value.source_rows,
        "batch_id": value.batch_id,
        "replaces_target": value.replaces_all,
        "failure": failure(value.failure),
    }


def plan(value: Plan) -> dict[str, Any]:
    """A stored plan."""
    return {
        "plan_id": value.plan_id,
        "pipeline": value.pipeline,
        "created_at": moment(value.created_at),
        "config_fingerprint": value.fingerprint,
        "full_refresh": value.full_refresh,
        "tables": [planned(table) for table in value.tables],
    }


def watermark(value: Watermark | None) -> dict[str, Any] | None:
    """One step of a table's history."""
    if value is None:
        return None
    return {
        "last_value": position(value.position),
        "updated_at": moment(value.updated_at),
        "cause": value.cause,
        "actor": value.actor,
        "run_id": value.run_id,
        "batch_id": value.batch.batch_id if value.batch else None,
        "rows": value.rows,
        "replaces_batches": list(value.retire),
        "note": value.note,
    }


def table_state(value: TableState) -> dict[str, Any]:
    """What is remembered of a table."""
    count = value.row_count
    return {
        "table": value.table,
        "version": value.version,
        "watermark": watermark(value.watermark),
        "open_batch_id": value.open_batch.batch_id if value.open_batch else None,
        "source_rows": None
        if count is None
        else {"count": count.count, "at": moment(count.at), "run_id": count.run_id},
    }


def history_entry(value: HistoryEntry) -> dict[str, Any]:
    """One version of a watermark."""
    return {
        "version": value.info.version,
        "created_at": moment(value.info.created_at),
        "size_bytes": value.info.size,
        "watermark": watermark(value.watermark),
    }
