"""From a configured stream to one that can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.checkpoint import Checkpoints
from holdfast.config.stream import StreamPipeline
from holdfast.ledger.records import Records
from holdfast.model import Lease
from holdfast.objects import open_objects
from holdfast.pipelines.identity import current_actor
from holdfast.pipelines.streams.job import StreamJob

if TYPE_CHECKING:
    from holdfast.spark.session import SparkSession
    from holdfast.spark.sinks.contract import Sink
    from holdfast.spark.streaming.transforms import Transform


def open_checkpoints(name: str, pipeline: StreamPipeline, records: Records) -> Checkpoints:
    """The checkpoints of a pipeline, at its configured location."""
    return Checkpoints(name, records, open_objects(pipeline.checkpoint.location))


def make_job(
    name: str,
    pipeline: StreamPipeline,
    records: Records,
    *,
    ledger_path: Path,
    lease: Lease,
    spark: SparkSession,
    stream: Callable[[SparkSession], Any] | None = None,
    transforms: tuple[Transform, ...] = (),
    sinks: Mapping[str, Sink] | None = None,
) -> StreamJob:
    """A job with everything in its usual place.

    Spark's own directories are made beside the ledger. Batches wait for sinks beside the
    checkpoints, out of the way of their keys.
    """
    home = ledger_path.absolute().parent
    return StreamJob(
        name=name,
        pipeline=pipeline,
        checkpoints=open_checkpoints(name, pipeline, records),
        # A DataFrame that is there already belongs to the session it was made in.
        spark=streaming_session(spark) if stream is None else spark,
        lease=lease,
        actor=current_actor(),
        work=home / "spark" / name,
        spool_location=f"{pipeline.checkpoint.location.rstrip('/')}/.spool/{name}",
        log_path=home / "holdfast.log",
        stream=stream,
        transforms=transforms,
        sinks=sinks or {},
    )


def streaming_session(spark: SparkSession) -> SparkSession:
    """A session of our own, set up for queries whose checkpoint directory is scratch."""
    from holdfast.spark.jobs import working_session
    from holdfast.spark.streaming.scratch import SETTINGS

    own = working_session(spark)
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    return own
