"""`checkpoint rollback`, `repair`, `gc`: what changes the versions of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, error_console, print_json
from holdfast.cli.stream_words import (
    NeededReference,
    StreamArgument,
    one_stream,
    refuse_lost_ledger,
    stream_and_references,
)

if TYPE_CHECKING:
    from holdfast.pipelines.project import Project


def register(commands: typer.Typer) -> None:
    """Add the commands to their group."""
    for command in (rollback, repair, gc):
        commands.command()(command)


def rollback(
    context: typer.Context,
    pipeline: StreamArgument = None,
    reference: NeededReference = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    note: Annotated[str, typer.Option("--note", help="Why; kept in the history.")] = "",
    output: OutputOption = OutputFormat.text,
) -> None:
    """Go back to a checkpoint: what came after it is read and delivered again."""
    with context_of(context).project() as project:
        name, (wanted,) = stream_and_references(
            project.config,
            (pipeline, reference),
            wanted=1,
            example="holdfast checkpoint rollback 3",
        )
        refuse_lost_ledger(project.checkpoints(name))
        _refuse_running(project, name)
        project.checkpoints(name).resolve(wanted)  # a wrong one is said before Spark starts
        if not yes:
            from holdfast.cli.checkpoint_tables import print_preview

            preview = project.preview_roll_back(name, wanted)
            print_preview(error_console(), name, preview)
            typer.confirm(
                f"Roll {name} back to version {preview.to.version}?", abort=True, err=True
            )
        done = project.roll_back(name, wanted, note=note)
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import rolled_back

        print_json("checkpoint rollback", {"pipeline": name, **rolled_back(done)})
        return
    from holdfast.cli.checkpoint_tables import print_rolled_back

    print_rolled_back(console(), name, done)


def repair(
    context: typer.Context,
    pipeline: StreamArgument = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Make the ledger and the checkpoint location agree again, from whichever is left."""
    from holdfast.checkpoint import repair as repair_checkpoints

    with context_of(context).project() as project:
        name = one_stream(project.config, pipeline)
        done = repair_checkpoints(project.checkpoints(name))
    if output is OutputFormat.json:
        from holdfast.cli import stream_documents

        print_json("checkpoint repair", {"pipeline": name, **stream_documents.repair(done)})
    else:
        from holdfast.cli.checkpoint_tables import print_repair

        print_repair(console(), name, done)
    raise typer.Exit(1 if done.problems else 0)


def gc(
    context: typer.Context,
    pipeline: StreamArgument = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Remove files that no checkpoint names: what crashes left."""
    from holdfast.checkpoint import gc as collect

    with context_of(context).project() as project:
        name = one_stream(project.config, pipeline)
        _refuse_running(project, name)
        removed = collect(project.checkpoints(name), dry_run=dry_run)
    if output is OutputFormat.json:
        from holdfast.cli import stream_documents

        body = {"pipeline": name, "dry_run": dry_run, **stream_documents.removed(removed)}
        print_json("checkpoint gc", body)
        return
    from holdfast.cli.checkpoint_tables import print_removed

    print_removed(console(), name, removed, dry_run=dry_run)


def _refuse_running(project: Project, name: str) -> None:
    with project.records.ledger.reading() as view:
        project.records.leases.refuse_if_held_in(view, name)
