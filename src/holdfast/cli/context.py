"""What the options before a command say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.config import Config
    from holdfast.pipelines.project import Project


@dataclass(frozen=True, slots=True)
class Context:
    """The configuration file and the ledger the user chose."""

    config: Path
    state_path: Path | None

    def load(self) -> Config:
        """Read the configuration file."""
        from holdfast.config import load_config

        return load_config(self.config)

    def project(self) -> Project:
        """Open the configuration file and its ledger."""
        from holdfast.pipelines.project import open_project

        return open_project(self.config, state_path=self.state_path)

    def project_to_read(self) -> Project:
        """The same for a command that only looks: it makes no ledger where there is none."""
        from holdfast.pipelines.project import open_project

        project = open_project(self.config, state_path=self.state_path)
        if project.ledger_path.exists():
            return project
        if self.state_path is not None:
            raise UsageError(
                f"There is no ledger {self.state_path}.", hint="Check what --state-path says."
            )
        return open_project(self.config, state_path=":memory:")


def context_of(context: typer.Context) -> Context:
    """The options given before the command."""
    found = context.obj
    assert isinstance(found, Context)
    return found


def one_pipeline(config: Config, name: str | None) -> str:
    """The pipeline that was named, or the only one there is."""
    if name is not None:
        config.pipeline_named(name)
        return name
    if len(config.pipeline) == 1:
        return next(iter(config.pipeline))
    raise UsageError("Which pipeline?", hint=f"There are {', '.join(config.pipeline)}.")


PipelineArgument = Annotated[
    str | None, typer.Argument(help="The pipeline; may be left out where there is only one.")
]
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="Only these tables; globs; may be repeated."),
]
