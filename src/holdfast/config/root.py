"""The whole of `holdfast.toml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import Field

from holdfast.config.choosing import chosen_by_type, table_of
from holdfast.config.replicate import ReplicatePipeline
from holdfast.config.section import Finding, Section, as_table
from holdfast.config.spark import SparkConfig
from holdfast.config.spelling import closest
from holdfast.config.state import StateConfig
from holdfast.config.stream import StreamPipeline, StreamSource
from holdfast.config.stream_paths import shared_outputs
from holdfast.config.stream_rules import inference_rules
from holdfast.errors import UsageError

_PIPELINE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KINDS: Final[Mapping[str, type[Section]]] = {
    "replicate": ReplicatePipeline,
    "stream": StreamPipeline,
}

AnyPipeline = ReplicatePipeline | StreamPipeline


class Config(Section):
    """A configuration file that was read and found right."""

    # An absent table is validated like an empty one, so that the default path, too, starts at
    # the file's directory.
    state: StateConfig = Field(
        default_factory=cast(Callable[[], StateConfig], dict), validate_default=True
    )
    spark: SparkConfig = Field(default_factory=SparkConfig)
    pipeline: dict[str, Annotated[AnyPipeline, chosen_by_type(_KINDS)]] = Field(
        description="at least one pipeline, as in [pipeline.bronze]"
    )

    @classmethod
    def refused_outright(cls, data: Mapping[str, Any]) -> Finding | None:
        """Refuse a pipeline without a name, whose keys would all be taken for pipelines."""
        pipelines = data.get("pipeline")
        if not isinstance(pipelines, Mapping) or not isinstance(pipelines.get("type"), str):
            return None
        return Finding(("pipeline",), "a pipeline needs a name, as in [pipeline.bronze]")

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong with the number and the names of the pipelines."""
        pipelines = data.get("pipeline")
        if not isinstance(pipelines, Mapping):
            return
        if not pipelines:
            yield Finding(("pipeline",), "expected at least one pipeline, as in [pipeline.bronze]")
        yield from _shared_targets(pipelines)
        yield from _unknown_columns(pipelines, as_table(data.get("spark"), SparkConfig))
        for name in pipelines:
            if not _PIPELINE_NAME.fullmatch(name):
                message = "a pipeline's name starts with a letter or _ and goes on with letters,"
                yield Finding(("pipeline", name), f"{message} digits, _ and -")

    @classmethod
    def clashing_paths(cls, data: Mapping[str, Any], base: Path) -> Iterator[Finding]:
        """Yield the sinks that write where another sink or pipeline of the file does."""
        pipelines = data.get("pipeline")
        if isinstance(pipelines, Mapping):
            tables = {name: table_of(pipeline, _KINDS) for name, pipeline in pipelines.items()}
            yield from shared_outputs(tables, base)

    @property
    def replications(self) -> dict[str, ReplicatePipeline]:
        """The pipelines that copy tables, by name."""
        return {n: p for n, p in self.pipeline.items() if isinstance(p, ReplicatePipeline)}

    @property
    def streams(self) -> dict[str, StreamPipeline]:
        """The pipelines that deliver micro-batches, by name."""
        return {n: p for n, p in self.pipeline.items() if isinstance(p, StreamPipeline)}

    def pipeline_named(self, name: str) -> AnyPipeline:
        """Return a pipeline by its name."""
        if name in self.pipeline:
            return self.pipeline[name]
        meant = closest(name, self.pipeline)
        hint = f"Did you mean {meant}?" if meant else f"There are {', '.join(self.pipeline)}."
        raise UsageError(f"There is no pipeline {name}.", hint=hint)

    def replicate_named(self, name: str) -> ReplicatePipeline:
        """Return a pipeline that copies tables."""
        found = self.pipeline_named(name)
        if isinstance(found, ReplicatePipeline):
            return found
        raise UsageError(
            f"{name} is a stream pipeline: it delivers batches and has no tables to copy.",
            hint=f"Run it: holdfast run {name}\n"
            f"See how far it got: holdfast checkpoint list {name}",
        )

    def stream_named(self, name: str) -> StreamPipeline:
        """Return a pipeline that delivers micro-batches."""
        found = self.pipeline_named(name)
        if isinstance(found, StreamPipeline):
            return found
        raise UsageError(
            f"{name} is a replicate pipeline: it copies tables and has no batches to deliver.",
            hint=f"Run it: holdfast run {name}\n"
            f"See how far each table got: holdfast state show '{name}.*'",
        )


def _unknown_columns(pipelines: Mapping[str, Any], spark: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the streams whose columns nobody says and Spark may not guess."""
    for name, pipeline in pipelines.items():
        table = table_of(pipeline, _KINDS)
        if table.get("type") == "stream":
            source = as_table(table.get("source"), StreamSource)
            for finding in inference_rules(source, spark.get("conf")):
                yield Finding(("pipeline", name, "source", *finding.location), finding.message)


def _shared_targets(pipelines: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the tables that two pipelines would copy to the same place."""
    owners: dict[tuple[str, str], str] = {}
    for name, pipeline in pipelines.items():
        target = pipeline.get("target") if isinstance(pipeline, Mapping) else None
        path = target.get("path") if isinstance(target, Mapping) else None
        tables = pipeline.get("tables") if isinstance(pipeline, Mapping) else None
        if not isinstance(path, str) or not isinstance(tables, list | tuple):
            continue
        for table in tables:
            owner = owners.setdefault((path.rstrip("/"), str(table)), str(name))
            if owner != name:
                message = f"{table} is copied there by pipeline {owner} already; choose another"
                yield Finding(("pipeline", str(name), "target", "path"), message)
