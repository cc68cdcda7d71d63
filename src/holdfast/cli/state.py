"""`state`: what is remembered of tables, and changing it on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, error_console, print_json
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.model import Watermark
    from holdfast.pipelines.state import StateBook

TableArgument = Annotated[str, typer.Argument(help="The table as `state show` lists it.")]
GlobArgument = Annotated[str, typer.Argument(help="A table, or a glob such as 'bronze.*'.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why; kept in the history.")]

commands = typer.Typer(
    name="state",
    help="Look at watermarks and row counts, move them, and see who moved them.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(commands)


@commands.command()
def show(
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(help="Only tables that match this glob.")] = "*",
    output: OutputOption = OutputFormat.text,
) -> None:
    """List every table that is remembered."""
    with context_of(context).project_to_read() as project:
        states = project.state.show(pattern)
    if output is OutputFormat.json:
        from holdfast.cli import documents

        print_json("state show", {"tables": [documents.table_state(s) for s in states]})
        return
    from holdfast.cli.state_tables import print_states

    print_states(console(), states)


@commands.command()
def get(
    context: typer.Context, table: TableArgument, output: OutputOption = OutputFormat.text
) -> None:
    """Show one table."""
    with context_of(context).project_to_read() as project:
        found = project.state.get(table)
    if output is OutputFormat.json:
        from holdfast.cli import documents

        print_json("state get", documents.table_state(found))
        return
    from holdfast.cli.state_tables import print_state

    print_state(console(), found)


@commands.command()
def history(
    context: typer.Context,
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many steps.")] = 20,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Show every step a table's watermark took: when, by whom, why."""
    with context_of(context).project_to_read() as project:
        entries = project.state.history(table, limit=limit)
    if output is OutputFormat.json:
        from holdfast.cli import documents

        body = {"table": table, "versions": [documents.history_entry(e) for e in entries]}
        print_json("state history", body)
        return
    from holdfast.cli.state_tables import print_history

    print_history(console(), table, entries)


@commands.command(name="set")
def set_watermark(
    context: typer.Context,
    table: TableArgument,
    value: Annotated[list[str], typer.Argument(help="A value for each cursor column.")],
    yes: YesOption = False,
    note: NoteOption = "",
    output: OutputOption = OutputFormat.text,
) -> None:
    """Say how far a table has been copied; its target is left alone."""
    _change(
        context,
        "set",
        [table],
        lambda book, name: book.set(name, value, note=note),
        question=f"Set the watermark of {table} to {', '.join(value)}?",
        yes=yes,
        output=output,
    )


@commands.command()
def rewind(
    context: typer.Context,
    table: GlobArgument,
    to: Annotated[list[str] | None, typer.Option("--to", help="The place to go back to.")] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="A version from `state history`.")
    ] = None,
    yes: YesOption = False,
    note: NoteOption = "",
    output: OutputOption = OutputFormat.text,
) -> None:
    """Go back: the next run copies again what lies after the place, doubling nothing."""
    if (to is None) == (version is None):
        raise UsageError("Give --to VALUE or --version N.", hint=f"holdfast state history {table}")
    place = f"version {version}" if to is None else ", ".join(to)
    _change(
        context,
        "rewind",
        _matching(context, table),
        lambda book, name: book.rewind(name, to=to, version=version, note=note),
        question=f"Rewind {table} to {place}?",
        yes=yes,
        output=output,
    )


@commands.command()
def delete(
    context: typer.Context,
    table: GlobArgument,
    yes: YesOption = False,
    note: NoteOption = "",
    output: OutputOption = OutputFormat.text,
) -> None:
    """Forget a watermark: the next run copies everything and replaces the target."""
    _change(
        context,
        "delete",
        _matching(context, table),
        lambda book, name: book.delete(name, note=note),
        question=f"Delete the watermark of {table}?",
        yes=yes,
        output=output,
    )


@commands.command()
def migrate(context: typer.Context, output: OutputOption = OutputFormat.text) -> None:
    """Bring a ledger written by an older version up to date."""
    from holdfast.ledger import migrate as migrate_ledger

    chosen = context_of(context)
    path = chosen.state_path or chosen.load().state.path
    done = migrate_ledger(path)
    if output is OutputFormat.json:
        body = {"path": str(path), "from": done.from_format, "to": done.to_format}
        print_json("state migrate", body)
    elif done.from_format == done.to_format:
        console().print(f"{path} already has format {done.to_format}.")
    else:
        said = f"{path}: format {done.from_format} is now {done.to_format}"
        console().print(f"{said}; a copy from before is {done.copy}.")


def _matching(context: typer.Context, pattern: str) -> list[str]:
    with context_of(context).project_to_read() as project:
        return project.state.matching(pattern)


def _change(
    context: typer.Context,
    verb: str,
    tables: list[str],
    change: Callable[[StateBook, str], Watermark],
    *,
    question: str,
    yes: bool,
    output: OutputFormat,
) -> None:
    if not yes:
        if len(tables) > 1:
            question += f" ({len(tables)} tables: {', '.join(tables)})"
        typer.confirm(question, abort=True, err=True)
    from holdfast.cli.state_tables import print_change

    changed: dict[str, Watermark] = {}
    try:
        with context_of(context).project() as project:
            for name in tables:
                changed[name] = change(project.state, name)
    except HoldfastError:
        # One table of a glob was refused: those before it have been changed, and that is said.
        for name, watermark in changed.items():
            print_change(error_console(), name, watermark)
        raise
    if output is OutputFormat.json:
        from holdfast.cli import documents

        body = [{"table": t, "watermark": documents.watermark(w)} for t, w in changed.items()]
        print_json(f"state {verb}", {"tables": body})
        return
    for name, watermark in changed.items():
        print_change(console(), name, watermark)
