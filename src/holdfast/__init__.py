"""Durable state for PySpark pipelines.

import holdfast

with holdfast.open_project("holdfast.toml") as project:
    result = project.run("bronze")
    print(result.run.status, sum(outcome.rows for outcome in result.outcomes))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast._version import __version__
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipelines.project import Project, open_project
    from holdfast.pipelines.streams import sinks
    from holdfast.pipelines.streams.api import Stream, StreamQuery, stream

__all__ = [
    "HoldfastError",
    "Project",
    "Stream",
    "StreamQuery",
    "__version__",
    "open_project",
    "sinks",
    "stream",
]


_LAZY = {
    "Project": "holdfast.pipelines.project",
    "open_project": "holdfast.pipelines.project",
    "Stream": "holdfast.pipelines.streams.api",
    "StreamQuery": "holdfast.pipelines.streams.api",
    "stream": "holdfast.pipelines.streams.api",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command's --help should not wait for what it does not need.
    if name == "sinks":
        return import_module("holdfast.pipelines.streams.sinks")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
