"""`run` and `apply`: copying rows and delivering batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.context import TablesOption, context_of
from holdfast.cli.output import (
    OutputFormat,
    OutputOption,
    console,
    error_console,
    print_error,
    print_json,
)
from holdfast.cli.progress import showing_progress
from holdfast.cli.run_options import CopyOptions, StreamOptions, refuse_misplaced
from holdfast.errors import HoldfastError, Interrupted

if TYPE_CHECKING:
    from holdfast.model import RunStatus
    from holdfast.pipelines.project import Project
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
    once: Annotated[
        bool, typer.Option("--once", help="A stream: deliver what is there now, then end.")
    ] = False,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="latest|VERSION|ID",
            help="A stream: go back to this checkpoint first.",
        ),
    ] = None,
    accept_source: Annotated[
        bool,
        typer.Option(
            "--accept-source", help="A stream: its source is the same under another address."
        ),
    ] = False,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Copy or deliver what is new, and remember how far it got."""
    copying = CopyOptions(tuple(table or ()), full_refresh, resume, allow_failed_checks)
    streaming = StreamOptions(once, start_from, accept_source)
    statuses: list[str] = []
    documents: list[dict[str, Any]] = []
    errors: dict[str, HoldfastError] = {}
    with context_of(context).project() as project:
        names = [pipeline] if pipeline else list(project.config.pipeline)
        refuse_misplaced(project.config, names, copying, streaming)
        for name in names:
            try:
                if project.config.pipeline_named(name).type == "stream":
                    status, document = _stream(project, name, streaming, output)
                else:
                    status, document = _copy(project, name, copying, output)
            except HoldfastError as error:
                if len(names) == 1 or isinstance(error, Interrupted):
                    raise
                # It could not start; the others can.
                errors[name] = error
                if output is OutputFormat.text:
                    print_error(error)
                continue
            statuses.append(status)
            documents.append(document)
            left = names[names.index(name) + 1 :]
            if status == "interrupted" or (left and document.get("stopped")):
                # Whoever stops one pipeline does not want the next one to begin.
                statuses.append("interrupted")
                if left and output is OutputFormat.text:
                    error_console().print(f"Not run: {', '.join(left)}.")
                break
    if output is OutputFormat.json:
        _print_documents("run", documents, errors)
    raise typer.Exit(_exit_code([*statuses, *("failed" for _ in errors)]))


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
    document = _copied(result, output)
    if output is OutputFormat.json:
        _print_documents("apply", [document], {})
    raise typer.Exit(_exit_code([result.run.status]))


def _copy(
    project: Project, name: str, options: CopyOptions, output: OutputFormat
) -> tuple[RunStatus, dict[str, Any]]:
    with showing_progress() as progress:
        result = project.run(
            name,
            tables=options.tables,
            full_refresh=options.full_refresh,
            resume=options.resume,
            allow_failed_checks=options.allow_failed_checks,
            progress=progress,
        )
    return result.run.status, _copied(result, output)


def _copied(result: RunResult, output: OutputFormat) -> dict[str, Any]:
    from holdfast.cli import documents
    from holdfast.cli.report import print_run

    if output is OutputFormat.text:
        print_run(console(), result)
    return documents.run(result.run, result.outcomes)


def _stream(
    project: Project, name: str, options: StreamOptions, output: OutputFormat
) -> tuple[RunStatus, dict[str, Any]]:
    from holdfast.cli.stream_documents import stream_run
    from holdfast.cli.stream_progress import showing_stream
    from holdfast.cli.stream_report import print_stream_run

    with showing_stream(name) as progress:
        result = project.run_stream(
            name,
            once=options.once,
            start_from=options.start_from or "latest",
            accept_source=options.accept_source,
            progress=progress,
        )
    if output is OutputFormat.text:
        print_stream_run(console(), result, stopped=progress.stopped)
    return result.run.status, stream_run(result, stopped=progress.stopped)


def _print_documents(
    command: str, runs: list[dict[str, Any]], errors: Mapping[str, HoldfastError]
) -> None:
    said = [
        {
            "pipeline": name,
            "error": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
        }
        for name, error in errors.items()
    ]
    print_json(command, {"runs": runs, "errors": said})


def _exit_code(statuses: list[str]) -> int:
    if "interrupted" in statuses:
        return _EXIT_CODES["interrupted"]
    if len(set(statuses)) <= 1:
        return _EXIT_CODES[statuses[0]] if statuses else 0
    return _EXIT_CODES["partial"]
