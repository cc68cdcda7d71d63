"""What must not be copied, and what was left out, from a census of the source."""

from __future__ import annotations

from holdfast.config import TableSettings, describe_duration
from holdfast.errors import SourceError
from holdfast.model import TableName, Watermark
from holdfast.pipelines.job import Job
from holdfast.spark.measures import Census


def describe_census(census: Census, settings: TableSettings) -> tuple[str, ...]:
    """What was left out of a batch, as sentences."""
    notes = []
    if census.in_future:
        notes.append(
            f"{census.in_future:,} row(s) lie more than "
            f"{describe_duration(settings.max_future_skew)} in the future and are left until then"
        )
    if census.without_cursor and settings.strategy != "full_refresh":
        notes.append(f"{census.without_cursor:,} row(s) without a watermark were skipped")
    return tuple(notes)


def refuse_unsafe(
    job: Job,
    table: TableName,
    settings: TableSettings,
    census: Census,
    watermark: Watermark | None,
) -> None:
    """Refuse a source from which copying would lose rows."""
    whole = settings.strategy == "full_refresh"
    if census.without_cursor and settings.null_watermark == "fail" and not whole:
        raise SourceError(
            f"{table}: {census.without_cursor:,} row(s) have no {' or no '.join(settings.cursor)}; "
            "they can be placed neither before nor after a watermark.",
            hint="Fill the column, choose another watermark, or leave such rows out: "
            'null_watermark = "skip"',
        )
    had_rows = watermark.rows if watermark else 0
    if whole and census.total == 0 and had_rows and not job.full_refresh:
        raise SourceError(
            f"{table}: the source is empty; a refresh would erase the {had_rows:,} rows of the "
            "target.",
            hint=f"If that is meant: holdfast run --full-refresh --table {table}",
        )
