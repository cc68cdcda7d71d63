"""The conformance suite of keyed state: what every backend must do.

    class TestMyBackend(StateConformance):
        def open(self, tables, **options):
            ...  # a store in self.place

        def checkpointed(self, snapshot, files, table):
            ...  # read the rows without MyBackend

and, to compare it with dictionaries over random histories with crashes and rescales,

    class MyMachine(StateMachine):
        def open(self, partition, snapshots, *, attempt, cache_bytes):
            ...

    TestMyMachine = MyMachine.TestCase
"""

from __future__ import annotations

from holdfast.testing.state_collections import (
    ListConformance,
    MapConformance,
    TimerConformance,
)
from holdfast.testing.state_epochs import (
    ChangelogConformance,
    EpochConformance,
    PartitionConformance,
    RefusalConformance,
    SavepointConformance,
)
from holdfast.testing.state_machine import StateMachine
from holdfast.testing.state_rows import (
    CollisionConformance,
    RowConformance,
    ScanConformance,
    TypeConformance,
)
from holdfast.testing.state_transactions import (
    CacheConformance,
    LifeConformance,
    TransactionConformance,
)

__all__ = ["StateConformance", "StateMachine"]


class StateConformance(
    RowConformance,
    TypeConformance,
    CollisionConformance,
    ScanConformance,
    EpochConformance,
    RefusalConformance,
    PartitionConformance,
    ChangelogConformance,
    SavepointConformance,
    TransactionConformance,
    CacheConformance,
    LifeConformance,
    ListConformance,
    MapConformance,
    TimerConformance,
):
    """Everything a backend must do; subclass it and fill in `open` and `checkpointed`."""
