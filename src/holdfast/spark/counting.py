"""How many rows a directory of files holds, from the files themselves."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.spark.filesystem import is_local, local_path


def count_rows(
    spark: SparkSession, file_format: str, place: str, schema: StructType, options: dict[str, str]
) -> int:
    """Count what was really written, which is not what was meant to be written.

    A Parquet footer says it without a Spark job, where this process can open the file.
    """
    if has_footers(spark, file_format, place):
        return sum(parquet_rows(path) for path in sorted(local_path(place).glob("part-*")))
    reader = spark.read.format(file_format).schema(schema).options(**options)
    if file_format == "csv":
        reader = reader.option("multiLine", "true")
    return reader.load(place).count()


def has_footers(spark: SparkSession, file_format: str, place: str) -> bool:
    """Whether files say how many rows they have, to this process, without a Spark job."""
    return file_format == "parquet" and is_local(spark, place)


def parquet_rows(path: Path) -> int:
    """The rows of one Parquet file, by its footer."""
    # Imported late: it is slow to load, and only this needs it.
    from pyarrow import parquet

    return int(parquet.read_metadata(path).num_rows)
