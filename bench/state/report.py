"""The table: what was measured, against what, and how it should have come out."""

from __future__ import annotations

from dataclasses import dataclass

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
    def verdict(self) -> str:
        """Say whether the target was met."""
        if self.target is None:
            return ""
        return "met" if self.ratio <= self.target else "MISSED"


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


def ms(seconds: float) -> str:
    """Say seconds as milliseconds."""
    return f"{seconds * 1000:,.1f} ms"
