"""Runs and plans as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.places import place
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
    table = Table(title=f"{run.pipeline}: run {run.run_id}", title_justify="left", box=None)
    table.add_column("table")
    table.add_column("status")
    table.add_column("why")
    table.add_column("rows", justify="right")
    table.add_column("source", justify="right")
    table.add_column("up to")
    table.add_column("checks")
    table.add_column("time", justify="right")
    for entry in outcomes:
        table.add_row(
            entry.table,
            Text(entry.status, style=_STATUS_STYLE.get(entry.status, "")),
            REASONS[entry.reason],
            f"{entry.rows:,}" if entry.status == "copied" else "",
            f"{entry.source_rows:,}" if entry.source_rows is not None else "",
            place(entry.high or entry.low),
            _checks(entry),
            f"{entry.duration_ms / 1000:.1f} s" if entry.duration_ms else "",
        )
    out.print(table)
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
    table = Table(title=f"{plan.pipeline}: plan {plan.plan_id}", title_justify="left", box=None)
    for name in ("table", "action", "strategy", "why"):
        table.add_column(name)
    table.add_column("rows", justify="right")
    for name in ("after", "up to", "target"):
        table.add_column(name)
    for entry in plan.tables:
        table.add_row(
            entry.table,
            _action(entry),
            entry.strategy,
            REASONS[entry.reason],
            f"{entry.rows:,}" if entry.action == "copy" else "",
            place(entry.low) if entry.action == "copy" else "",
            place(entry.high) if entry.action == "copy" else "",
            entry.target,
        )
    out.print(table)
    for entry in plan.tables:
        if entry.failure is not None:
            _print_failure(out, entry.failure.message, entry.failure.hint)
    out.print(Text(f"Made {isoformat(plan.created_at)}. Run exactly this with:"))
    out.print(Text(f"  holdfast apply {plan.plan_id}", style="cyan"))


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
                )
            )
    already_said = {"column_match"} & {result.check for result in entry.checks if result.bad}
    for change in () if already_said else entry.drift:
        out.print(Text.assemble(("schema ", "yellow"), f"{entry.table} {change}"))
    for note in entry.notes:
        out.print(Text.assemble(("note ", "cyan"), f"{entry.table}: {note}"))
    if entry.failure is not None:
        _print_failure(out, entry.failure.message, entry.failure.hint)


def _print_failure(out: Console, message: str, hint: str) -> None:
    out.print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)
    if hint:
        out.print(Text(hint, style="cyan"), soft_wrap=True)
