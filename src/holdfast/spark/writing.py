"""What every target does alike: fit a batch's rows, measure them, describe what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructType

from holdfast.errors import TargetError
from holdfast.model import BatchManifest
from holdfast.spark.columns import METADATA, METADATA_FIELDS, with_metadata
from holdfast.spark.filesystem import Files, join
from holdfast.spark.measures import Measures, batch_measures, read_measures
from holdfast.spark.merging import latest
from holdfast.spark.targets import Staging

MANIFEST_FORMAT: Final = 1
MANIFEST: Final = "_holdfast.json"
_MANIFESTS: Final = TypeAdapter(BatchManifest)


def full_schema(staging: Staging) -> StructType:
    """The target's columns after this batch: the source's, then Holdfast's own."""
    had = {field.name for field in staging.before} if staging.before is not None else set()
    own = [f for f in METADATA_FIELDS if staging.with_metadata or f.name in had]
    return StructType([*staging.drift.schema.fields, *own])


def merges_into_table(staging: Staging) -> bool:
    """Whether the batch's rows meet rows that are already there."""
    batch = staging.batch
    return batch.strategy == "merge" and not batch.replaces_all and staging.before is not None


def write_measured(
    staging: Staging,
    schema: StructType,
    write: Callable[[DataFrame], None],
    count: Callable[[], int] | None = None,
) -> Measures:
    """Write the source's rows, measuring them on the way.

    `count` says how many rows were written; a target that can tell for little spares the rows
    being counted as they pass, which costs more than to write a few of them.
    """
    if staging.known is not None and count is not None:
        write(_fitted(staging.rows, staging, schema))
        if count() == staging.known.rows:
            return staging.known
        # The source changed under the read: write again, and look at every row.
    if staging.measures is not None:
        write(_fitted(staging.rows, staging, schema))
        return staging.measures()
    columns = batch_measures(staging.cursor, staging.null_columns, staging.window)
    observation = Observation()
    rows = _fitted(staging.rows.observe(observation, *columns), staging, schema)
    if staging.batch.strategy == "merge" and staging.cursor is not None:
        rows = latest(rows, staging.key, staging.cursor)
    write(rows)
    return read_measures(observation.get, staging.cursor, staging.null_columns)


@contextmanager
def incoming_rows(staging: Staging, schema: StructType) -> Iterator[tuple[DataFrame, Measures]]:
    """The latest of the source's rows per key, to be read several times, and their measures."""
    assert staging.cursor is not None, "merge is refused without a cursor"
    # Read once: the source could change between two passes, and a merge needs several.
    rows = staging.rows.persist()
    try:
        columns = batch_measures(staging.cursor, staging.null_columns, staging.window)
        found = rows.agg(*columns).collect()[0].asDict()
        incoming = latest(_fitted(rows, staging, schema), staging.key, staging.cursor)
        yield incoming, read_measures(found, staging.cursor, staging.null_columns)
    finally:
        rows.unpersist()


def describe(
    staging: Staging, schema: StructType, measures: Measures, *, written: int, whole_table: bool
) -> BatchManifest:
    """Say what a batch contains."""
    census = staging.census()
    return BatchManifest(
        format=MANIFEST_FORMAT,
        batch_id=staging.batch.batch_id,
        rows=measures.rows,
        written=written,
        whole_table=whole_table,
        last=measures.last,
        nulls=measures.nulls,
        schema=schema.json(),
        late_rows=measures.digest,
        # A refresh reads the whole source: there is nothing else to count.
        source_rows=measures.rows if staging.batch.strategy == "full_refresh" else census.total,
        without_cursor=census.without_cursor,
        in_future=census.in_future,
        drift=staging.drift.changes,
    )


def write_manifest(files: Files, place: str, manifest: BatchManifest) -> None:
    """Write a manifest into the directory of its batch."""
    files.write_text(join(place, MANIFEST), _MANIFESTS.dump_json(manifest, indent=2).decode())


def read_manifest(files: Files, place: str, table: str) -> BatchManifest | None:
    """Read the manifest in a directory; `None` if there is none."""
    text = files.read_text(join(place, MANIFEST))
    if text is None:
        return None
    try:
        return _MANIFESTS.validate_json(text)
    except ValueError as error:
        raise TargetError(
            f"{table}: the manifest in {place} is damaged.",
            hint="Remove that directory if its rows can be copied again, or put the manifest back.",
        ) from error


def _fitted(rows: DataFrame, staging: Staging, schema: StructType) -> DataFrame:
    """Give rows the target's columns: reordered, widened, filled with null, and stamped."""
    if staging.with_metadata:
        rows = with_metadata(rows, staging.batch)
    else:
        rows = rows.drop(*METADATA)
    # Nothing to fit in most runs: the columns are the target's already.
    same = [(f.name, f.dataType) for f in rows.schema] == [(f.name, f.dataType) for f in schema]
    return rows if same else rows.to(schema)
