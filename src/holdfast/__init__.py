"""Durable state for PySpark pipelines.

import holdfast

with holdfast.open_project("holdfast.toml") as project:
    result = project.run("bronze")
    print(result.run.status, sum(outcome.rows for outcome in result.outcomes))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast._version import __version__
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipelines.project import Project, open_project

__all__ = ["HoldfastError", "Project", "__version__", "open_project"]


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command's --help should not wait for what it does not need.
    if name in ("Project", "open_project"):
        from holdfast.pipelines import project

        return getattr(project, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
