"""`init` and `validate`: getting a configuration file, and getting it right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json


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
    output: OutputOption = OutputFormat.text,
) -> None:
    """Write a commented configuration file to start from."""
    from holdfast.config import write_starter

    written = write_starter(path or context_of(context).config, force=force)
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
    pipelines = {
        name: list(pipeline.tables) if pipeline.tables is not None else None
        for name, pipeline in config.pipeline.items()
    }
    if output is OutputFormat.json:
        body = [{"name": name, "tables": tables} for name, tables in pipelines.items()]
        print_json("validate", {"path": str(context_of(context).config), "pipelines": body})
        return
    out = console()
    out.print(f"{context_of(context).config} is right.")
    for name, tables in pipelines.items():
        found = f"{len(tables)} tables" if tables is not None else "tables found at each run"
        out.print(f"  {name}: {config.pipeline[name].strategy}, {found}")
