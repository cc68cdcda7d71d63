"""From what a user wrote as the ledger's location to a ledger."""

from __future__ import annotations

from pathlib import Path

from holdfast.clock import Clock, utc_now
from holdfast.ledger.contract import Ledger
from holdfast.ledger.json_file import JsonLedger
from holdfast.ledger.memory import MemoryLedger
from holdfast.ledger.sqlite import SqliteLedger

IN_MEMORY = ":memory:"


def open_ledger(location: str | Path, *, timeout_s: float = 10.0, clock: Clock = utc_now) -> Ledger:
    """Open the ledger at a location, creating it if it is not there.

    `:memory:` is a ledger that ends with the process, a path that ends in `.json` a JSON file,
    any other path an SQLite file. A writer waits `timeout_s` for another one.
    """
    if str(location) == IN_MEMORY:
        return MemoryLedger(timeout_s=timeout_s, clock=clock)
    if is_json(location):
        return JsonLedger(location, timeout_s=timeout_s, clock=clock)
    return SqliteLedger(location, timeout_s=timeout_s, clock=clock)


def is_json(location: str | Path) -> bool:
    """Say whether a location names a JSON file."""
    return Path(location).suffix.lower() == ".json"
