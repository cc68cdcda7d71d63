"""`run` and `apply`: copying rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.context import TablesOption, context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_error, print_json
from holdfast.cli.progress import showing_progress
from holdfast.errors import HoldfastError, Interrupted

if TYPE_CHECKING:
    from holdfast.pipelines.running import RunResult

_EXIT_CODES = {"success": 0, "failed": 1, "partial": 2, "interrupted": 130}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(apply)


def run(
    context: typer.Context,
    pipeline: Annotated[
        str | None, typer.Argument(help="The pipeline; without it, every one in turn.")
    ] = None,
    table: TablesOption = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Copy everything and replace the targets.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Only the tables the last run did not finish.")
    ] = False,
    allow_failed_checks: Annotated[
        bool,
        typer.Option("--allow-failed-checks", help='Publish even what a "fail" check objects to.'),
    ] = False,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Copy what is new in every table, and remember how far it got."""
    results: list[RunResult] = []
    errors: dict[str, HoldfastError] = {}
    with context_of(context).project() as project:
        names = [pipeline] if pipeline else list(project.config.pipeline)
        for name in names:
            try:
                with showing_progress() as progress:
                    result = project.run(
                        name,
                        tables=table or (),
                        full_refresh=full_refresh,
                        resume=resume,
                        allow_failed_checks=allow_failed_checks,
                        progress=progress,
                    )
            except HoldfastError as error:
                if len(names) == 1 or isinstance(error, Interrupted):
                    raise
                # It could not start; the others can.
                errors[name] = error
                if output is OutputFormat.text:
                    print_error(error)
                continue
            results.append(result)
            if output is OutputFormat.text:
                _print(result)
            if result.run.status == "interrupted":
                break
    if output is OutputFormat.json:
        _print_documents("run", results, errors)
    raise typer.Exit(_exit_code([*(r.run.status for r in results), *("failed" for _ in errors)]))


def apply(
    context: typer.Context,
    plan_id: Annotated[str, typer.Argument(help="The id `holdfast plan` printed.")],
    allow_failed_checks: Annotated[
        bool,
        typer.Option("--allow-failed-checks", help='Publish even what a "fail" check objects to.'),
    ] = False,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Run exactly a stored plan; refused if the configuration or a position moved since."""
    with context_of(context).project() as project, showing_progress() as progress:
        result = project.apply(plan_id, allow_failed_checks=allow_failed_checks, progress=progress)
    if output is OutputFormat.json:
        _print_documents("apply", [result], {})
    else:
        _print(result)
    raise typer.Exit(_exit_code([result.run.status]))


def _print(result: RunResult) -> None:
    from holdfast.cli.report import print_run

    print_run(console(), result)


def _print_documents(
    command: str, results: list[RunResult], errors: Mapping[str, HoldfastError]
) -> None:
    from holdfast.cli import documents

    said = [
        {
            "pipeline": name,
            "error": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
        }
        for name, error in errors.items()
    ]
    runs = [documents.run(result.run, result.outcomes) for result in results]
    print_json(command, {"runs": runs, "errors": said})


def _exit_code(statuses: list[str]) -> int:
    if "interrupted" in statuses:
        return _EXIT_CODES["interrupted"]
    if len(set(statuses)) <= 1:
        return _EXIT_CODES[statuses[0]] if statuses else 0
    return _EXIT_CODES["partial"]
