"""The table: what was measured, against what, and how it should have come out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Line:
    """One comparison."""

    work: str
    measured: str
    against: str
    ratio: float
    target: float | None
    """The largest ratio that is good enough; `None` where nothing was promised."""
    more: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target was met; `None` where nothing was promised."""
        return None if self.target is None else self.ratio <= self.target

    @property
    def verdict(self) -> str:
        """Say whether the target was met."""
        return {None: "", True: "met", False: "MISSED"}[self.met]


def show(title: str, lines: list[Line]) -> None:
    """Print comparisons as a table."""
    table = Table(title=title, title_justify="left", show_lines=False)
    for column in ("work", "measured", "against", "ratio", "at most", "", "also"):
        right = column in ("ratio", "at most")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for line in lines:
        limit = "" if line.target is None else f"{line.target:.3g}"
        table.add_row(
            line.work,
            line.measured,
            line.against,
            f"{line.ratio:.3g}",
            limit,
            line.verdict,
            line.more,
        )
    Console(width=160).print(table)


def save(path: Path, lines: list[Line]) -> None:
    """Write comparisons as JSON."""
    documents = [
        {
            "work": line.work,
            "measured": line.measured,
            "against": line.against,
            "ratio": line.ratio,
            "target": line.target,
            "met": line.met,
        }
        for line in lines
    ]
    path.write_text(json.dumps(documents, indent=2) + "\n")


def ms(seconds: float) -> str:
    """Say seconds as milliseconds."""
    return f"{seconds * 1000:,.1f} ms"
