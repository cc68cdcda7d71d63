"""`checkpoint`: the versions of a stream; looking at them and keeping one."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import checkpoint_changes
from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json
from holdfast.cli.stream_words import (
    NeededReference,
    ReferenceArgument,
    StreamArgument,
    one_stream,
    refuse_lost_ledger,
    stream_and_reference,
    stream_and_references,
)

commands = typer.Typer(
    name="checkpoint",
    help="Look at the versions of a stream, keep one, go back to one, check and mend them.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    checkpoint_changes.register(commands)
    app.add_typer(commands)


@commands.command(name="list")
def list_versions(
    context: typer.Context,
    pipeline: StreamArgument = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = (
        20
    ),
    output: OutputOption = OutputFormat.text,
) -> None:
    """List the kept checkpoints, newest first."""
    with context_of(context).project_to_read() as project:
        name = one_stream(project.config, pipeline)
        versions = project.versions(name)
        refuse_lost_ledger(versions.checkpoints)
        found = versions.list()
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import version

        body = {"pipeline": name, "total": len(found)}
        print_json("checkpoint list", {**body, "checkpoints": [version(v) for v in found[:limit]]})
        return
    from holdfast.cli.checkpoint_tables import print_versions

    print_versions(console(), name, found[:limit], total=len(found))


@commands.command()
def show(
    context: typer.Context,
    pipeline: StreamArgument = None,
    reference: ReferenceArgument = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Show one checkpoint in full; the newest by default."""
    with context_of(context).project_to_read() as project:
        name, wanted = stream_and_reference(project.config, pipeline, reference)
        versions = project.versions(name)
        refuse_lost_ledger(versions.checkpoints)
        line, checkpoint = versions.show(wanted or "latest")
    if output is OutputFormat.json:
        from holdfast.cli import stream_documents

        body = stream_documents.checkpoint(line, checkpoint)
        print_json("checkpoint show", {"pipeline": name, **body})
        return
    from holdfast.cli.checkpoint_tables import print_checkpoint

    print_checkpoint(console(), line, checkpoint)


@commands.command()
def diff(
    context: typer.Context,
    pipeline: StreamArgument = None,
    one: Annotated[str | None, typer.Argument(metavar="A", help="A checkpoint.")] = None,
    other: Annotated[str | None, typer.Argument(metavar="B", help="Another one.")] = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Say what moved from one checkpoint to another."""
    with context_of(context).project_to_read() as project:
        name, (first, second) = stream_and_references(
            project.config,
            (pipeline, one, other),
            wanted=2,
            example="holdfast checkpoint diff 3 latest",
        )
        versions = project.versions(name)
        refuse_lost_ledger(versions.checkpoints)
        before, after = (versions.checkpoints.resolve(word) for word in (first, second))
        found = versions.diff(first, second)
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import difference, entry

        ends = {"pipeline": name, "from": entry(before), "to": entry(after)}
        print_json("checkpoint diff", {**ends, **difference(found)})
        return
    from holdfast.cli.checkpoint_tables import print_difference

    print_difference(console(), before, after, found)


@commands.command()
def create(
    context: typer.Context,
    pipeline: StreamArgument = None,
    note: Annotated[str, typer.Option("--note", help="Why it is kept.")] = "",
    output: OutputOption = OutputFormat.text,
) -> None:
    """Keep the checkpoint the pipeline is at now, whatever retention says."""
    with context_of(context).project_to_read() as project:
        name = one_stream(project.config, pipeline)
        versions = project.versions(name)
        refuse_lost_ledger(versions.checkpoints)
        kept = versions.create(note)
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import pin

        print_json("checkpoint create", {"pipeline": name, "kept": pin(kept)})
        return
    console().print(
        f"{name}: version {kept.version} is kept until: "
        f"holdfast checkpoint release {name} {kept.version}",
        soft_wrap=True,
    )


@commands.command()
def release(
    context: typer.Context,
    pipeline: StreamArgument = None,
    reference: NeededReference = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Give a checkpoint that was kept on purpose back to retention."""
    with context_of(context).project_to_read() as project:
        name, (wanted,) = stream_and_references(
            project.config,
            (pipeline, reference),
            wanted=1,
            example="holdfast checkpoint release 3",
        )
        released = project.versions(name).release(wanted)
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import entry

        print_json("checkpoint release", {"pipeline": name, "released": entry(released)})
        return
    console().print(f"{name}: version {released.version} is left to retention again.")


@commands.command()
def verify(
    context: typer.Context,
    pipeline: StreamArgument = None,
    reference: ReferenceArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Every kept checkpoint.")] = False,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Read every file of a checkpoint and compare it with what was written."""
    from holdfast.checkpoint import verify as verify_one
    from holdfast.checkpoint import verify_all
    from holdfast.errors import UsageError

    with context_of(context).project_to_read() as project:
        name, wanted = stream_and_reference(project.config, pipeline, reference)
        if every and wanted is not None:
            raise UsageError(f"Either checkpoint {wanted}, or --all.")
        checkpoints = project.checkpoints(name)
        refuse_lost_ledger(checkpoints)
        if every:
            found = verify_all(checkpoints)
        else:
            found = [verify_one(checkpoints, checkpoints.resolve(wanted or "latest"))]
    if output is OutputFormat.json:
        from holdfast.cli.stream_documents import verification

        body = [verification(each) for each in found]
        print_json("checkpoint verify", {"pipeline": name, "checkpoints": body})
    else:
        from holdfast.cli.checkpoint_tables import print_verifications

        print_verifications(console(), name, found)
    raise typer.Exit(0 if all(each.whole for each in found) else 1)
