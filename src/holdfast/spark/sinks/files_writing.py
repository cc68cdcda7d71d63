"""Writing one batch into a staging directory, with little beside Spark's own write."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.model import Token
from holdfast.spark.counting import parquet_rows
from holdfast.spark.directory import DEFAULT_OPTIONS
from holdfast.spark.filesystem import Files, LocalFiles, join, local_path
from holdfast.spark.schemas import empty_frame
from holdfast.spark.sinks.files_layout import seal_local
from holdfast.spark.sinks.files_record import FORMAT, EpochManifest, dump
from holdfast.spark.writing import MANIFEST

# A staged directory is named by nobody before it is complete: Hadoop need neither keep the files
# of finished tasks apart until the job is done nor mark the directory. It spares a tenth of a
# small write.
FAST_COMMITTER: Final = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_ROWS: Final = "rows"


class EpochWriter:
    """Writes batches in one format, on a disk this process sees or through Hadoop."""

    def __init__(
        self, spark: SparkSession, files: Files, *, file_format: str, options: dict[str, str]
    ) -> None:
        self._spark = spark
        self._files = files
        self._format = file_format
        self._options = {**FAST_COMMITTER, **DEFAULT_OPTIONS.get(file_format, {}), **options}
        self._local = isinstance(files, LocalFiles)

    def write(self, frame: DataFrame, place: str) -> int | None:
        """Write rows; say how many, unless the files will say it themselves."""
        if self._local and self._format == "parquet":
            self._save(frame, place)
            return None
        # Counted as they pass: no second job, and no reading back.
        observation = Observation()
        self._save(frame.observe(observation, F.count(F.lit(1)).alias(_ROWS)), place)
        # Spark drops the counting with everything else of a plan it knows to be empty.
        return int(observation.get.get(_ROWS, 0))

    def seal(self, place: str, token: Token, rows: int | None) -> EpochManifest:
        """Make what was written durable, with its manifest."""
        if not self._local:
            names = [name for name in self._files.names(place) if name[0] not in "._"]
            manifest = EpochManifest(FORMAT, str(token), rows, tuple(names))
            self._files.write_text(join(place, MANIFEST), dump(manifest))
            return manifest
        directory = local_path(place)
        names = []
        for path in sorted(directory.iterdir()):
            if path.name[0] not in "._":
                names.append(path.name)
            elif path.suffix == ".crc":
                # Hadoop's checksums of the files: each would have to be synced like the file.
                path.unlink()
        if rows is None:
            rows = sum(parquet_rows(directory / name) for name in names)
        manifest = EpochManifest(FORMAT, str(token), rows, tuple(names))
        seal_local(directory, manifest)
        return manifest

    def write_columns(self, schema: StructType, place: str) -> str:
        """Write a Parquet file without rows, from which Spark learns columns; say where it is."""
        self._save(empty_frame(self._spark, schema).coalesce(1), place)
        part = next(name for name in self._files.names(place) if name.startswith("part-"))
        self._files.make_durable(place)
        return join(place, part)

    def _save(self, frame: DataFrame, place: str) -> None:
        frame.write.format(self._format).options(**self._options).save(place)
