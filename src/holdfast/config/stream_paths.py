"""Paths that get in each other's way: a stream that reads its own output, two writers in one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from holdfast.config.choosing import table_of
from holdfast.config.limits import STREAM_FILE_FORMATS
from holdfast.config.section import Finding, Location, Section, as_table
from holdfast.config.sinks import SINKS
from holdfast.config.values import absolute_location

Table = Mapping[str, Any]

_LOCAL: Final = re.compile(r"file:/*", re.IGNORECASE)


def own_output(
    data: Table, base: Path, *, source: type[Section], checkpoint: type[Section]
) -> Iterator[Finding]:
    """Yield the sinks, and the checkpoints, that lie where the source looks for files."""
    origin = as_table(data.get("source"), source)
    kind, read = origin.get("format"), _path(origin.get("path"), base)
    if read is None or not isinstance(kind, str):
        return
    if kind.lower() not in (*STREAM_FILE_FORMATS, "delta"):
        return
    for at, path in _sink_paths(data.get("sinks"), base):
        if path.matches_below(read):
            message = "is where the source looks for files: the stream would read its own output"
            yield Finding((*at, "path"), message)
    location = _path(as_table(data.get("checkpoint"), checkpoint).get("location"), base)
    if location is not None and location.matches_below(read):
        message = "is where the source looks for files; keep checkpoints elsewhere"
        yield Finding(("checkpoint", "location"), message)


def shared_outputs(pipelines: Mapping[str, Any], base: Path) -> Iterator[Finding]:
    """Yield the sinks of a file that write where another sink, or a copied table, is written."""
    places = list(_copied_tables(pipelines, base))
    owners: dict[tuple[str, str], str] = {}
    for name, pipeline in pipelines.items():
        sinks = table_of(pipeline, {}).get("sinks")
        for at, path in _sink_paths(sinks, base):
            for owner in [who for place, who in places if place.overlaps(path)][:1]:
                message = f"{owner} writes there already; choose another directory"
                yield Finding(("pipeline", name, *at, "path"), message)
            places.append((path, f"{name}.sinks[{at[-1]}]"))
        for at, table in _postgres_tables(sinks):
            sink = f"{name}.sinks[{at[-1]}]"
            if owners.setdefault(table, sink) != sink:
                message = f"{owners[table]} writes to this table already; choose another"
                yield Finding(("pipeline", name, *at, "table"), message)


@dataclass(frozen=True, slots=True)
class _Place:
    """A path in its parts; the first one holds the scheme and host of a URI."""

    parts: tuple[str, ...]

    def matches_below(self, pattern: _Place) -> bool:
        """Tell whether this is, or lies in, what a path that may be a glob stands for."""
        if len(self.parts) < len(pattern.parts):
            return False
        pairs = zip(self.parts, pattern.parts, strict=False)
        return all(part == glob or fnmatchcase(part, glob) for part, glob in pairs)

    def overlaps(self, other: _Place) -> bool:
        """Tell whether one of the two is, or lies in, the other."""
        shorter = min(len(self.parts), len(other.parts))
        return self.parts[:shorter] == other.parts[:shorter]


def _path(value: object, base: Path) -> _Place | None:
    # With a variable that is not set, which is reported elsewhere, the path is not known.
    if not isinstance(value, str) or not value.strip() or "${" in value:
        return None
    text = _LOCAL.sub("/", value) if _LOCAL.match(value) else value
    scheme, _, rest = absolute_location(text, base).rpartition("://")
    return _Place((scheme, *(part for part in rest.split("/") if part not in ("", "."))))


def _sink_paths(sinks: object, base: Path) -> Iterator[tuple[Location, _Place]]:
    for index, sink in _tables(sinks):
        if sink.get("type") in ("files", "delta"):
            path = _path(sink.get("path"), base)
            if path is not None:
                yield ("sinks", index), path


def _postgres_tables(sinks: object) -> Iterator[tuple[Location, tuple[str, str]]]:
    for index, sink in _tables(sinks):
        url, table = sink.get("url"), sink.get("table")
        known = isinstance(url, str) and isinstance(table, str)
        if sink.get("type") == "postgres" and known and "${" not in f"{url}{table}":
            yield ("sinks", index), (str(url), str(table).removeprefix("public."))


def _copied_tables(pipelines: Mapping[str, Any], base: Path) -> Iterator[tuple[_Place, str]]:
    for name, pipeline in pipelines.items():
        table = table_of(pipeline, {})
        target = table_of(table.get("target"), {})
        path = _path(target.get("path"), base)
        listed = table.get("tables")
        if path is not None:
            # Tables that are found at each run have names that nobody knows yet.
            for below in listed if isinstance(listed, list | tuple) else ("*",):
                yield _Place((*path.parts, str(below))), f"pipeline {name}"


def _tables(sinks: object) -> Iterator[tuple[int, dict[str, Any]]]:
    if isinstance(sinks, list | tuple):
        for index, sink in enumerate(sinks):
            yield index, table_of(sink, SINKS)
