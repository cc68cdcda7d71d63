"""The parts of a run, made from its job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.config import StreamPipeline, source_digest, source_options
from holdfast.model import Checkpoint, SinkPosition
from holdfast.pipelines.streams.epochs import EpochSettings
from holdfast.pipelines.streams.job import StreamJob
from holdfast.pipelines.streams.outlets import Outlet
from holdfast.pipelines.streams.policy import Policy
from holdfast.spark.sinks.opening import open_sink
from holdfast.spark.streaming.source import describe_source, open_stream, streamed
from holdfast.spark.streaming.spooling import Spools
from holdfast.spark.streaming.transforms import (
    Transform,
    by_function,
    by_query,
    load_function,
    narrowed,
)

if TYPE_CHECKING:
    from holdfast.spark.session import DataFrame
    from holdfast.spark.sinks.contract import Sink


def open_sinks(job: StreamJob, closing: ExitStack) -> dict[str, Sink]:
    """The sinks of a job, by name, closed with the stack."""
    sinks: dict[str, Sink] = {}
    for config in job.pipeline.sinks:
        given = job.sinks.get(config.name)
        sink = given or open_sink(config, pipeline=job.name, spark=job.spark)
        closing.callback(sink.close)
        sinks[config.name] = sink
    return sinks


def make_outlets(
    job: StreamJob, sinks: Mapping[str, Sink], last: Checkpoint | None
) -> tuple[tuple[Outlet, ...], tuple[str, ...]]:
    """The sinks with what the ledger knows of them, roll-backs they have to hear of included.

    The second value says which of them missed batches while they were not in the pipeline.
    """
    spools = Spools(job.spark, job.spool_location, job.clock)
    positions = job.checkpoints.sink_positions()
    missed: list[str] = []
    for name, position in positions.items():
        gap = _missed(position, last, name) if name in sinks else 0
        if gap and last is not None:
            missed.append(
                f"Sink {name} was not part of the pipeline for {gap} epochs, up to {last.epoch}: "
                "it does not get those batches."
            )
            count = position.dropped_count + gap
            positions[name] = replace(position, delivered=last.token, dropped_count=count)

    def remember(name: str, position: SinkPosition) -> None:
        job.checkpoints.remember_sink(name, position, generation=job.lease.generation)

    outlets = [
        Outlet(sinks[config.name], config, positions.get(config.name), spools, remember)
        for config in job.pipeline.sinks
    ]
    roll_back = job.checkpoints.open_roll_back()
    for outlet in outlets:
        if roll_back is not None and outlet.name in roll_back.open_sinks:
            outlet.must_roll_back(roll_back.to, job.checkpoints.told)
    return tuple(outlets), tuple(missed)


def _missed(position: SinkPosition, last: Checkpoint | None, name: str) -> int:
    """How many epochs went by while a sink was taken out of the configuration."""
    if last is None or name in last.sinks or position.delivered is None:
        return 0
    return max(0, last.epoch - position.delivered.epoch)


def make_policy(pipeline: StreamPipeline) -> Policy:
    """The commit policy over the names of the sinks."""
    return Policy(
        pipeline.batch.commit_policy,
        frozenset(config.name for config in pipeline.sinks),
        frozenset(config.name for config in pipeline.sinks if config.required),
        pipeline.batch.quorum or 0,
    )


def make_stream(job: StreamJob) -> DataFrame:
    """The streaming DataFrame: the source, with what `where` and `select` leave of it."""
    if job.stream is not None:
        frame: DataFrame = job.stream(job.spark)
    else:
        source = job.pipeline.source
        options = source_options(source, job.pipeline.batch)
        frame = open_stream(job.spark, source, options, pipeline=job.name)
    return narrowed(frame, job.pipeline.where, job.pipeline.select)


def make_transform(job: StreamJob) -> Transform:
    """What happens to every micro-batch, in order."""
    pipeline = job.pipeline
    steps: list[Transform] = []
    if pipeline.sql is not None:
        steps.append(by_query(pipeline.sql))
    if pipeline.python is not None:
        steps.append(by_function(load_function(pipeline.python), pipeline.python))
    steps += job.transforms

    def transform(frame: DataFrame) -> DataFrame:
        for step in steps:
            frame = step(frame)
        return frame

    return transform


def source_names(job: StreamJob) -> tuple[str, ...]:
    """What is read, in the order of Spark's plan."""
    if job.stream is None:
        return (describe_source(job.pipeline.source),)
    return streamed(job.stream(job.spark))


def digest_of_source(job: StreamJob) -> str:
    """Tells whether offsets still mean the same rows."""
    if job.stream is None:
        return source_digest(job.pipeline)
    return hashlib.sha256(json.dumps(source_names(job)).encode()).hexdigest()


def transform_digest(job: StreamJob) -> str:
    """Tells whether the same things are done to the rows; functions count by their names."""
    pipeline = job.pipeline
    said = [pipeline.where, pipeline.select, pipeline.sql, pipeline.python, len(job.transforms)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def epoch_settings(job: StreamJob, digest: str) -> EpochSettings:
    """What does not change while the job runs."""
    return EpochSettings(
        pipeline=job.name,
        run_id=job.run_id,
        generation=job.lease.generation,
        source=digest,
        transforms=transform_digest(job),
        source_names=source_names(job),
        retain=job.pipeline.checkpoint.retain,
        on_schema_change=job.pipeline.on_schema_change,
    )
