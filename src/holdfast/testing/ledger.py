"""The conformance suite of the ledger: what every implementation of the contract must do.

    class TestMyLedger(LedgerConformance):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path / "my.ledger"

        def open(self):
            return MyLedger(self.path)

        def stored(self, namespace, key):
            ...  # read the values without MyLedger

and, to compare it with the memory ledger over random histories,

    class MyMachine(LedgerMachine):
        def open(self):
            ...

    TestMyMachine = MyMachine.TestCase
"""

from __future__ import annotations

from holdfast.testing.ledger_machine import LedgerMachine
from holdfast.testing.ledger_records import (
    CompareAndSetConformance,
    DeletionConformance,
    KeyConformance,
    VersionConformance,
)
from holdfast.testing.ledger_transactions import (
    MisuseConformance,
    ThreadConformance,
    TransactionConformance,
)

__all__ = ["LedgerConformance", "LedgerMachine"]


class LedgerConformance(
    VersionConformance,
    DeletionConformance,
    CompareAndSetConformance,
    TransactionConformance,
    KeyConformance,
    ThreadConformance,
    MisuseConformance,
):
    """Everything a ledger must do; subclass it and fill in `open` and `stored`."""
