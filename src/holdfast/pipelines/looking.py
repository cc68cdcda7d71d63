"""What a table needs: source, target and memory brought together, nothing changed yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast.config import TableSettings
from holdfast.errors import SchemaConflict, SourceError
from holdfast.model import Batch, PlannedTable, Position, TableName, Watermark
from holdfast.pipelines.deciding import Start, decide_start
from holdfast.pipelines.identity import new_id
from holdfast.pipelines.job import Job
from holdfast.spark.drift import Drift, reconcile
from holdfast.spark.measures import Probe, Window
from holdfast.spark.opening import open_target
from holdfast.spark.schemas import StructType, empty_frame, parse_schema, source_fields
from holdfast.spark.sources import SourceTable, open_table
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
    probe: Probe
    watermark: Watermark | None
    watermark_version: int
    intent_version: int
    must_publish: bool
    """The target must change even if there is no row to copy."""
    notes: tuple[str, ...]

    @property
    def late_rows(self) -> bool:
        """Whether the overlap window holds rows it did not hold when it was last read."""
        return bool(self.probe.digest) and (
            self.watermark is None or self.probe.digest != self.watermark.late_rows
        )

    def batch(self, job: Job, table: TableName, fixed: PlannedTable | None) -> Batch | None:
        """The batch to copy now, or `None` if there is nothing to do."""
        if not (self.probe.rows or self.late_rows or self.must_publish):
            return None
        whole = self.settings.strategy == "full_refresh"
        low = None if whole else self.position
        overlap = self.settings.overlap
        if low is not None and overlap:
            low = low.minus(overlap)
        high = None if whole else (self.probe.high or self.position)
        reason = self.start.reason
        if reason == "watermark" and not self.probe.rows:
            reason = "late_rows"
        return Batch(
            batch_id=(fixed.batch_id if fixed and fixed.batch_id else new_id()),
            table=table.key,
            run_id=job.run_id,
            generation=job.generation,
            strategy=self.settings.strategy,
            reason=reason,
            low=low,
            high=high,
            loaded_at=job.clock(),
            loaded_by=job.loaded_by,
            expected_rows=self.expected_rows,
            source_rows=self.probe.total,
            replaces_all=self.start.replaces_all,
            replaces=self.start.replaces,
        )

    @property
    def expected_rows(self) -> int:
        """Rows the batch will read, those of the overlap included."""
        if self.settings.strategy == "full_refresh":
            return self.probe.total
        window_rows = int(self.probe.digest.partition(":")[0]) if self.probe.digest else 0
        return self.probe.rows + window_rows


def look(job: Job, table: TableName, *, high: Position | None = None) -> Look:
    """Open a table's source and target, decide where to start, and count what is new.

    `high` is the upper bound of a plan; without it the bound is found now.
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
    )
    keeps = not start.replaces_all and contents == "ours"
    before = _schema_before(job, table, target) if keeps else None
    source = open_table(job.spark, job.pipeline.source, table, settings)
    remembered = before or _remembered_schema(job, table)
    source = _with_known_columns_if_empty(source, settings, remembered)
    drift = reconcile(
        None if before is None else source_fields(before), source.frame.schema, table=table.key
    )
    position = _typed(start.low, source)
    whole = settings.strategy == "full_refresh"
    probe = source.probe(
        low=position,
        high=high,
        skew_limit=None if whole else _skew_limit(job, source, settings),
        window=_window(source, settings, position),
    )
    found = Look(
        settings=settings,
        source=source,
        target=target,
        before=before,
        drift=drift,
        start=start,
        position=position,
        probe=probe,
        watermark=watermark,
        watermark_version=version,
        intent_version=intent_version,
        must_publish=start.replaces_all or bool(start.replaces) or contents in ("absent", "empty"),
        notes=_notes(probe, settings),
    )
    _refuse_unsafe(job, table, found)
    return found


def overlap_window(source: SourceTable, overlap: timedelta, high: Position | None) -> Window | None:
    """The rows up to `high` that a later run would read again."""
    if not overlap or high is None or source.cursor is None:
        return None
    identity = tuple(dict.fromkeys([*source.key, *source.cursor.columns]))
    return Window(after=high.minus(overlap), up_to=high, identity=identity)


def _window(
    source: SourceTable, settings: TableSettings, position: Position | None
) -> Window | None:
    return overlap_window(source, settings.overlap, position)


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
    return position.typed(source.cursor.columns, source.cursor.types)


def _skew_limit(job: Job, source: SourceTable, settings: TableSettings) -> Position | None:
    if source.cursor is None:
        return None
    return source.cursor.at(job.clock() + settings.max_future_skew)


def _notes(probe: Probe, settings: TableSettings) -> tuple[str, ...]:
    notes = []
    if probe.in_future:
        notes.append(
            f"{probe.in_future:,} row(s) lie more than {settings.max_future_skew} in the future "
            "and are left until then"
        )
    if probe.without_cursor and settings.null_watermark == "skip":
        notes.append(f"{probe.without_cursor:,} row(s) without a watermark were skipped")
    return tuple(notes)


def _refuse_unsafe(job: Job, table: TableName, found: Look) -> None:
    probe, settings = found.probe, found.settings
    whole = settings.strategy == "full_refresh"
    if probe.without_cursor and settings.null_watermark == "fail" and not whole:
        raise SourceError(
            f"{table}: {probe.without_cursor:,} row(s) have no {settings.watermark}; they can be "
            "placed neither before nor after a watermark.",
            hint="Fill the column, choose another watermark, or leave such rows out: "
            'null_watermark = "skip"',
        )
    had_rows = found.watermark is not None and found.watermark.rows > 0
    if whole and probe.total == 0 and had_rows and not job.full_refresh:
        raise SourceError(
            f"{table}: the source is empty; a refresh would erase the "
            f"{found.watermark.rows if found.watermark else 0:,} rows of the target.",
            hint=f"If that is meant: holdfast run --full-refresh --table {table}",
        )


def planned(job: Job, table: TableName, found: Look, target: str) -> PlannedTable:
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
        source_rows=found.probe.total,
        batch_id=batch.batch_id if batch else None,
        replaces_all=bool(batch and batch.replaces_all),
        watermark_version=found.watermark_version,
        intent_version=found.intent_version,
    )


def stamp(batch: Batch, job: Job) -> Batch:
    """The same batch, carried on by this run."""
    return replace(batch, run_id=job.run_id, generation=job.generation)
