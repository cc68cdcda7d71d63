"""Refusing a ledger of another format, with the command that helps."""

from __future__ import annotations

from holdfast.errors import LedgerFormatMismatch
from holdfast.ledger.contract import FORMAT_VERSION


def check_format(location: str, found: int) -> None:
    """Raise `LedgerFormatMismatch` unless `found` is the format this Holdfast writes."""
    if found == FORMAT_VERSION:
        return
    raise LedgerFormatMismatch(
        f"The ledger {location} has format {found}; this Holdfast reads and writes format "
        f"{FORMAT_VERSION}.",
        hint=(
            "A newer Holdfast wrote it. In a newer checkout, run: pip install --upgrade ."
            if found > FORMAT_VERSION
            else "An older Holdfast wrote it. Run: holdfast state migrate"
        ),
    )
