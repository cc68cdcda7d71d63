"""Sizes and counts, as people read them."""

from __future__ import annotations


def size(value: int) -> str:
    """A number of bytes in the unit that suits it."""
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def count(value: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 epoch`, `2 epochs`."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def rows(value: int | None) -> str:
    """A number of rows, if it is known."""
    return "" if value is None else f"{value:,}"
