"""Durable state for PySpark pipelines.

import holdfast

with holdfast.open_project("holdfast.toml") as project:
    result = project.run("bronze")
    print(result.run.status, sum(outcome.rows for outcome in result.outcomes))
"""

from holdfast._version import __version__
from holdfast.errors import HoldfastError
from holdfast.pipelines.project import Project, open_project

__all__ = ["HoldfastError", "Project", "__version__", "open_project"]
