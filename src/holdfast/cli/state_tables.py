"""What is remembered of tables, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from holdfast.cli.places import place
from holdfast.cli.tables import Cell, print_table
from holdfast.clock import describe_age, isoformat, utc_now
from holdfast.model import Watermark
from holdfast.pipelines.state import HistoryEntry, TableState


def print_states(out: Console, states: Sequence[TableState]) -> None:
    """List tables with where they stand."""
    if not states:
        out.print("Nothing is remembered yet.")
        return
    print_table(
        out,
        ("table", "watermark", "updated", "by", "source rows", ""),
        [_state_row(state) for state in states],
        numbers=("source rows",),
    )


def print_state(out: Console, state: TableState) -> None:
    """Show one table, field by field."""
    mark = state.watermark
    rows: list[tuple[str, str]] = [("table", state.table)]
    if mark is not None:
        rows += [
            ("last_value", place(mark.position) or "none: the next run copies everything"),
            ("columns", ", ".join(mark.position.columns) if mark.position else ""),
            ("updated_at", isoformat(mark.updated_at)),
            ("updated_by", f"{mark.cause} {mark.actor}"),
            ("run", mark.run_id or ""),
            ("batch", mark.batch.batch_id if mark.batch else ""),
            ("rows", f"{mark.rows:,}"),
            ("version", str(state.version)),
            ("note", mark.note),
        ]
    if state.row_count is not None:
        rows.append(
            ("source rows", f"{state.row_count.count:,} at {isoformat(state.row_count.at)}")
        )
    if state.open_batch is not None:
        rows.append(("unfinished batch", state.open_batch.batch_id))
    for name, value in rows:
        if value:
            out.print(Text.assemble((f"{name:<17}", "dim"), value), soft_wrap=True)


def print_history(out: Console, name: str, entries: Sequence[HistoryEntry]) -> None:
    """List the versions of a watermark."""
    print_table(
        out,
        ("version", "when", "cause", "who", "watermark", "rows", "note"),
        [_history_row(entry) for entry in entries],
        title=name,
        numbers=("rows",),
    )


def print_change(out: Console, table: str, mark: Watermark) -> None:
    """Say what a state command did and what the next run will do."""
    if mark.position is None:
        out.print(f"{table}: watermark deleted; the next run replaces the target.", soft_wrap=True)
        return
    after = {
        "set": "the next run copies what lies after it",
        "rewind": f"the next run replaces {len(mark.retire)} batch(es) after it"
        if mark.retire
        else "the next run copies again what lies after it",
    }
    out.print(f"{table}: watermark is {place(mark.position)}; {after[mark.cause]}.", soft_wrap=True)


def _state_row(state: TableState) -> tuple[Cell, ...]:
    mark = state.watermark
    return (
        state.table,
        place(mark.position) if mark else "",
        f"{describe_age(utc_now() - mark.updated_at)} ago" if mark else "",
        f"{mark.cause} {mark.actor}" if mark else "",
        f"{state.row_count.count:,}" if state.row_count else "",
        _remark(state),
    )


def _history_row(entry: HistoryEntry) -> tuple[Cell, ...]:
    mark = entry.watermark
    return (
        str(entry.info.version),
        isoformat(entry.info.created_at),
        mark.cause if mark else "",
        mark.actor if mark else "",
        place(mark.position) if mark else "",
        f"{mark.rows:,}" if mark and mark.cause == "run" else "",
        mark.note if mark else "",
    )


def _remark(state: TableState) -> Text:
    if state.open_batch is not None:
        return Text("unfinished batch", style="yellow")
    if state.watermark is not None and state.watermark.cause == "rewind":
        return Text("rewound", style="yellow")
    return Text("")
