"""From a configured stream to one that can run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.checkpoint import Checkpoints
from holdfast.config.stream import StreamPipeline
from holdfast.ledger.records import Records
from holdfast.objects import open_objects

if TYPE_CHECKING:
    from holdfast.spark.session import SparkSession


def open_checkpoints(name: str, pipeline: StreamPipeline, records: Records) -> Checkpoints:
    """The checkpoints of a pipeline, at its configured location."""
    return Checkpoints(name, records, open_objects(pipeline.checkpoint.location))


def spool_location(name: str, pipeline: StreamPipeline) -> str:
    """Where batches wait for sinks; beside the checkpoints, out of the way of their keys."""
    return f"{pipeline.checkpoint.location.rstrip('/')}/.spool/{name}"


def scratch_directory(ledger: Path, name: str) -> Path:
    """Where Spark's own checkpoint directories are made."""
    return ledger.absolute().parent / "spark" / name


def streaming_session(spark: SparkSession) -> SparkSession:
    """A session of our own, set up for queries whose checkpoint directory is scratch."""
    from holdfast.spark.jobs import working_session
    from holdfast.spark.streaming.scratch import SETTINGS

    own = working_session(spark)
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    return own
