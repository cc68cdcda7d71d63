"""Random histories: every backend must behave as the memory ledger does."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from holdfast.ledger import JsonLedger, Ledger, MemoryLedger, SqliteLedger
from holdfast.ledger.memory import MemoryStore
from holdfast.testing.ledger import LedgerMachine

_SETTINGS = settings(
    max_examples=50,
    stateful_step_count=25,
    deadline=None,  # a commit waits for the disk
    suppress_health_check=[HealthCheck.too_slow],
)


class _FileMachine(LedgerMachine):
    """A machine with a directory of its own."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name)
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        self._directory.cleanup()


class MemoryMachine(LedgerMachine):
    """The model against itself, which tests the machine."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        super().__init__()

    def open(self) -> Ledger:
        return MemoryLedger(self.store)


class JsonMachine(_FileMachine):
    """The JSON ledger against the model."""

    def open(self) -> Ledger:
        return JsonLedger(self.path / "ledger.json")


class SqliteMachine(_FileMachine):
    """The SQLite ledger against the model."""

    def open(self) -> Ledger:
        return SqliteLedger(self.path / "ledger.db")


TestMemoryMachine = MemoryMachine.TestCase
TestJsonMachine = JsonMachine.TestCase
TestSqliteMachine = SqliteMachine.TestCase

TestMemoryMachine.settings = TestJsonMachine.settings = TestSqliteMachine.settings = _SETTINGS
