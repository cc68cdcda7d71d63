"""`plan`: what a run would do."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.context import PipelineArgument, TablesOption, context_of, one_pipeline
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json
from holdfast.cli.progress import showing_progress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(
    context: typer.Context,
    pipeline: PipelineArgument = None,
    table: TablesOption = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Plan to copy everything again.")
    ] = False,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Decide what a run would do, print it, and store it for `holdfast apply`."""
    with context_of(context).project() as project, showing_progress() as progress:
        made = project.plan(
            one_pipeline(project.config, pipeline),
            tables=table or (),
            full_refresh=full_refresh,
            progress=progress,
        )
    if output is OutputFormat.json:
        from holdfast.cli import documents

        print_json("plan", documents.plan(made))
    else:
        from holdfast.cli.report import print_plan

        print_plan(console(), made)
    blocked = any(entry.action == "blocked" for entry in made.tables)
    raise typer.Exit(1 if blocked else 0)
