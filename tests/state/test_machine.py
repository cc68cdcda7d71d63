"""Random histories with crashes: every backend must behave as a dictionary does."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.state import Partition, Snapshot, Store, open_store
from holdfast.testing.state import StateMachine
from holdfast.testing.state_machine import LIVES, TABLES

_SHORT = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,  # a commit waits for the disk
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
_LONG = settings(_SHORT, max_examples=400, stateful_step_count=60)


class _Machine(StateMachine):
    """A machine with a directory of its own."""

    backend: ClassVar[str]
    changelog: ClassVar[bool] = False
    options: ClassVar[dict[str, Any]] = {}
    short: ClassVar[settings] = _SHORT

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.place = Path(self._directory.name)
        super().__init__()

    def open(
        self,
        partition: Partition,
        snapshots: Sequence[Snapshot],
        *,
        attempt: str,
        cache_bytes: int,
    ) -> Store:
        return open_store(
            self.place,
            TABLES,
            snapshots=snapshots,
            partition=partition,
            backend=self.backend,
            options=self.options,
            changelog=self.changelog,
            materialize_every=3,
            ttl=LIVES,
            cache_bytes=cache_bytes,
            attempt=attempt,
        )

    def teardown(self) -> None:
        super().teardown()
        self._directory.cleanup()


class ArrowMachine(_Machine):
    """The arrow backend against dictionaries."""

    backend = "arrow"


class ArrowChangelogMachine(ArrowMachine):
    """The same with a changelog."""

    changelog = True


class ArrowSpillingMachine(ArrowMachine):
    """The same with next to no memory for what is not checkpointed yet."""

    options: ClassVar[dict[str, Any]] = {"pending_bytes": 500}


class HeapMachine(_Machine):
    """The heap backend against dictionaries."""

    backend = "heap"


class HeapChangelogMachine(HeapMachine):
    """The same with a changelog."""

    changelog = True


class RocksDBMachine(_Machine):
    """The RocksDB backend against dictionaries."""

    backend = "rocksdb"
    short = settings(_SHORT, max_examples=12)  # a database opens in milliseconds, not in less


class RocksDBChangelogMachine(RocksDBMachine):
    """The same with a changelog."""

    changelog = True


MACHINES = [
    ArrowMachine,
    ArrowChangelogMachine,
    ArrowSpillingMachine,
    HeapMachine,
    HeapChangelogMachine,
    RocksDBMachine,
    RocksDBChangelogMachine,
]


@pytest.mark.parametrize("machine", MACHINES)
def test_random_histories(machine: type[_Machine]) -> None:
    """Whatever is done in whatever order, every backend says what a dictionary says."""
    run_state_machine_as_test(machine, settings=machine.short)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("machine", MACHINES)
def test_many_long_random_histories(machine: type[_Machine]) -> None:
    """The same, many more times and for longer."""
    run_state_machine_as_test(machine, settings=_LONG)
