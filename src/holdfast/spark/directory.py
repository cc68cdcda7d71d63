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

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from holdfast.model import Batch, BatchManifest, Contents
from holdfast.spark.columns import BATCH_DIRECTORY
from holdfast.spark.counting import count_rows, has_footers
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import ASIDE, files_for, join
from holdfast.spark.measures import Measures
from holdfast.spark.merging import merge
from holdfast.spark.targets import Staging, Target
from holdfast.spark.writing import (
    MANIFEST,
    describe,
    full_schema,
    incoming_rows,
    merges_into_table,
    read_manifest,
    write_manifest,
    write_measured,
)

_COMMON_METADATA = "_common_metadata"

# Spark's own defaults keep milliseconds, which would lose half of a timestamp, and trim texts.
_MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
DEFAULT_OPTIONS = {
    "csv": {
        "header": "true",
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        **_MICROSECONDS,
    },
    "json": {"ignoreNullFields": "false", **_MICROSECONDS},
}
# Options with which nulls of a CSV file are written as something else than nothing.
_OTHER_NULLS = frozenset({"nullvalue", "emptyvalue", "quoteall"})
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
        self._options = {**DEFAULT_OPTIONS.get(file_format, {}), **options}
        self._places = _Places(path, staging)
        with translated(f"{table}: opening {path}"):
            self._files = files_for(spark, path)

    @property
    def location(self) -> str:
        return self._places.table

    @property
    def adoption(self) -> str:
        return f"Keep them by moving them into a directory named {BATCH_DIRECTORY}=before inside it"

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
            manifest = read_manifest(self._files, place, self._table)
            if manifest is not None:
                return manifest
        return None

    def is_published(self, batch_id: str) -> bool:
        return self._files.exists(join(self._places.published(batch_id), MANIFEST))

    def stage(self, staging: Staging) -> BatchManifest:
        batch = staging.batch
        with translated(f"{self._table}: writing batch {batch.batch_id}"):
            self.clear(batch.batch_id)
            schema = full_schema(staging)
            if merges_into_table(staging):
                measures = self._stage_merged(staging, schema)
                whole = True
            else:
                measures = self._stage_rows(staging, schema)
                # A batch without rows is published only for what it replaces: a source whose
                # columns changed and nothing else must not cost a copy of the table every time.
                needed = measures.rows or batch.replaces or batch.replaces_all
                whole = bool(needed) and self._stage_beside(staging, schema)
            manifest = self._manifest(staging, schema, measures, whole)
            place = self._places.staged_batch(batch.batch_id)
            self._files.make_durable(self._places.staged_table(batch.batch_id))
            # Written last: a batch with a manifest is complete.
            write_manifest(self._files, place, manifest)
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
            if not self._files.exists(self._places.table) and self._files.exists(staged + ASIDE):
                # An exchange in two renames ended after the first: this is the only copy.
                self._files.rename(staged + ASIDE, self._places.table)
            for name in self._files.names(self._places.staging):
                # What a crash left of earlier batches goes too. Ids are ordered by time: what
                # a newer run is writing stays, should this one have been overtaken.
                if name.removesuffix(ASIDE) <= batch_id:
                    self._files.delete(join(self._places.staging, name))

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
            if _OTHER_NULLS.isdisjoint(name.lower() for name in self._options):
                # A text that no file holds: by default an empty text, too, is read as null.
                reader = reader.option("nullValue", "\0")
        return reader

    def _stage_rows(self, staging: Staging, schema: StructType) -> Measures:
        place = self._places.staged_batch(staging.batch.batch_id)
        count = None
        if has_footers(self._spark, self._format, place):
            count = lambda: self._count(place, schema)  # noqa: E731 - a name for what is passed
        return write_measured(staging, schema, lambda rows: self._write(rows, place), count)

    def _count(self, place: str, schema: StructType) -> int:
        return count_rows(self._spark, self._format, place, schema, self._options)

    def _stage_merged(self, staging: Staging, schema: StructType) -> Measures:
        """Write the whole table with the source's rows merged in."""
        assert staging.cursor is not None, "merge is refused without a cursor"
        assert staging.before is not None, "there is a table to merge into"
        with incoming_rows(staging, schema) as (incoming, measures):
            existing = self._rows(staging.before).drop(BATCH_DIRECTORY).to(schema)
            merged = merge(existing, incoming, staging.key, staging.cursor)
            self._write(merged, self._places.staged_batch(staging.batch.batch_id))
        return measures

    def _stage_beside(self, staging: Staging, schema: StructType) -> bool:
        """Prepare what must stand beside the new batch; say whether that makes a whole table."""
        batch, drift = staging.batch, staging.drift
        place = self._places.staged_table(batch.batch_id)
        if batch.replaces_all or staging.before is None:
            return batch.replaces_all
        kept = [name for name in self._batch_names() if name not in batch.replaces]
        # Of the source, or ours where they were switched on since.
        added = set(schema.fieldNames()) - set(staging.before.fieldNames())
        changed = drift.widened or (added and self._format not in _ADDS_COLUMNS_IN_PLACE)
        if changed:
            self._rewrite(kept, staging.before, schema, place)
        elif batch.replaces:
            for name in kept:
                directory = _directory(name)
                self._files.link_tree(join(self._places.table, directory), join(place, directory))
        has_columns = self._files.exists(join(self._places.table, _COMMON_METADATA))
        needs_columns = bool(added) or (bool(batch.replaces) and has_columns)
        if self._format == "parquet" and not changed and needs_columns:
            self._stage_columns(schema, place)
        return bool(changed) or bool(batch.replaces)

    def _rewrite(
        self, kept: Sequence[str], before: StructType, schema: StructType, place: str
    ) -> None:
        """Write earlier batches again with today's columns, each in its own directory still."""
        wanted = StructType([*schema.fields, StructField(BATCH_DIRECTORY, StringType(), True)])
        rows = self._rows(before).where(F.col(BATCH_DIRECTORY).isin(list(kept))).to(wanted)
        # Beside the new batch, which is there already.
        self._writer(rows).mode("append").partitionBy(BATCH_DIRECTORY).save(place)
        for name in kept:
            text = self._files.read_text(join(self._places.published(name), MANIFEST))
            if text is not None:
                self._files.write_text(join(place, _directory(name), MANIFEST), text)

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
            self._files.replace(staged, join(self._places.table, _COMMON_METADATA))

    def _manifest(
        self, staging: Staging, schema: StructType, measures: Measures, whole: bool
    ) -> BatchManifest:
        place = self._places.staged_batch(staging.batch.batch_id)
        written = self._count(place, schema)
        return describe(staging, schema, measures, written=written, whole_table=whole)

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
