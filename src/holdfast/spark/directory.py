"""A table as a directory of files, correct for a plain `spark.read` at any moment.

    lake/bronze/
      orders/                                  the table
        _common_metadata                       Parquet only, once columns were added: all of them
        holdfast_batch=<batch id>/             one committed batch, never changed
          part-….parquet
          _holdfast.json                       its manifest; hidden from readers by its name
      .holdfast/staging/bronze.orders/<batch id>/
        holdfast_batch=<batch id>/…            a batch being written; no reader looks here

An appended batch becomes visible by one rename of its directory. A batch that changes earlier
rows (merge, refresh, rewind, a widened column) is staged as a complete table, and the two table
directories are exchanged. `docs/formats/target.md` describes both in detail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from holdfast.errors import TargetError
from holdfast.model import Batch, BatchManifest, Contents
from holdfast.spark.columns import BATCH_DIRECTORY, METADATA, METADATA_FIELDS, with_metadata
from holdfast.spark.counting import count_rows
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import files_for, join
from holdfast.spark.measures import Measures, batch_measures, read_measures
from holdfast.spark.merging import latest, merge
from holdfast.spark.targets import Staging, Target

MANIFEST_FORMAT: Final = 1
_MANIFEST = "_holdfast.json"
_COMMON_METADATA = "_common_metadata"
_MANIFESTS: Final = TypeAdapter(BatchManifest)

# Spark's own default keeps milliseconds, which would lose half of a timestamp.
_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_DEFAULT_OPTIONS = {
    "csv": {"header": "true", "timestampFormat": _MICROSECONDS},
    "json": {"timestampFormat": _MICROSECONDS, "ignoreNullFields": "false"},
}
# Formats in which a reader finds a column that only some files have.
_ADDS_COLUMNS_IN_PLACE = frozenset({"parquet", "json"})


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a batch lies at each stage."""

    table: str
    staging: str

    def staged_table(self, batch_id: str) -> str:
        return join(self.staging, batch_id)

    def staged_batch(self, batch_id: str) -> str:
        return join(self.staging, batch_id, _directory(batch_id))

    def published(self, batch_id: str) -> str:
        return join(self.table, _directory(batch_id))


class DirectoryTarget(Target):
    """Files of any format Spark writes to a directory."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        table: str,
        file_format: str,
        path: str,
        staging: str,
        options: dict[str, str],
    ) -> None:
        self._spark = spark
        self._table = table
        self._format = file_format
        self._options = {**_DEFAULT_OPTIONS.get(file_format, {}), **options}
        self._places = _Places(path, staging)
        self._files = files_for(spark, path)

    @property
    def location(self) -> str:
        return self._places.table

    def contents(self) -> Contents:
        if not self._files.exists(self._places.table):
            return "absent"
        visible = [n for n in self._files.names(self._places.table) if n[0] not in "._"]
        if not visible:
            return "empty"
        ours = all(name.startswith(f"{BATCH_DIRECTORY}=") for name in visible)
        return "ours" if ours else "foreign"

    def staged(self, batch_id: str) -> BatchManifest | None:
        for place in (self._places.staged_batch(batch_id), self._places.published(batch_id)):
            text = self._files.read_text(join(place, _MANIFEST))
            if text is not None:
                return self._parse(text, place)
        return None

    def is_published(self, batch_id: str) -> bool:
        return self._files.exists(join(self._places.published(batch_id), _MANIFEST))

    def stage(self, staging: Staging) -> BatchManifest:
        batch = staging.batch
        with translated(f"{self._table}: writing batch {batch.batch_id}"):
            self.clear(batch.batch_id)
            schema = _full_schema(staging)
            if self._merges_into_table(staging):
                measures = self._stage_merged(staging, schema)
                whole = True
            else:
                whole = self._stage_beside(staging, schema)
                measures = self._stage_rows(staging, schema)
            manifest = self._manifest(staging, schema, measures, whole)
            place = self._places.staged_batch(batch.batch_id)
            self._files.make_durable(self._places.staged_table(batch.batch_id))
            # Written last: a batch with a manifest is complete.
            self._files.write_text(
                join(place, _MANIFEST), _MANIFESTS.dump_json(manifest, indent=2).decode()
            )
            return manifest

    def publish(self, batch: Batch) -> None:
        manifest = self.staged(batch.batch_id)
        if manifest is None or self.is_published(batch.batch_id):
            return
        staged_table = self._places.staged_table(batch.batch_id)
        with translated(f"{self._table}: publishing batch {batch.batch_id}"):
            if not self._files.exists(self._places.table):
                self._files.rename(staged_table, self._places.table)
            elif manifest.whole_table:
                self._files.exchange(staged_table, self._places.table)
            else:
                self._publish_columns(staged_table)
                self._files.rename(
                    self._places.staged_batch(batch.batch_id),
                    self._places.published(batch.batch_id),
                )

    def clear(self, batch_id: str) -> None:
        with translated(f"{self._table}: clearing {self._places.staging}"):
            staged = self._places.staged_table(batch_id)
            self._files.delete(staged)
            self._files.delete(staged + ".aside")

    def schema(self) -> StructType:
        with translated(f"{self._table}: reading the columns of {self.location}"):
            found = self._reader().load(self._places.table).schema
        return StructType([field for field in found if field.name != BATCH_DIRECTORY])

    def _rows(self, schema: StructType) -> DataFrame:
        """Read the table as it is now; its batch directory is the last column."""
        partition = StructField(BATCH_DIRECTORY, StringType(), True)
        columns = StructType([*schema.fields, partition])
        return self._reader().schema(columns).load(self._places.table)

    def _reader(self) -> DataFrameReader:
        reader = self._spark.read.format(self._format).options(**self._options)
        if self._format == "csv":
            # Our own reading must survive a line break inside a value.
            reader = reader.option("multiLine", "true")
        return reader

    def _parse(self, text: str, place: str) -> BatchManifest:
        try:
            return _MANIFESTS.validate_json(text)
        except ValueError as error:
            raise TargetError(
                f"{self._table}: the manifest in {place} is damaged.",
                hint="Remove that directory if its rows can be copied again, "
                "or put the manifest back.",
            ) from error

    def _merges_into_table(self, staging: Staging) -> bool:
        batch = staging.batch
        return batch.strategy == "merge" and not batch.replaces_all and staging.before is not None

    def _stage_rows(self, staging: Staging, schema: StructType) -> Measures:
        """Write the source's rows, measuring them on the way."""
        columns = batch_measures(staging.cursor, staging.null_columns, staging.window)
        observation = Observation()
        rows = _fitted(staging.rows.observe(observation, *columns), staging, schema)
        if staging.batch.strategy == "merge" and staging.cursor is not None:
            rows = latest(rows, staging.key, staging.cursor)
        self._write(rows, self._places.staged_batch(staging.batch.batch_id))
        return read_measures(observation.get, staging.cursor, staging.null_columns)

    def _stage_merged(self, staging: Staging, schema: StructType) -> Measures:
        """Write the whole table with the source's rows merged in."""
        assert staging.cursor is not None, "merge is refused without a cursor"
        assert staging.before is not None, "there is a table to merge into"
        # Read once: the source could change between two passes, and the merge needs three.
        rows = staging.rows.persist()
        try:
            columns = batch_measures(staging.cursor, staging.null_columns, staging.window)
            found = rows.agg(*columns).collect()[0].asDict()
            incoming = latest(_fitted(rows, staging, schema), staging.key, staging.cursor)
            existing = self._rows(staging.before).drop(BATCH_DIRECTORY).to(schema)
            merged = merge(existing, incoming, staging.key, staging.cursor)
            self._write(merged, self._places.staged_batch(staging.batch.batch_id))
        finally:
            rows.unpersist()
        return read_measures(found, staging.cursor, staging.null_columns)

    def _stage_beside(self, staging: Staging, schema: StructType) -> bool:
        """Prepare what must stand beside the new batch; say whether that makes a whole table."""
        batch, drift = staging.batch, staging.drift
        place = self._places.staged_table(batch.batch_id)
        if batch.replaces_all or staging.before is None:
            return batch.replaces_all
        kept = [name for name in self._batch_names() if name not in batch.replaces]
        changed = drift.widened or (drift.added and self._format not in _ADDS_COLUMNS_IN_PLACE)
        if changed:
            self._rewrite(kept, staging.before, schema, place)
        elif batch.replaces:
            for name in kept:
                directory = _directory(name)
                self._files.link_tree(join(self._places.table, directory), join(place, directory))
        has_columns = self._files.exists(join(self._places.table, _COMMON_METADATA))
        needs_columns = bool(drift.added) or (bool(batch.replaces) and has_columns)
        if self._format == "parquet" and not changed and needs_columns:
            self._stage_columns(schema, place)
        return bool(changed) or bool(batch.replaces)

    def _rewrite(
        self, kept: Sequence[str], before: StructType, schema: StructType, place: str
    ) -> None:
        """Write earlier batches again with today's columns, each in its own directory still."""
        wanted = StructType([*schema.fields, StructField(BATCH_DIRECTORY, StringType(), True)])
        rows = self._rows(before).where(F.col(BATCH_DIRECTORY).isin(list(kept))).to(wanted)
        self._writer(rows).partitionBy(BATCH_DIRECTORY).save(place)
        for name in kept:
            text = self._files.read_text(join(self._places.published(name), _MANIFEST))
            if text is not None:
                self._files.write_text(join(place, _directory(name), _MANIFEST), text)

    def _stage_columns(self, schema: StructType, place: str) -> None:
        """Write the Parquet footer from which Spark learns a table's columns."""
        scratch = join(place, "_columns")
        self._writer(self._spark.createDataFrame([], schema).coalesce(1)).save(scratch)
        part = next(name for name in self._files.names(scratch) if name.startswith("part-"))
        self._files.rename(join(scratch, part), join(place, _COMMON_METADATA))
        self._files.delete(scratch)

    def _publish_columns(self, staged_table: str) -> None:
        staged = join(staged_table, _COMMON_METADATA)
        if self._files.exists(staged):
            # Before the rows: a column that is null everywhere is right, a missing one is not.
            place = join(self._places.table, _COMMON_METADATA)
            self._files.delete(place)
            self._files.rename(staged, place)

    def _manifest(
        self, staging: Staging, schema: StructType, measures: Measures, whole: bool
    ) -> BatchManifest:
        place = self._places.staged_batch(staging.batch.batch_id)
        return BatchManifest(
            format=MANIFEST_FORMAT,
            batch_id=staging.batch.batch_id,
            rows=measures.rows,
            written=count_rows(self._spark, self._format, place, schema, self._options),
            whole_table=whole,
            last=measures.last,
            nulls=measures.nulls,
            schema=schema.json(),
            late_rows=measures.digest,
            drift=staging.drift.changes,
        )

    def _batch_names(self) -> list[str]:
        prefix = f"{BATCH_DIRECTORY}="
        names = self._files.names(self._places.table)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def _write(self, rows: DataFrame, place: str) -> None:
        self._writer(rows).save(place)

    def _writer(self, rows: DataFrame) -> DataFrameWriter:
        return rows.write.format(self._format).options(**self._options).mode("overwrite")


def _directory(batch_id: str) -> str:
    return f"{BATCH_DIRECTORY}={batch_id}"


def _full_schema(staging: Staging) -> StructType:
    """The target's columns after this batch: the source's, then Holdfast's own."""
    had = {field.name for field in staging.before} if staging.before is not None else set()
    own = [f for f in METADATA_FIELDS if staging.with_metadata or f.name in had]
    return StructType([*staging.drift.schema.fields, *own])


def _fitted(rows: DataFrame, staging: Staging, schema: StructType) -> DataFrame:
    """Give rows the target's columns: reordered, widened, filled with null, and stamped."""
    if staging.with_metadata:
        rows = with_metadata(rows, staging.batch)
    else:
        rows = rows.drop(*METADATA)
    return rows.to(schema)
