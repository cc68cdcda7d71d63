"""Bringing a ledger of an older format up to date.

A step takes every version of every record as one format knows it and gives what the next format
stores. All steps and the new format number are one atomic change, and a copy of the file as it
was stays beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.errors import LedgerError, LedgerFormatMismatch
from holdfast.ledger.contract import FORMAT_VERSION, Record
from holdfast.ledger.formats import check_format
from holdfast.ledger.rewriting import Rewriting, rewriting

Step = Callable[[Iterable[Record]], Iterable[Record]]
"""From the records of one format to those of the next."""

STEPS: Final[dict[int, Step]] = {}
"""The step that leads away from each older format."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did."""

    from_format: int
    to_format: int
    copy: Path | None
    """The ledger as it was before; `None` if there was nothing to do."""


def migrate(location: str | Path, *, timeout_s: float = 10.0) -> Migration:
    """Bring the ledger at a location to the current format."""
    path = Path(location)
    if not path.is_file():
        raise LedgerError(
            f"There is no ledger file {location}.", hint="Check the path of the ledger."
        )
    with rewriting(location, timeout_s) as ledger:
        if ledger.format > FORMAT_VERSION:
            check_format(str(location), ledger.format)
        if ledger.format == FORMAT_VERSION:
            return Migration(FORMAT_VERSION, FORMAT_VERSION, None)
        return _migrate(ledger, path)


def _migrate(ledger: Rewriting, path: Path) -> Migration:
    start = ledger.format
    records: Iterable[Record] = ledger.records()
    for version in range(start, FORMAT_VERSION):
        records = _step_from(version, path)(records)
    copy = path.with_name(f"{path.stem}.format-{start}{path.suffix}")
    ledger.copy_to(copy)
    ledger.replace(list(records), FORMAT_VERSION)
    return Migration(start, FORMAT_VERSION, copy)


def _step_from(version: int, path: Path) -> Step:
    try:
        return STEPS[version]
    except KeyError:
        raise LedgerFormatMismatch(
            f"The ledger {path} cannot be migrated: no step leads away from format {version}.",
            hint="Migrate it with the version of Holdfast that followed the one that wrote it.",
        ) from None
