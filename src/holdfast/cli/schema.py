"""`schema`: the columns of a stream, and when they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json
from holdfast.cli.stream_words import (
    NeededReference,
    StreamArgument,
    one_stream,
    refuse_lost_ledger,
    stream_and_reference,
    stream_and_references,
)
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from holdfast.model import SchemaEntry

commands = typer.Typer(
    name="schema",
    help="The columns a stream reads and delivers, and since when it does.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(commands)


@commands.command(name="list")
def list_schemas(
    context: typer.Context,
    pipeline: StreamArgument = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """List every schema that was seen, oldest first, and how each differs from the one before."""
    with context_of(context).project_to_read() as project:
        name = one_stream(project.config, pipeline)
        checkpoints = project.checkpoints(name)
        refuse_lost_ledger(checkpoints)
        found = checkpoints.schemas()
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import schema_entry

        body = [schema_entry(each) for each in found]
        print_json("schema list", {"pipeline": name, "schemas": body})
        return
    _print_list(console(), name, found)


@commands.command()
def show(
    context: typer.Context,
    pipeline: StreamArgument = None,
    fingerprint: Annotated[
        str | None,
        typer.Argument(
            metavar="FINGERPRINT", help="As `schema list` shows it; the newest output by default."
        ),
    ] = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Show the columns of one schema."""
    with context_of(context).project_to_read() as project:
        name, wanted = stream_and_reference(project.config, pipeline, fingerprint)
        checkpoints = project.checkpoints(name)
        refuse_lost_ledger(checkpoints)
        found = _chosen(name, checkpoints.schemas(), wanted)
    from holdfast.cli.stream_documents import columns, schema_entry

    if output is OutputFormat.json:
        body = {**schema_entry(found), "columns": columns(found.schema)}
        print_json("schema show", {"pipeline": name, **body})
        return
    out = console()
    out.print(
        f"{name} {found.name} {found.fingerprint}, since version {found.version} "
        f"(epoch {found.epoch})",
        soft_wrap=True,
    )
    _print_columns(out, columns(found.schema))


@commands.command()
def at(
    context: typer.Context,
    pipeline: StreamArgument = None,
    reference: NeededReference = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Show the columns that were read and delivered at a checkpoint."""
    with context_of(context).project_to_read() as project:
        name, (wanted,) = stream_and_references(
            project.config, (pipeline, reference), wanted=1, example="holdfast schema at 3"
        )
        checkpoints = project.checkpoints(name)
        refuse_lost_ledger(checkpoints)
        entry = checkpoints.resolve(wanted)
        schemas = checkpoints.load(entry).schemas
    from holdfast.cli import stream_documents

    if output is OutputFormat.json:
        found = {key: stream_documents.batch_schema(schema) for key, schema in schemas.items()}
        body = {"checkpoint": stream_documents.entry(entry), "schemas": found}
        print_json("schema at", {"pipeline": name, **body})
        return
    out = console()
    for key, schema in schemas.items():
        out.print(f"{name} {key} {schema.fingerprint}, at version {entry.version}", soft_wrap=True)
        _print_columns(out, stream_documents.columns(schema.schema))


def _chosen(pipeline: str, schemas: Sequence[SchemaEntry], wanted: str | None) -> SchemaEntry:
    if not schemas:
        raise UsageError(
            f"{pipeline} has not seen any rows yet.", hint=f"Run it: holdfast run {pipeline}"
        )
    outputs = [each for each in schemas if each.name == "output"]
    if wanted is None:
        return (outputs or list(schemas))[-1]
    # What is read and what is delivered may have the same columns.
    matching = [each for each in schemas if each.fingerprint.startswith(wanted.lower())]
    if len({each.fingerprint for each in matching}) == 1:
        return matching[-1]
    listed = ", ".join(dict.fromkeys(each.fingerprint for each in matching or schemas))
    raise UsageError(
        f"{wanted} is the beginning of several fingerprints."
        if matching
        else f"{pipeline} has no schema {wanted}.",
        hint=f"There are {listed}.",
    )


def _print_list(out: Console, pipeline: str, schemas: Sequence[SchemaEntry]) -> None:
    from holdfast.cli.tables import print_table
    from holdfast.clock import isoformat

    if not schemas:
        out.print(f"{pipeline} has not seen any rows yet. Run it: holdfast run {pipeline}")
        return
    print_table(
        out,
        ("schema", "fingerprint", "since version", "epoch", "when", "changes"),
        [
            (
                each.name,
                each.fingerprint,
                str(each.version),
                str(each.epoch),
                isoformat(each.seen_at),
                "; ".join(each.changes),
            )
            for each in schemas
        ],
        title=pipeline,
        numbers=("since version", "epoch"),
    )


def _print_columns(out: Console, columns: Sequence[dict[str, Any]]) -> None:
    from holdfast.cli.tables import print_table

    print_table(
        out,
        ("  column", "type", ""),
        [(f"  {c['name']}", c["type"], "" if c["nullable"] else "not null") for c in columns],
    )
