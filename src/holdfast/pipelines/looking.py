"""What a table needs: source, target and memory brought together, nothing changed yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from holdfast.config import TableSettings
from holdfast.errors import SchemaConflict, UsageError
from holdfast.model import (
    Batch,
    Contents,
    PlannedTable,
    Position,
    SourceColumns,
    TableName,
    Watermark,
)
from holdfast.pipelines.deciding import Start, decide_start
from holdfast.pipelines.identity import new_id
from holdfast.pipelines.job import Job
from holdfast.pipelines.safety import refuse_unsafe
from holdfast.spark.drift import Drift, reconcile
from holdfast.spark.loading import open_table
from holdfast.spark.measures import Probe, Window
from holdfast.spark.opening import open_target
from holdfast.spark.schemas import StructType, empty_frame, parse_schema, source_fields
from holdfast.spark.sources import SourceTable
from holdfast.spark.targets import Target


@dataclass(frozen=True, slots=True)
class Look:
    """A table as it is found at the start of its turn."""

    settings: TableSettings
    source: SourceTable
    target: Target
    before: StructType | None
    """The target's columns now, metadata included; `None` if this batch makes them."""
    drift: Drift
    start: Start
    position: Position | None
    """Where the watermark stands, in the types of the source's columns now."""
    skew_limit: Position | None
    """The furthest position that is not in the future."""
    probe: Probe | None
    """What the source holds; `None` if that is counted while its rows are read."""
    exact: bool
    """The probe counted listed files, which cannot change without being noticed."""
    watermark: Watermark | None
    watermark_version: int
    intent_version: int
    must_publish: bool
    """The target must change even if there is no row to copy."""

    @property
    def has_late_rows(self) -> bool:
        """Whether the overlap window holds rows it did not hold when it was last read."""
        if self.probe is None or not self.probe.digest:
            return False
        return self.watermark is None or self.probe.digest != self.watermark.late_rows

    def batch(self, job: Job, table: TableName, fixed: PlannedTable | None) -> Batch | None:
        """The batch to copy now, or `None` if there is surely nothing to do."""
        found = self.probe
        if found and not (found.rows or self.has_late_rows or self.must_publish):
            return None
        reason = self.start.reason
        if found and reason == "watermark" and not found.rows:
            reason = "late_rows"
        return Batch(
            batch_id=(fixed.batch_id if fixed and fixed.batch_id else new_id()),
            table=table.key,
            run_id=job.run_id,
            generation=job.generation,
            strategy=self.settings.strategy,
            reason=reason,
            low=self._low(),
            high=self._high(fixed),
            # Of the run, not of the batch: Spark compiles a plan anew for every other constant.
            loaded_at=job.started_at,
            loaded_by=job.loaded_by,
            expected_rows=self._expected_rows(fixed),
            replaces_all=self.start.replaces_all,
            replaces=self.start.replaces,
        )

    def _expected_rows(self, fixed: PlannedTable | None) -> int | None:
        """Rows the batch will read, those of the overlap included; `None` if not counted."""
        whole = self.settings.strategy == "full_refresh"
        if fixed and fixed.high is None and not whole:
            # The plan found no row to give it a bound: what has come since must wait.
            return 0
        if self.probe is None:
            return None
        if whole:
            return self.probe.census.total
        window_rows = int(self.probe.digest.partition(":")[0]) if self.probe.digest else 0
        return self.probe.rows + window_rows

    def _low(self) -> Position | None:
        if self.settings.strategy == "full_refresh" or self.position is None:
            return None
        overlap = self.settings.overlap
        return self.position.minus(overlap) if overlap else self.position

    def _high(self, fixed: PlannedTable | None) -> Position | None:
        """The bound that is fixed before reading.

        Without a probe it is only the present: the files are listed already, so no row that is
        written from now on can be read, whatever its position.
        """
        if self.settings.strategy == "full_refresh" or (fixed and fixed.high is None):
            return None
        if self.probe is not None:
            return self.probe.high or self.position
        return fixed.high if fixed else self.skew_limit


def look(
    job: Job, table: TableName, *, high: Position | None = None, planning: bool = False
) -> Look:
    """Open a table's source and target and decide where to start.

    A plan must know what there is to copy, so it always counts; a run counts beforehand only
    where it cannot count while it reads. `high` is the upper bound of a plan that is applied.
    """
    settings = job.pipeline.settings_for(table.source)
    target = open_target(job.spark, job.pipeline, table)
    watermark, version, intent_version = _remembered(job, table)
    contents = target.contents()
    start = decide_start(
        table.key,
        target.location,
        strategy=settings.strategy,
        watermark=watermark,
        contents=contents,
        full_refresh=job.full_refresh,
        adoption=target.adoption,
    )
    keeps = not start.replaces_all and contents == "ours"
    before = _schema_before(job, table, target) if keeps else None
    source = open_table(job.spark, job.pipeline.source, table, settings, _known_columns(job, table))
    remembered = before or _remembered_schema(job, table)
    source = _with_known_columns_if_empty(source, settings, remembered)
    drift = reconcile(
        None if before is None else source_fields(before), source.frame.schema, table=table.key
    )
    position = _typed(start.low, source)
    skew_limit = _skew_limit(job, source, settings)
    probe = _asked_of_footers(source, settings, position, high, skew_limit)
    known = probe is not None
    if probe is None and (planning or not _counts_while_reading(source, settings)):
        probe = source.probe(
            low=position,
            high=high,
            skew_limit=skew_limit,
            window=overlap_window(source, settings.overlap, position),
        )
    if probe is not None:
        refuse_unsafe(job, table, settings, probe.census, watermark)
    return Look(
        settings=settings,
        source=source,
        target=target,
        before=before,
        drift=drift,
        start=start,
        position=position,
        skew_limit=skew_limit,
        probe=probe,
        exact=known,
        watermark=watermark,
        watermark_version=version,
        intent_version=intent_version,
        must_publish=_must_publish(job, settings, start, contents, watermark),
    )


def _must_publish(
    job: Job,
    settings: TableSettings,
    start: Start,
    contents: Contents,
    watermark: Watermark | None,
) -> bool:
    if contents in ("absent", "empty") or start.replaces:
        return True
    # A source that has been empty all along has been published as such.
    never_had_rows = (
        watermark is not None
        and watermark.cause == "run"
        and watermark.position is None
        and watermark.rows == 0
        and settings.strategy != "full_refresh"
        and not job.full_refresh
    )
    return start.replaces_all and not never_had_rows


def _asked_of_footers(
    source: SourceTable,
    settings: TableSettings,
    low: Position | None,
    high: Position | None,
    skew_limit: Position | None,
) -> Probe | None:
    if settings.strategy != "incremental" or source.footers is None or source.cursor is None:
        return None
    return source.footers.probe(source.cursor, low=low, high=high, skew_limit=skew_limit)


def _counts_while_reading(source: SourceTable, settings: TableSettings) -> bool:
    if settings.strategy == "full_refresh":
        return True
    return settings.strategy == "incremental" and source.counts_while_reading


def overlap_window(source: SourceTable, overlap: timedelta, high: Position | None) -> Window | None:
    """The rows up to `high` that a later run would read again."""
    if not overlap or high is None or source.cursor is None:
        return None
    identity = tuple(dict.fromkeys([*source.key, *source.cursor.columns]))
    return Window(after=high.minus(overlap), up_to=high, identity=identity)


def _remembered(job: Job, table: TableName) -> tuple[Watermark | None, int, int]:
    with job.records.ledger.reading() as view:
        watermark = view.get(job.records.watermarks.namespace, table.key)
        intent = view.get(job.records.intents.namespace, table.key)
        return (
            job.records.watermarks.get(view, table.key),
            watermark.version if watermark else 0,
            intent.version if intent else 0,
        )


def _remembered_schema(job: Job, table: TableName) -> StructType | None:
    with job.records.ledger.reading() as view:
        remembered = job.records.schemas.get(view, table.key)
    return parse_schema(remembered.schema) if remembered else None


def _known_columns(job: Job, table: TableName) -> SourceColumns | None:
    with job.records.ledger.reading() as view:
        return job.records.source_columns.get(view, table.key)


def _schema_before(job: Job, table: TableName, target: Target) -> StructType:
    # A ledger that was lost does not know the columns; the files do.
    return _remembered_schema(job, table) or target.schema()


def _with_known_columns_if_empty(
    source: SourceTable, settings: TableSettings, before: StructType | None
) -> SourceTable:
    """Give an empty source the columns it is known by.

    A text file without rows has no types to infer: everything looks like a string, which is no
    change of type worth refusing.
    """
    if before is None:
        return source
    fields = source_fields(before)
    try:
        reconcile(fields, source.frame.schema, table=source.table.key)
    except SchemaConflict:
        if not source.frame.isEmpty():
            return source
        frame = empty_frame(source.frame.sparkSession, fields)
        return source.over(frame, settings)
    return source


def _typed(position: Position | None, source: SourceTable) -> Position | None:
    if position is None or source.cursor is None:
        return None
    try:
        return position.typed(source.cursor.columns, source.cursor.types)
    except UsageError as error:
        values = " ".join(source.cursor.columns).upper()
        raise UsageError(
            f"{source.table}: {error.message}",
            hint=f"Say where it stands by now: holdfast state set {source.table} {values}",
        ) from error


def _skew_limit(job: Job, source: SourceTable, settings: TableSettings) -> Position | None:
    if source.cursor is None or settings.strategy == "full_refresh":
        return None
    # The time the run started, not now: one bound for all tables lets Spark reuse what it
    # compiled for the one before.
    return source.cursor.at(job.started_at + settings.max_future_skew)
