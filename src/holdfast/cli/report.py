"""Runs and plans as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from holdfast.cli.places import place
from holdfast.cli.tables import Cell, print_table
from holdfast.clock import isoformat
from holdfast.model import Plan, PlannedTable, TableOutcome
from holdfast.pipelines.running import RunResult

_STATUS_STYLE = {
    "copied": "green",
    "unchanged": "dim",
    "failed": "bold red",
    "interrupted": "yellow",
    "success": "bold green",
    "partial": "bold yellow",
}

REASONS = {
    "first_run": "first run",
    "watermark": "new rows",
    "late_rows": "late rows",
    "deleted": "watermark deleted",
    "refresh": "full refresh",
    "rewound": "rewound",
    "recover": "unfinished batch",
    None: "",
}


def print_run(out: Console, result: RunResult) -> None:
    """Show what a run did: tables, then everything worth a look."""
    run, outcomes = result.run, result.outcomes
    print_table(
        out,
        ("table", "status", "why", "rows", "source", "up to", "checks", "time"),
        [_outcome_row(entry) for entry in outcomes],
        title=f"{run.pipeline}: run {run.run_id}",
        numbers=("rows", "source", "time"),
    )
    for entry in outcomes:
        _print_remarks(out, entry)
    rows = sum(entry.rows for entry in outcomes)
    seconds = ((run.finished_at or run.started_at) - run.started_at).total_seconds()
    out.print(
        Text.assemble(
            (run.status, _STATUS_STYLE.get(run.status, "bold")),
            f": {rows:,} rows in {len(outcomes)} tables, {seconds:.1f} s",
        )
    )


def print_plan(out: Console, plan: Plan) -> None:
    """Show what a run would do."""
    print_table(
        out,
        ("table", "action", "strategy", "why", "rows", "after", "up to", "target"),
        [_planned_row(entry) for entry in plan.tables],
        title=f"{plan.pipeline}: plan {plan.plan_id}",
        numbers=("rows",),
    )
    for entry in plan.tables:
        if entry.failure is not None:
            _print_failure(out, entry.failure.message, entry.failure.hint)
    if any(entry.action == "blocked" for entry in plan.tables):
        return
    out.print(Text(f"Made {isoformat(plan.created_at)}. Run exactly this with:"))
    out.print(Text(f"  holdfast apply {plan.plan_id}", style="cyan"))


def _outcome_row(entry: TableOutcome) -> tuple[Cell, ...]:
    return (
        entry.table,
        Text(entry.status, style=_STATUS_STYLE.get(entry.status, "")),
        REASONS[entry.reason],
        f"{entry.rows:,}" if entry.status == "copied" else "",
        f"{entry.source_rows:,}" if entry.source_rows is not None else "",
        place(entry.high or entry.low),
        _checks(entry),
        f"{entry.duration_ms / 1000:.1f} s" if entry.duration_ms else "",
    )


def _planned_row(entry: PlannedTable) -> tuple[Cell, ...]:
    copies = entry.action == "copy"
    return (
        entry.table,
        _action(entry),
        entry.strategy,
        REASONS[entry.reason],
        f"{entry.rows:,}" if copies else "",
        place(entry.low) if copies else "",
        place(entry.high) if copies else "",
        entry.target,
    )


def _action(entry: PlannedTable) -> Text:
    if entry.action == "blocked":
        return Text("blocked", style="bold red")
    if entry.action == "nothing":
        return Text("nothing to do", style="dim")
    return Text("replace" if entry.replaces_all else "copy", style="green")


def _checks(entry: TableOutcome) -> Text:
    if not entry.checks:
        return Text("")
    bad = [result for result in entry.checks if result.bad]
    if not bad:
        return Text("ok", style="green")
    names = ", ".join(dict.fromkeys(result.check for result in bad))
    failed = any(result.status == "fail" for result in bad)
    return Text(names, style="bold red" if failed else "yellow")


def _print_remarks(out: Console, entry: TableOutcome) -> None:
    for result in entry.checks:
        if result.bad:
            style = "bold red" if result.status == "fail" else "yellow"
            out.print(
                Text.assemble(
                    (f"{result.status} ", style), f"{entry.table} {result.check}: {result.message}"
                ),
                soft_wrap=True,
            )
    already_said = {"column_match"} & {result.check for result in entry.checks if result.bad}
    for change in () if already_said else entry.drift:
        out.print(Text.assemble(("schema ", "yellow"), f"{entry.table} {change}"), soft_wrap=True)
    for note in entry.notes:
        out.print(Text.assemble(("note ", "cyan"), f"{entry.table}: {note}"), soft_wrap=True)
    if entry.failure is not None:
        _print_failure(out, entry.failure.message, entry.failure.hint)


def _print_failure(out: Console, message: str, hint: str) -> None:
    out.print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)
    if hint:
        out.print(Text(hint, style="cyan"), soft_wrap=True)
