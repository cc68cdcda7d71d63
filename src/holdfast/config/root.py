"""The whole of `holdfast.toml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from pydantic import Field

from holdfast.config.replicate import ReplicatePipeline
from holdfast.config.section import Finding, Section
from holdfast.config.spark import SparkConfig
from holdfast.config.spelling import closest
from holdfast.config.state import StateConfig
from holdfast.errors import UsageError

_PIPELINE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Config(Section):
    """A configuration file that was read and found right."""

    # An absent table is validated like an empty one, so that the default path, too, starts at
    # the file's directory.
    state: StateConfig = Field(
        default_factory=cast(Callable[[], StateConfig], dict), validate_default=True
    )
    spark: SparkConfig = Field(default_factory=SparkConfig)
    pipeline: dict[str, ReplicatePipeline] = Field(
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
        for name in pipelines:
            if not _PIPELINE_NAME.fullmatch(name):
                message = "a pipeline's name starts with a letter or _ and goes on with letters,"
                yield Finding(("pipeline", name), f"{message} digits, _ and -")

    def pipeline_named(self, name: str) -> ReplicatePipeline:
        """Return a pipeline by its name."""
        if name in self.pipeline:
            return self.pipeline[name]
        meant = closest(name, self.pipeline)
        hint = f"Did you mean {meant}?" if meant else f"There are {', '.join(self.pipeline)}."
        raise UsageError(f"There is no pipeline {name}.", hint=hint)


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
