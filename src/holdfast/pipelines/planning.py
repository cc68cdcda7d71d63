"""Deciding what a run would do, without doing it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.config import Config, fingerprint, pipeline_document
from holdfast.errors import HoldfastError
from holdfast.model import Failure, Plan, PlannedTable, TableName
from holdfast.pipelines.identity import new_id
from holdfast.pipelines.job import Job, Progress
from holdfast.pipelines.looking import Look, look
from holdfast.pipelines.plans import remember_plan
from holdfast.spark.jobs import labelled
from holdfast.spark.opening import open_target, target_path


def make_plan(job: Job, config: Config, tables: Sequence[TableName], progress: Progress) -> Plan:
    """Look at every table, decide what is to be done, and store the decision."""
    progress.begin([table.key for table in tables], doing="planning")
    with ThreadPoolExecutor(job.pipeline.concurrency) as pool:
        entries = list(pool.map(lambda table: _plan_table(job, table, progress), tables))
    document = pipeline_document(config, job.name)
    plan = Plan(
        plan_id=new_id(),
        pipeline=job.name,
        created_at=job.clock(),
        fingerprint=fingerprint(document),
        document=document,
        full_refresh=job.full_refresh,
        tables=tuple(entries),
    )
    with job.records.ledger.writing() as change:
        remember_plan(job.records, change, plan)
    return plan


def _plan_table(job: Job, table: TableName, progress: Progress) -> PlannedTable:
    progress.phase(table.key, "planning")
    try:
        with labelled(job.spark, job.run_id, f"holdfast plan {table.key}"):
            return _open_batch(job, table) or _planned(
                job, table, look(job, table, planning=True), target_path(job.pipeline, table)
            )
    except HoldfastError as error:
        return _blocked(job, table, error)
    finally:
        progress.planned(table.key)


def _planned(job: Job, table: TableName, found: Look, target: str) -> PlannedTable:
    """Describe what would be done with a table."""
    batch = found.batch(job, table, None)
    return PlannedTable(
        table=table.key,
        source=table.source,
        target=target,
        action="nothing" if batch is None else "copy",
        strategy=found.settings.strategy,
        reason=batch.reason if batch else None,
        low=batch.low if batch else found.position,
        high=batch.high if batch else None,
        rows=batch.expected_rows or 0 if batch else 0,
        source_rows=found.probe.census.total if found.probe else None,
        batch_id=batch.batch_id if batch else None,
        replaces_all=bool(batch and batch.replaces_all),
        watermark_version=found.watermark_version,
        intent_version=found.intent_version,
    )


def _open_batch(job: Job, table: TableName) -> PlannedTable | None:
    """A batch that a crash left complete but uncommitted comes before anything new."""
    with job.records.ledger.reading() as view:
        intent = job.records.intents.get(view, table.key)
        record = view.get(job.records.intents.namespace, table.key)
        watermark = view.get(job.records.watermarks.namespace, table.key)
    if intent is None or record is None:
        return None
    target = open_target(job.spark, job.pipeline, table)
    manifest = target.staged(intent.batch_id)
    if manifest is None:
        return None
    return PlannedTable(
        table=table.key,
        source=table.source,
        target=target.location,
        action="copy",
        strategy=intent.strategy,
        reason="recover",
        low=intent.low,
        high=intent.high,
        rows=manifest.rows,
        source_rows=manifest.source_rows,
        batch_id=intent.batch_id,
        replaces_all=intent.replaces_all,
        watermark_version=watermark.version if watermark else 0,
        intent_version=record.version,
    )


def _blocked(job: Job, table: TableName, error: HoldfastError) -> PlannedTable:
    return PlannedTable(
        table=table.key,
        source=table.source,
        target=target_path(job.pipeline, table),
        action="blocked",
        strategy=job.pipeline.settings_for(table.source).strategy,
        reason=None,
        low=None,
        high=None,
        rows=0,
        source_rows=None,
        batch_id=None,
        replaces_all=False,
        watermark_version=0,
        intent_version=0,
        failure=Failure(type(error).__name__, error.message, error.hint),
    )
