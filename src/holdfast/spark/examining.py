"""Trying Spark and a target out, for `doctor`."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.errors import TargetError
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import files_for, join


def describe_spark(spark: SparkSession, master: str) -> str:
    """Run a small job and say where it ran."""
    with translated(f"Spark on {master}: a first job"):
        rows = spark.range(1000).selectExpr("sum(id)").collect()[0][0]
    return f"Spark {spark.version} on {master} works (sum of the first 1,000 numbers: {rows:,})"


def try_writing(spark: SparkSession, path: str, *, what: str) -> None:
    """Write, rename and remove a small file below a target's path."""
    with translated(f"{what}: writing to {path}"):
        files = files_for(spark, path)
        place = join(path, ".holdfast", "doctor")
        files.write_text(join(place, "one"), "holdfast")
        files.rename(join(place, "one"), join(place, "two"))
        read = files.read_text(join(place, "two"))
        files.delete(place)
    if read != "holdfast":
        raise TargetError(
            f"{what}: {path} does not give back what was written.", hint="Check that file system."
        )
