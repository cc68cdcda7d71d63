"""From a pipeline's configuration to a target that can be written."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.config import ReplicatePipeline
from holdfast.errors import TargetError
from holdfast.model import TableName
from holdfast.spark.directory import DirectoryTarget
from holdfast.spark.filesystem import is_pattern, join
from holdfast.spark.targets import Target


def open_target(spark: SparkSession, pipeline: ReplicatePipeline, table: TableName) -> Target:
    """Open the place one table is copied to."""
    config = pipeline.target
    root = str(config.path)
    path = target_path(pipeline, table)
    if is_pattern(path):
        raise TargetError(
            f"{table}: Spark would take the target's path for a pattern: {path}.",
            hint="Choose a path without any of * ? [ ] { } \\",
        )
    staging = join(root, ".holdfast", "staging", table.key)
    if config.format == "delta":
        # An optional dependency, needed by this format alone.
        from holdfast.spark.delta import DeltaTarget

        return DeltaTarget(
            spark, table=table.key, path=path, staging=staging, options=dict(config.options)
        )
    return DirectoryTarget(
        spark,
        table=table.key,
        file_format=config.format,
        path=path,
        staging=staging,
        options=dict(config.options),
    )


def target_path(pipeline: ReplicatePipeline, table: TableName) -> str:
    """Where a table is copied to: its schema, if it has one, is a directory level."""
    return join(str(pipeline.target.path), *table.target.split("."))
