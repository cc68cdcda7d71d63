"""`init` and `validate`: getting a configuration file, and getting it right."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json

if TYPE_CHECKING:
    from holdfast.config import AnyPipeline


class Template(StrEnum):
    """The starter files there are."""

    replicate = "replicate"
    stream = "stream"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(init)
    app.command()(validate)


def init(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help="Where to write it; holdfast.toml by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    template: Annotated[
        Template, typer.Option("--template", help="The type of pipeline it describes.")
    ] = Template.replicate,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Write a commented configuration file to start from."""
    from holdfast.config import write_starter

    written = write_starter(
        path or context_of(context).config, force=force, template=template.value
    )
    if output is OutputFormat.json:
        print_json("init", {"path": str(written)})
    else:
        console().print(f"Wrote {written}. Edit it, then check it with: holdfast validate")


def validate(
    context: typer.Context,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Check the configuration file; every mistake is listed at once."""
    config = context_of(context).load()
    if output is OutputFormat.json:
        body = [{"name": name, **_document(found)} for name, found in config.pipeline.items()]
        print_json("validate", {"path": str(context_of(context).config), "pipelines": body})
        return
    out = console()
    out.print(f"{context_of(context).config} is right.")
    for name, pipeline in config.pipeline.items():
        out.print(f"  {name}: {_summary(pipeline)}")


def _document(pipeline: AnyPipeline) -> dict[str, object]:
    if pipeline.type == "stream":
        return {"sinks": [sink.name for sink in pipeline.sinks]}
    tables = list(pipeline.tables) if pipeline.tables is not None else None
    return {"tables": tables}


def _summary(pipeline: AnyPipeline) -> str:
    if pipeline.type == "stream":
        sinks = ", ".join(sink.name for sink in pipeline.sinks)
        return f"stream of {pipeline.source.format} to {sinks}"
    tables = pipeline.tables
    found = f"{len(tables)} tables" if tables is not None else "tables found at each run"
    return f"{pipeline.strategy}, {found}"
