"""The conformance suite of keyed state: what every backend must do.

    class TestMyBackend(StateConformance):
        def open(self, tables, **options):
            return open_store(self.place, tables, backend=MyBackend, **options)

        def checkpointed(self, snapshot, files, table):
            rows = ...  # read `self.place / file.name` of the files without MyBackend
            return {
                plain(key): Stored(plain(value), partition_hash, stamp_ms)
                for key, value, partition_hash, stamp_ms in rows
            }

`place` is a new directory for every test. The hooks of `StateSuite` say what a backend may do
otherwise than others. To compare it with dictionaries over random histories with crashes and
rescales,

    class MyMachine(StateMachine):
        def __init__(self):
            self._directory = tempfile.TemporaryDirectory()
            self.place = Path(self._directory.name)
            super().__init__()

        def open(self, partition, snapshots, **options):
            return open_store(
                self.place,
                TABLES,
                ttl=LIVES,
                partition=partition,
                snapshots=snapshots,
                backend=MyBackend,
                **options,
            )

        def teardown(self):
            super().teardown()
            self._directory.cleanup()

    TestMyMachine = MyMachine.TestCase
"""

from __future__ import annotations

from holdfast.testing.state_collections import (
    ListConformance,
    MapConformance,
    TimerConformance,
)
from holdfast.testing.state_epochs import CostConformance, EpochConformance
from holdfast.testing.state_machine import LIVES, TABLES, StateMachine
from holdfast.testing.state_partitions import PartitionConformance, SavepointConformance
from holdfast.testing.state_refusals import RefusalConformance
from holdfast.testing.state_rows import RowConformance
from holdfast.testing.state_search import CollisionConformance, ScanConformance
from holdfast.testing.state_suite import Plain, StateSuite, Stored, plain
from holdfast.testing.state_transactions import (
    CacheConformance,
    LifeConformance,
    TransactionConformance,
)
from holdfast.testing.state_types import TypeConformance

__all__ = [
    "LIVES",
    "TABLES",
    "Plain",
    "StateConformance",
    "StateMachine",
    "StateSuite",
    "Stored",
    "plain",
]


class StateConformance(
    RowConformance,
    TypeConformance,
    CollisionConformance,
    ScanConformance,
    EpochConformance,
    RefusalConformance,
    PartitionConformance,
    CostConformance,
    SavepointConformance,
    TransactionConformance,
    CacheConformance,
    LifeConformance,
    ListConformance,
    MapConformance,
    TimerConformance,
):
    """Everything a backend must do; subclass it and fill in `open` and `checkpointed`."""
