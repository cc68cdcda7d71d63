"""The columns Holdfast adds to the rows it copies."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from holdfast.clock import isoformat
from holdfast.model import Batch
from holdfast.spark.cursor import literal

LOADED_BY = "_loaded_by"
LOADED_AT = "_loaded_at"
BATCH_ID = "_batch_id"
METADATA = (LOADED_BY, LOADED_AT, BATCH_ID)

BATCH_DIRECTORY = "holdfast_batch"
"""The directory level that holds a batch; Spark shows it as a column."""

METADATA_FIELDS = (
    T.StructField(LOADED_BY, T.StringType(), True),
    T.StructField(LOADED_AT, T.TimestampType(), True),
    T.StructField(BATCH_ID, T.StringType(), True),
)


def without_own_columns(frame: DataFrame) -> DataFrame:
    """Drop columns an upstream Holdfast added: they describe that copy, not this one."""
    own = {*METADATA, BATCH_DIRECTORY}
    found = [name for name in frame.columns if name.lower() in own]
    return frame.drop(*found) if found else frame


def with_metadata(frame: DataFrame, batch: Batch) -> DataFrame:
    """Add who copied each row, when, and in which batch.

    The values come from the intent, so a batch that is written again is written the same.
    """
    return frame.selectExpr(
        "*",
        f"{literal('string', batch.loaded_by)} AS {LOADED_BY}",
        f"{literal('timestamp', isoformat(batch.loaded_at))} AS {LOADED_AT}",
        f"{literal('string', batch.batch_id)} AS {BATCH_ID}",
    )


def source_fields(schema: T.StructType) -> T.StructType:
    """The columns that came from the source."""
    own = {*METADATA, BATCH_DIRECTORY}
    return T.StructType([field for field in schema if field.name not in own])
