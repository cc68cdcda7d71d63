"""Tables that are never cut: a line a row where that fits, a line a value where it does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

Cell = str | Text

_ANY_WIDTH: Final = 10_000


def print_table(
    out: Console,
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    numbers: Sequence[str] = (),
) -> None:
    """Print rows below their headings; `numbers` names the columns to align on the right.

    A watermark that ends in an ellipsis tells nobody anything. In a terminal too narrow for the
    whole table, each row becomes a paragraph that begins with its first cell. A log has no
    width: there a row is always one line, however long.
    """
    content = [tuple(_text(cell) for cell in row) for row in rows]
    if title:
        out.print(Text(title, style="italic"), soft_wrap=True)
    # A column that says nothing takes no space.
    shown = [i for i in range(len(headings)) if i == 0 or any(row[i].plain for row in content)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i in shown:
        justify: Literal["left", "right"] = "right" if headings[i] in numbers else "left"
        table.add_column(headings[i], justify=justify, no_wrap=True)
    for row in content:
        table.add_row(*(row[i] for i in shown))
    needed = Measurement.get(out, out.options.update(max_width=_ANY_WIDTH), table).maximum
    if not out.is_terminal:
        out.width = max(out.width, needed)
    if needed <= out.width:
        out.print(table)
        return
    label = max(len(headings[i]) for i in shown)
    for row in content:
        out.print(row[0], soft_wrap=True)
        indent = " " * (len(row[0].plain) - len(row[0].plain.lstrip()) + 2)
        for i in shown[1:]:
            if row[i].plain:
                name = (f"{indent}{headings[i]:<{label}}  ", "dim")
                out.print(Text.assemble(name, row[i]), soft_wrap=True)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
