"""Schemas as text and back."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.spark.columns import source_fields

__all__ = ["StructType", "empty_frame", "parse_schema", "source_fields"]


def parse_schema(text: str) -> StructType:
    """Read a schema that Spark wrote as JSON."""
    return StructType.fromJson(json.loads(text))


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame with these columns and no row."""
    return spark.createDataFrame([], schema)
