"""Holding a copy against its source."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.spark.columns import without_own_columns
from holdfast.spark.failures import translated


def compare_rows(spark: SparkSession, *, source: Path, target: Path) -> tuple[int, int, int, int]:
    """Count source rows, target rows, rows missing in the target, rows only the target has.

    Rows are compared as multisets, in the target's types, over the columns both have.
    """
    with translated(f"comparing {source.name} with {target.name}"):
        copied = without_own_columns(spark.read.parquet(str(target)))
        reader = spark.read.option("header", "true").option("inferSchema", "true")
        original = reader.csv(str(source)).to(copied.schema).select(*copied.columns)
        missing = original.exceptAll(copied).count()
        unexpected = copied.exceptAll(original).count()
        return original.count(), copied.count(), missing, unexpected
