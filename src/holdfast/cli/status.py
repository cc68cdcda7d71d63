"""`status`: how every pipeline is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json
from holdfast.cli.tables import Cell, print_table
from holdfast.clock import describe_age, utc_now

if TYPE_CHECKING:
    from holdfast.pipelines.status import PipelineStatus, TableStatusLine

_STYLES = {
    "success": "green",
    "running": "cyan",
    "partial": "yellow",
    "interrupted": "yellow",
    "failed": "bold red",
    "died": "bold red",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(context: typer.Context, output: OutputOption = OutputFormat.text) -> None:
    """Show pipelines, their last runs, how far behind tables and sinks are, and anomalies."""
    from holdfast.cli import stream_status
    from holdfast.pipelines.status import pipeline_statuses
    from holdfast.pipelines.streams.status import stream_statuses

    with context_of(context).project_to_read() as project:
        statuses = {s.pipeline: s for s in pipeline_statuses(project.config, project.records)}
        streams = {s.pipeline: s for s in stream_statuses(project.config, project.records)}
    out = console()
    documents = []
    for name in project.config.pipeline:
        if output is OutputFormat.json:
            stream = streams.get(name)
            documents.append(
                _document(statuses[name]) if stream is None else stream_status.document(stream)
            )
        elif name in streams:
            stream_status.print_stream(out, streams[name])
        else:
            _print(out, statuses[name])
    if output is OutputFormat.json:
        print_json("status", {"pipelines": documents})


def _print(out: Console, entry: PipelineStatus) -> None:
    run = entry.last_run
    if run is None:
        out.print(Text.assemble((entry.pipeline, "bold"), ": never run"))
    else:
        age = describe_age(utc_now() - (run.finished_at or run.started_at))
        when = "started" if run.finished_at is None else "ended"
        out.print(
            Text.assemble(
                (entry.pipeline, "bold"),
                ": ",
                (run.status, _STYLES.get(run.status, "")),
                f", last run {when} {age} ago ({run.run_id})",
            ),
            soft_wrap=True,
        )
    print_table(
        out,
        ("  table", "watermark", "lag", "source rows", "last run", "look at"),
        [_row(line) for line in entry.tables],
        numbers=("source rows",),
    )
    if run is not None and run.status in ("failed", "partial", "interrupted", "died"):
        out.print(Text(f"  holdfast run {entry.pipeline} --resume", style="cyan"))


def _row(line: TableStatusLine) -> tuple[Cell, ...]:
    from holdfast.cli.places import place

    remarks: list[str] = [result.check for result in line.warnings]
    if line.unfinished:
        remarks.insert(0, "unfinished batch")
    if line.last is not None and line.last.failure is not None:
        remarks.insert(0, line.last.failure.error)
    return (
        f"  {line.table}",
        place(line.watermark.position) if line.watermark else "",
        describe_age(line.lag) if line.lag is not None else "",
        f"{line.source_rows:,}" if line.source_rows is not None else "",
        line.last.status if line.last else "",
        Text(", ".join(dict.fromkeys(remarks)), style="yellow"),
    )


def _document(entry: PipelineStatus) -> dict[str, Any]:
    from holdfast.cli import documents

    run = entry.last_run
    return {
        "pipeline": entry.pipeline,
        "lag_seconds": entry.lag.total_seconds() if entry.lag is not None else None,
        "anomalies": entry.anomalies,
        "last_run": None
        if run is None
        else {
            "run_id": run.run_id,
            "status": run.status,
            "started_at": documents.moment(run.started_at),
            "finished_at": documents.moment(run.finished_at),
            "actor": run.actor,
        },
        "tables": [
            {
                "table": line.table,
                "watermark": documents.watermark(line.watermark),
                "lag_seconds": line.lag.total_seconds() if line.lag is not None else None,
                "source_rows": line.source_rows,
                "last_status": line.last.status if line.last else None,
                "unfinished_batch": line.unfinished,
                "warnings": [documents.check(result) for result in line.warnings],
                "failure": documents.failure(line.last.failure) if line.last else None,
            }
            for line in entry.tables
        ],
    }
