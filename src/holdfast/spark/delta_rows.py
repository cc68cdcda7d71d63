"""What Spark writes for a Delta table: a batch's rows, and those that must change beside them.

A file holds the rows of one batch, which its directory names, or of several (`mixed`). Only files
that must change are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from holdfast.errors import TargetError
from holdfast.model import Batch
from holdfast.spark.columns import BATCH_DIRECTORY, BATCH_ID
from holdfast.spark.counting import parquet_rows
from holdfast.spark.cursor import quoted
from holdfast.spark.delta_log import LiveFile, NewFile, Snapshot
from holdfast.spark.filesystem import join, local_path
from holdfast.spark.measures import Measures
from holdfast.spark.merging import merge, with_incoming_keys
from holdfast.spark.schemas import empty_frame
from holdfast.spark.targets import Staging
from holdfast.spark.writing import incoming_rows, write_measured

MIXED: Final = "mixed"
"""Stands where a batch id would, for files with rows of several batches."""
_FILE = "__holdfast_file"
_BATCH_FIELD = StructField(BATCH_DIRECTORY, StringType(), True)


@dataclass(frozen=True, slots=True)
class Before:
    """The table a batch comes to, and the columns it will have afterwards."""

    files: list[LiveFile]
    old_columns: StructType
    columns: StructType

    @classmethod
    def of(cls, snapshot: Snapshot, wanted: StructType) -> Before:
        """Fit the columns a batch wants into those the table has, some of which others added."""
        old = snapshot.columns
        new = {field.name: field for field in wanted}
        fields = [
            StructField(field.name, new[field.name].dataType, field.nullable)
            if field.name in new
            else field
            for field in old
        ]
        fields += [field for field in wanted if field.name not in old.names]
        return cls(snapshot.files(), old, StructType(fields))

    @property
    def retyped(self) -> bool:
        """Whether a column changes its type, so that every file must be written again."""
        return any(self.columns[field.name] != field for field in self.old_columns)


class DeltaRows:
    """Reads the files of one table and writes new ones into a batch's staging directory."""

    def __init__(
        self, spark: SparkSession, *, table: str, place: Path, options: dict[str, str]
    ) -> None:
        self._spark = spark
        self._table = table
        self._place = place
        self._options = options

    def write_batch(self, staging: Staging, columns: StructType, staged: str) -> Measures:
        """Write the source's rows."""
        place = join(staged, batch_directory(staging.batch.batch_id))
        return write_measured(staging, columns, lambda rows: self._write(rows, place))

    def write_merged(
        self, staging: Staging, before: Before, staged: str
    ) -> tuple[Measures, list[LiveFile]]:
        """Merge the source's rows into the files that hold one of their keys, and name those."""
        assert staging.cursor is not None, "merge is refused without a cursor"
        with incoming_rows(staging, before.columns) as (incoming, measures):
            touched = before.files
            if not before.retyped:
                keys = [F.col(quoted(name)) for name in staging.key]
                rows = self._read(before.files, before.old_columns)
                rows = rows.select(*keys, F.input_file_name().alias(_FILE))
                touched = self._origins(with_incoming_keys(rows, incoming, staging.key), before)
            existing = self._read(touched, before.old_columns).to(before.columns)
            merged = merge(existing, incoming, staging.key, staging.cursor)
            self._write(merged, join(staged, batch_directory(MIXED)))
        return measures, touched

    def write_kept(self, batch: Batch, before: Before, staged: str) -> list[LiveFile]:
        """Write again what must change beside an appended batch; name the files it replaces."""
        replaced = batch.replaces
        gone = [file for file in before.files if _owner(file) in replaced]
        kept = [file for file in before.files if _owner(file) not in replaced]
        mixed = [file for file in kept if _owner(file) == MIXED] if replaced else []
        if mixed:
            self._refuse_nameless(mixed, before)
        if before.retyped:
            rows = self._read(kept, before.old_columns)
            self._write_retyped(_without(rows, replaced) if mixed else rows, before, staged)
            return before.files
        if mixed:
            rows = self._read(mixed, before.old_columns).withColumn(_FILE, F.input_file_name())
            touched = self._origins(rows.where(F.col(BATCH_ID).isin(list(replaced))), before)
            rows = _without(self._read(touched, before.old_columns), replaced)
            self._write(rows, join(staged, batch_directory(MIXED)))
            gone += touched
        return gone

    def staged_files(self, staged: str) -> list[NewFile]:
        """What was written into a staging directory."""
        top = local_path(staged)
        files = []
        for path in sorted(top.glob(f"{BATCH_DIRECTORY}=*/part-*.parquet")):
            rows, found = parquet_rows(path), path.stat()
            # Spark writes a file without rows where there are none; the log needs none.
            if rows:
                relative = path.relative_to(top).as_posix()
                modified_ms = found.st_mtime_ns // 1_000_000
                files.append(NewFile(relative, rows, found.st_size, modified_ms))
        return files

    def _write_retyped(self, rows: DataFrame, before: Before, staged: str) -> None:
        """Write rows with their new types, each batch in its own directory still."""
        pattern = f"{BATCH_DIRECTORY}(?:=|%3D)([^/]+)/[^/]*$"
        owner = F.regexp_extract(F.input_file_name(), pattern, 1)
        named = F.when(owner == "", F.lit(MIXED)).otherwise(owner)
        wanted = StructType([*before.columns.fields, _BATCH_FIELD])
        self._write(rows.withColumn(BATCH_DIRECTORY, named).to(wanted), staged, BATCH_DIRECTORY)

    def _refuse_nameless(self, mixed: Sequence[LiveFile], before: Before) -> None:
        """Refuse to take batches out of files whose rows do not say which batch they are of."""
        named = BATCH_ID in before.old_columns.names
        if named:
            rows = self._read(mixed, before.old_columns)
            named = rows.where(F.col(BATCH_ID).isNull()).isEmpty()
        if not named:
            raise TargetError(
                f"{self._table}: rows of several batches share a file in {self._place} and do "
                f"not say which are whose in {BATCH_ID}, so a batch cannot be replaced.",
                hint=f"Copy everything again: holdfast run --full-refresh --table {self._table}",
            )

    def _origins(self, rows: DataFrame, before: Before) -> list[LiveFile]:
        """The files that rows with a column `_FILE` came from."""
        found = rows.select(_FILE).distinct().collect()
        places = {local_path(str(row[0])).resolve() for row in found}
        return [file for file in before.files if (self._place / file.path).resolve() in places]

    def _read(self, files: Sequence[LiveFile], columns: StructType) -> DataFrame:
        """Read exactly these files; a column that one of them lacks is null."""
        if not files:
            return empty_frame(self._spark, columns)
        # Not `as_uri`: Hadoop takes a percent sign literally.
        paths = [f"file://{self._place / file.path}" for file in files]
        return self._spark.read.schema(columns).parquet(*paths)

    def _write(self, rows: DataFrame, place: str, *partition: str) -> None:
        writer = rows.write.format("parquet").options(**self._options).mode("overwrite")
        writer.partitionBy(*partition).save(place)


def batch_directory(batch_id: str) -> str:
    """The directory of a batch's files, below the table's."""
    return f"{BATCH_DIRECTORY}={batch_id}"


def _without(rows: DataFrame, batch_ids: Sequence[str]) -> DataFrame:
    return rows.where(~F.col(BATCH_ID).isin(list(batch_ids)))


def _owner(file: LiveFile) -> str:
    """The batch all of a file's rows are of."""
    directory = file.path.rpartition("/")[0]
    ours = directory.startswith(f"{BATCH_DIRECTORY}=") and "/" not in directory
    return directory.partition("=")[2] if ours else MIXED
