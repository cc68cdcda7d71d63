"""Showing how a run goes on: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

if TYPE_CHECKING:
    from holdfast.model import TableOutcome
    from holdfast.pipelines.job import Progress as RunProgress


class Lines:
    """One line per finished table, on standard error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0

    def begin(self, tables: list[str], doing: str = "copying") -> None:
        """Say how many tables there are."""
        self._total = len(tables)

    def planned(self, table: str) -> None:
        """Say that a table's plan is made."""
        self._say(f"{table}: planned")

    def phase(self, table: str, phase: str) -> None:
        """Say nothing: phases are short and would fill a log."""

    def done(self, outcome: TableOutcome) -> None:
        """Say how a table ended."""
        self._say(f"{outcome.table}: {describe(outcome)}")

    def _say(self, text: str) -> None:
        with self._lock:
            self._done += 1
            sys.stderr.write(f"[{self._done}/{self._total}] {text}\n")
            sys.stderr.flush()


class Bar:
    """A bar with the tables that are being worked on beside it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._phases: dict[str, str] = {}
        self._task = progress.add_task("starting Spark", total=None, now="")

    def begin(self, tables: list[str], doing: str = "copying") -> None:
        """Show the bar."""
        self._progress.update(self._task, total=len(tables), description=doing)

    def planned(self, table: str) -> None:
        """Move the bar on."""
        with self._lock:
            self._finish(table)

    def phase(self, table: str, phase: str) -> None:
        """Show what a table is doing."""
        with self._lock:
            self._phases[table] = phase
            self._show()

    def done(self, outcome: TableOutcome) -> None:
        """Move the bar on."""
        with self._lock:
            if outcome.status == "failed":
                self._progress.console.print(f"{outcome.table}: failed", style="red")
            self._finish(outcome.table)

    def _finish(self, table: str) -> None:
        self._phases.pop(table, None)
        self._progress.advance(self._task)
        self._show()

    def _show(self) -> None:
        now = ", ".join(f"{table} ({phase})" for table, phase in list(self._phases.items())[:3])
        self._progress.update(self._task, now=now)


@contextmanager
def showing_progress() -> Iterator[RunProgress]:
    """Choose what fits: a bar if standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        # It takes what is left of the line, and is cut instead of the rest.
        TextColumn(
            "{task.fields[now]}",
            style="dim",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    ) as progress:
        yield Bar(progress)


def describe(outcome: TableOutcome) -> str:
    """A table's outcome in a phrase."""
    if outcome.status == "failed":
        return f"failed: {outcome.failure.message}" if outcome.failure else "failed"
    if outcome.status == "copied":
        return f"{outcome.rows:,} rows copied in {outcome.duration_ms / 1000:.1f} s"
    return outcome.status
