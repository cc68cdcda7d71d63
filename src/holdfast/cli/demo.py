"""`demo`: a small shop, copied for four days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.output import OutputFormat, OutputOption, console, print_json
from holdfast.cli.tables import Cell, print_table

if TYPE_CHECKING:
    from holdfast.demo.story import Comparison, Day


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Where to build the shop.")
    ] = Path("holdfast-demo"),
    output: OutputOption = OutputFormat.text,
) -> None:
    """Build a small shop, copy it, let things go wrong, and show what happened."""
    from holdfast.demo.story import compare, prepare, tell
    from holdfast.pipelines.project import open_project

    out = console() if output is OutputFormat.text else None
    config = prepare(directory)
    if out:
        out.print(f"Building a small shop in {directory} and starting Spark...")
    days: list[Day] = []
    with open_project(config) as project:
        for day in tell(project, directory):
            days.append(day)
            if out:
                _print_day(out, day)
        comparisons = compare(project, directory)
    # The accident with the products is part of the story: their copy must have been kept.
    expected = all(c.missing == 0 and c.unexpected == 0 for c in comparisons[:-1])
    kept = comparisons[-1].target_rows > comparisons[-1].source_rows
    if out:
        _print_end(out, comparisons, config)
    else:
        print_json("demo", {"days": [_document(d) for d in days], "tables": _tables(comparisons)})
    raise typer.Exit(0 if expected and kept else 1)


def _print_day(out: Console, day: Day) -> None:
    from holdfast.cli.report import print_run

    out.print()
    out.rule(Text(day.title, style="bold"), align="left")
    for change in day.changes:
        out.print(f"  - {change}")
    out.print()
    print_run(out, day.result)


def _print_end(out: Console, comparisons: list[Comparison], config: Path) -> None:
    out.print()
    out.rule(Text("Source against copy, row by row", style="bold"), align="left")
    print_table(
        out,
        ("table", "source", "copy", "missing", "only in the copy", ""),
        [_comparison_row(entry) for entry in comparisons],
        numbers=("source", "copy", "missing", "only in the copy"),
    )
    out.print()
    out.print("Look around:")
    for command in ("status", "state history shop.orders", "plan"):
        out.print(Text(f"  holdfast --config {config} {command}", style="cyan"))


def _comparison_row(entry: Comparison) -> tuple[Cell, ...]:
    equal = entry.missing == 0 and entry.unexpected == 0
    verdict = (
        Text("every row, exactly once", style="green")
        if equal
        else Text("kept: the truncated source was not published", style="yellow")
    )
    return (
        entry.table,
        f"{entry.source_rows:,}",
        f"{entry.target_rows:,}",
        f"{entry.missing:,}",
        f"{entry.unexpected:,}",
        verdict,
    )


def _document(day: Day) -> dict[str, Any]:
    from holdfast.cli import documents

    return {
        "title": day.title,
        "changes": list(day.changes),
        "run": documents.run(day.result.run, day.result.outcomes),
    }


def _tables(comparisons: list[Comparison]) -> list[dict[str, Any]]:
    return [
        {
            "table": entry.table,
            "source_rows": entry.source_rows,
            "target_rows": entry.target_rows,
            "missing": entry.missing,
            "unexpected": entry.unexpected,
        }
        for entry in comparisons
    ]
