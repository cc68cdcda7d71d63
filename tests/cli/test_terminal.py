"""What a person sees: nothing is cut off in 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from holdfast.cli.tables import print_table

from .harness import Commands, Shop, Terminal

pytestmark = pytest.mark.spark

MICROSECONDS = "2026-01-01T00:00:07.000001Z"


@pytest.fixture
def wide_shop(copied_shop: Shop, spark_cli: Commands) -> Shop:
    """Two tables whose watermarks have microseconds and whose history has a note."""
    for table in ("orders", "customers"):
        words = ("state", "set", f"shop.{table}", MICROSECONDS, "--yes")
        assert spark_cli(*words, "--note", "a note of some length about why").code == 0
    return copied_shop


@pytest.mark.parametrize(
    "words",
    [("status",), ("state", "show"), ("state", "history", "shop.orders"), ("validate",)],
    ids=" ".join,
)
def test_80_columns_are_enough(wide_shop: Shop, words: tuple[str, ...]) -> None:
    """No value is cut off or broken in two, and no line is longer than the terminal."""
    terminal = Terminal(wide_shop.root, *words)

    assert terminal.wait() == 0
    assert "…" not in terminal.raw
    assert max(len(line) for line in terminal.lines) <= 80
    if words[0] != "validate":
        assert any(MICROSECONDS in line for line in terminal.lines)
        assert any("shop.orders" in line for line in terminal.lines)


def printed(width: int, *, terminal: bool) -> str:
    """A table of two rows on a console of this width."""
    out = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    content = [("shop.orders", "12", ""), ("shop.customers", "1,234", "")]
    print_table(out, ("table", "rows", "note"), content, numbers=("rows",))
    assert isinstance(out.file, io.StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def test_a_table_that_fits_is_a_table() -> None:
    """Numbers are aligned, and a column without a value takes no space."""
    assert printed(21, terminal=True) == (
        "table            rows\nshop.orders        12\nshop.customers  1,234"
    )


def test_a_table_that_does_not_fit_becomes_paragraphs() -> None:
    """Each row starts with its name, its values are below it with their headings."""
    assert printed(20, terminal=True) == (
        "shop.orders\n  rows   12\nshop.customers\n  rows   1,234"
    )


def test_a_log_has_no_width() -> None:
    """Outside a terminal a row is always one line, so that it can be searched."""
    assert printed(20, terminal=False) == printed(100, terminal=True)
