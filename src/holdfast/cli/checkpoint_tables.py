"""The versions of a stream, for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from holdfast.checkpoint import Difference, Removed, Repair, Verification, type_name
from holdfast.cli.amounts import count, rows, size
from holdfast.cli.tables import Cell, print_table
from holdfast.clock import describe_age, isoformat, utc_now
from holdfast.model import Checkpoint, CheckpointEntry, SinkPosition

if TYPE_CHECKING:
    from holdfast.pipelines.streams.versions import Preview, RolledBack, VersionLine


def print_versions(
    out: Console, pipeline: str, versions: Sequence[VersionLine], *, total: int
) -> None:
    """List versions with what is special about them."""
    if not versions:
        out.print(f"{pipeline} has no checkpoint yet. Run it: holdfast run {pipeline}")
        return
    print_table(
        out,
        ("version", "state", "epoch", "generation", "age", "created", "rows", "size", "id", "kept"),
        [_version_row(line) for line in versions],
        title=pipeline,
        numbers=("version", "epoch", "generation", "age", "rows", "size"),
    )
    if total > len(versions):
        out.print(Text(f"{total - len(versions):,} older ones: --limit {total}", style="dim"))


def print_checkpoint(out: Console, line: VersionLine, checkpoint: Checkpoint) -> None:
    """Show one version, field by field."""
    entry = line.entry
    fields = [
        ("version", f"{entry.version} {_place(line).plain}".strip()),
        ("id", entry.checkpoint_id),
        ("parent", entry.parent or "none: the first"),
        ("epoch", str(entry.epoch)),
        ("generation", str(entry.generation)),
        ("created_at", isoformat(entry.created_at)),
        ("run", checkpoint.run_id),
        ("rows", rows(entry.rows)),
        ("event time", isoformat(checkpoint.event_time) if checkpoint.event_time else ""),
        ("kept", _kept(line)),
    ]
    fields += [
        (f"read {position.source}", f"after {brief(position.start)}, up to {brief(position.end)}")
        for position in checkpoint.positions
    ]
    fields += [
        (f"{name} schema", f"{schema.fingerprint}: {_columns(schema.schema)}")
        for name, schema in checkpoint.schemas.items()
    ]
    fields += [(f"sink {name}", _sink(at)) for name, at in checkpoint.sinks.items()]
    fields += [
        (
            f"operator {operator.name}",
            f"{count(len(operator.partitions), 'partition')}, "
            f"{count(len(operator.files), 'file')}, {size(sum(f.bytes for f in operator.files))}",
        )
        for operator in checkpoint.operators
    ]
    fields += [
        ("file", f"{file.key} ({size(file.bytes)})") for file in (entry.manifest, *checkpoint.files)
    ]
    _print_fields(out, fields)


def print_difference(
    out: Console, before: CheckpointEntry, after: CheckpointEntry, found: Difference
) -> None:
    """Say what moved from one version to another."""
    out.print(f"From version {before.version} to {after.version}:")
    _print_fields(out, _moved(found) or [("", "nothing moved")], indent="  ")


def print_preview(out: Console, pipeline: str, preview: Preview) -> None:
    """Say what a roll-back would do."""
    head, to = preview.head, preview.to
    age = describe_age(utc_now() - to.created_at)
    fields = [
        ("from", f"version {head.version} (epoch {head.epoch})"),
        ("to", f"version {to.version} (epoch {to.epoch}), made {age} ago"),
    ]
    if preview.difference.epochs:
        taken = count(-preview.difference.epochs, "epoch")
        known = preview.difference.rows
        taken += "" if known is None else f" with {count(known, 'row')}"
        fields.append(("again", f"{taken}: read and delivered again by the next run"))
    fields += _details(preview.difference)
    if preview.unfinished_epoch is not None:
        given_up = f"epoch {preview.unfinished_epoch}, which was begun, is given up"
        fields.append(("unfinished", given_up))
    fields += [(f"sink {name}", said) for name, said in preview.sinks.items()]
    out.print(f"Rolling {pipeline} back:")
    _print_fields(out, fields, indent="  ")


def print_rolled_back(out: Console, pipeline: str, done: RolledBack) -> None:
    """Say what a roll-back did, and which sinks have still to be told."""
    record = done.record
    out.print(
        f"{pipeline}: rolled back from version {record.from_version} to {record.to_version} "
        f"(epoch {record.to.epoch}, generation {record.to.generation}).",
        soft_wrap=True,
    )
    _print_fields(out, [(f"sink {n}", said) for n, said in record.effects.items()], indent="  ")
    for name, error in done.untold.items():
        out.print(
            Text.assemble(
                ("  not told yet ", "yellow"),
                f"{name}: {error.message} It is told before its next batch.",
            ),
            soft_wrap=True,
        )
        if error.hint:
            out.print(Text(f"  {error.hint}", style="cyan"), soft_wrap=True)
    out.print(
        Text.assemble("The next run goes on from there: ", (f"holdfast run {pipeline}", "cyan"))
    )


def print_verifications(out: Console, pipeline: str, found: Sequence[Verification]) -> None:
    """Say how versions stand, and what to do about damaged ones."""
    for each in found:
        verdict = ("whole", "green") if each.whole else ("damaged", "bold red")
        out.print(
            Text.assemble(
                f"version {each.entry.version} (epoch {each.entry.epoch}): ",
                verdict,
                f", {count(each.files, 'file')}, {size(each.bytes)}",
            )
        )
        for _, problem in each.findings:
            out.print(Text(f"  {problem}"), soft_wrap=True)
    if not found:
        out.print(f"{pipeline} has no checkpoint yet.")
    if not all(each.whole for each in found):
        hint = f"Mend what can be mended: holdfast checkpoint repair {pipeline}"
        out.print(Text(hint, style="cyan"))


def print_repair(out: Console, pipeline: str, done: Repair) -> None:
    """Say what a repair did and what is left."""
    for sentence in done.done:
        out.print(Text.assemble(("done ", "green"), sentence), soft_wrap=True)
    for sentence in done.problems:
        out.print(Text.assemble(("left ", "bold red"), sentence), soft_wrap=True)
    if not done.done and not done.problems:
        out.print(f"{pipeline}: nothing to repair.")
    head, whole = done.head, done.newest_whole
    if head is None:
        return
    out.print(f"{pipeline} is at version {head.version} (epoch {head.epoch}).")
    if whole is None:
        out.print(Text("No version on its line is whole: no run can start.", style="bold red"))
    elif whole.version != head.version:
        out.print(
            Text(
                f"The newest whole one is version {whole.version} (epoch {whole.epoch}): the next "
                "run falls back to it.",
                style="yellow",
            ),
            soft_wrap=True,
        )


def print_removed(out: Console, pipeline: str, removed: Removed, *, dry_run: bool) -> None:
    """Say what was removed, or would be."""
    for key in removed.files:
        out.print(Text(key), soft_wrap=True)
    would = "would be removed" if dry_run else "removed"
    what = f"{count(len(removed.files), 'file')}, {size(removed.bytes)}"
    out.print(
        f"{pipeline}: {what} {would}." if removed.files else f"{pipeline}: nothing to remove."
    )


def brief(offset: Any) -> str:
    """A source's offset in one line."""
    return "the beginning" if offset is None else json.dumps(offset, separators=(",", ":"))


def _version_row(line: VersionLine) -> tuple[Cell, ...]:
    entry = line.entry
    return (
        str(entry.version),
        _place(line),
        str(entry.epoch),
        str(entry.generation),
        describe_age(utc_now() - entry.created_at),
        isoformat(entry.created_at),
        rows(entry.rows),
        size(entry.bytes),
        entry.checkpoint_id,
        _kept(line),
    )


def _place(line: VersionLine) -> Text:
    if line.head:
        return Text("head", style="green")
    return Text("") if line.on_line else Text("abandoned", style="yellow")


def _kept(line: VersionLine) -> str:
    if line.pin is None:
        return ""
    return line.pin.note or f"by {line.pin.actor}"


def _moved(found: Difference) -> list[tuple[str, str]]:
    if found.empty:
        return []
    return [
        ("epochs", f"{found.epochs:+,}" if found.epochs else "the same"),
        ("rows", rows(found.rows) or "not known"),
        *_details(found),
        *(
            (f"sink {move.sink}", f"{_sink(move.before)} -> {_sink(move.after)}")
            for move in found.sinks
        ),
    ]


def _details(found: Difference) -> list[tuple[str, str]]:
    fields = []
    if not found.same_source:
        fields.append(("source", "another one: positions cannot be compared"))
    fields += [
        (f"read {move.source}", f"{brief(move.before)} -> {brief(move.after)}")
        for move in found.positions
    ]
    fields += [
        (f"{name} schema", change) for name, changes in found.schemas.items() for change in changes
    ]
    fields += [
        (
            f"operator {moved.operator}",
            f"{count(moved.added, 'file')} added ({size(moved.added_bytes)}), "
            f"{moved.removed} removed ({size(moved.removed_bytes)})",
        )
        for moved in found.state
    ]
    return fields


def _sink(position: SinkPosition | None) -> str:
    if position is None:
        return "not there"
    token = position.delivered
    said = [f"epoch {token.epoch} (generation {token.generation})" if token else "nothing yet"]
    if position.waiting is not None:
        batches = count(position.waiting.batches, "batch", "batches")
        said.append(f"{batches} waiting ({size(position.waiting.bytes)})")
    if position.dropped_count:
        said.append(f"{position.dropped_count:,} dropped")
    return ", ".join(said)


def _columns(schema: str) -> str:
    fields = json.loads(schema)["fields"]
    return ", ".join(f"{field['name']} {type_name(field['type'])}" for field in fields)


def _print_fields(out: Console, fields: Sequence[tuple[str, str]], *, indent: str = "") -> None:
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        if value:
            out.print(Text.assemble((f"{indent}{name:<{width}}  ", "dim"), value), soft_wrap=True)
