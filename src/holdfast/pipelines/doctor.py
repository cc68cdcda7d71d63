"""Is everything there that a run will need? One finding a check, with the fix named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlparse

from holdfast.clock import describe_age
from holdfast.config import load_config
from holdfast.errors import HoldfastError, UsageError
from holdfast.pipelines.findings import Finding
from holdfast.pipelines.identity import new_id
from holdfast.pipelines.project import Project
from holdfast.pipelines.streams.examining import checkpoints, sinks, sources

_LOW_DISK_BYTES = 500 * 1024 * 1024


Check = Callable[[Project], Iterator[Finding]]


def examine(
    config_path: Path, state_path: Path | None, *, only: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Run the checks in order, each as soon as the one before it is done."""
    unknown = sorted(set(only) - set(CHECKS) - {"config"})
    if unknown:
        raise UsageError(
            f"There is no check called {unknown[0]}.",
            hint=f"There are: config, {', '.join(CHECKS)}.",
        )
    try:
        config = load_config(config_path)
    except HoldfastError as error:
        # Nothing else can be looked at without it, so it is said even if not asked for.
        said = str(error).removesuffix(f"\n{error.hint}")
        yield Finding("config", "critical", said, error.hint or "Correct the file.")
        return
    if not only or "config" in only:
        yield Finding("config", "ok", f"{config_path} is right")
    with Project(config, state_path=state_path) as project:
        for name, check in CHECKS.items():
            if not only or name in only:
                yield from _guarded(name, check, project)


def _guarded(name: str, check: Check, project: Project) -> Iterator[Finding]:
    try:
        yield from check(project)
    except HoldfastError as error:
        yield Finding(name, "critical", error.message, error.hint)


def _ledger(project: Project) -> Iterator[Finding]:
    fresh = not project.ledger_path.exists()
    with project.ledger.reading() as view:
        tables = len(project.records.tables(view))
        streams = len(view.keys(project.records.heads.namespace))
    remembered = f"remembers {tables} tables and {streams} streams"
    said = "was made and is empty" if fresh else remembered
    yield Finding("ledger", "ok", f"{project.ledger_path} {said}")
    yield from _disk("ledger", project.ledger_path.parent)


def _state_rw(project: Project) -> Iterator[Finding]:
    key, value = f"doctor-{new_id()}", os.urandom(16)
    with project.ledger.writing() as change:
        change.put("doctor", key, value)
    record = project.ledger.get("doctor", key)
    with project.ledger.writing() as change:
        change.prune("doctor", key, 0)
    if record is None or record.value != value:
        yield Finding(
            "state_rw",
            "critical",
            f"{project.ledger_path} does not give back what was written",
            "Check the disk it is on; put the ledger on a local one.",
        )
    else:
        yield Finding("state_rw", "ok", "the ledger gives back what was written")


def _clock(project: Project) -> Iterator[Finding]:
    now = project.ledger.clock()
    with project.ledger.reading() as view:
        newest = max(
            (
                info.created_at
                for table in project.records.tables(view)
                for info in view.versions(project.records.watermarks.namespace, table)[:1]
            ),
            default=None,
        )
    if newest is not None and newest - now > timedelta(seconds=5):
        yield Finding(
            "clock",
            "critical",
            f"the newest record was written {describe_age(newest - now)} in the future",
            "This machine's clock, or that of the one that wrote it, is wrong: check NTP.",
        )
    else:
        yield Finding("clock", "ok", "no record is from the future")


def _java(project: Project) -> Iterator[Finding]:
    from holdfast.spark.java import find_java

    java = find_java()
    yield Finding("java", "ok", f"Java {java.version} from {java.source} ({java.home})")


def _spark(project: Project) -> Iterator[Finding]:
    from holdfast.spark.examining import describe_spark

    yield Finding("spark", "ok", describe_spark(project.spark, project.config.spark.master))


def _sources(project: Project) -> Iterator[Finding]:
    from holdfast.spark.discovery import tables_of
    from holdfast.spark.loading import open_table

    spark = project.spark
    for name, pipeline in project.config.replications.items():
        good = 0
        try:
            tables = tables_of(spark, name, pipeline)
        except HoldfastError as error:
            # One pipeline's trouble must not hide another's.
            yield Finding("sources", "critical", error.message, error.hint)
            continue
        for table in tables:
            try:
                open_table(spark, pipeline.source, table, pipeline.settings_for(table.source))
                good += 1
            except HoldfastError as error:
                yield Finding("sources", "critical", error.message, error.hint)
        if good:
            yield Finding("sources", "ok", f"{name}: {good} tables can be opened")
    for name, stream in project.config.streams.items():
        yield from sources(name, stream, spark)


def _targets(project: Project) -> Iterator[Finding]:
    from holdfast.spark.examining import try_writing

    spark = project.spark
    for name, pipeline in project.config.replications.items():
        path = str(pipeline.target.path)
        try:
            try_writing(spark, path, what=name)
        except HoldfastError as error:
            yield Finding("targets", "critical", error.message, error.hint)
            continue
        yield Finding("targets", "ok", f"{name}: {path} can be written")
        if urlparse(path).scheme in ("", "file"):
            yield from _disk("targets", Path(urlparse(path).path))


def _checkpoints(project: Project) -> Iterator[Finding]:
    for name, stream in project.config.streams.items():
        yield from checkpoints(project.checkpoints(name))
        yield from _disk("checkpoints", Path(stream.checkpoint.location))


def _sinks(project: Project) -> Iterator[Finding]:
    for name, stream in project.config.streams.items():
        yield from sinks(name, stream, project.spark)


def _disk(check: str, directory: Path) -> Iterator[Finding]:
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < _LOW_DISK_BYTES:
        yield Finding(
            check,
            "warn",
            f"only {free // (1024 * 1024):,} MB are free where {directory} is",
            "Free some space before the next run.",
        )


CHECKS: Final[dict[str, Check]] = {
    "ledger": _ledger,
    "state_rw": _state_rw,
    "clock": _clock,
    "checkpoints": _checkpoints,
    "java": _java,
    "spark": _spark,
    "sources": _sources,
    "targets": _targets,
    "sinks": _sinks,
}
"""Cheapest first: a wrong path is said before Spark has started."""
