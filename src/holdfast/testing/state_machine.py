"""Random histories that must look the same in any backend as in a dictionary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from holdfast import failpoints
from holdfast.state import (
    HOLDFAST_HASHES,
    TTL,
    Directory,
    Hashes,
    Partition,
    Restart,
    Snapshot,
    Store,
    TableSchema,
    Transaction,
)
from holdfast.state.catalogue import Catalogue
from holdfast.testing.state_suite import NO_LIMIT, Plain, delete, get, put, scan

_T = TypeVar("_T")

LIFE_MS: Final = 50


def _table(name: str) -> TableSchema:
    return TableSchema(
        name,
        key=pa.schema([("k", pa.int64())]),
        value=pa.schema([("v", pa.int64()), ("text", pa.string())]),
        hashes=HOLDFAST_HASHES,
    )


TABLES: Final = (_table("lasting"), _table("aging"), _table("used"))
LIVES: Final = {
    "aging": TTL(LIFE_MS, Restart.ON_WRITE, sweep_epochs=2),
    "used": TTL(LIFE_MS, Restart.ON_READ_WRITE, sweep_epochs=0),
}

Step = tuple[str, TableSchema, list[int | None], int]
"""What is done, where, to which keys, and a number to put."""

Entry = tuple[Plain, int]
"""A value and when it was last touched."""

Model = dict[str, dict[int | None, Entry]]

_keys = st.lists(st.one_of(st.none(), st.integers(0, 14)), min_size=1, max_size=6)
_steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "get"]),
        st.sampled_from(TABLES),
        _keys,
        st.integers(0, 99),
    ),
    max_size=6,
)
_crashes = st.integers(min_value=1, max_value=20)


class Crash(BaseException):
    """The end of a process, inside one process."""


@dataclass
class _Kept:
    snapshots: tuple[Snapshot, ...]
    model: Model


def hashes(keys: Sequence[Plain]) -> Hashes:
    """Return hashes of which only few are different, and negative ones among them."""
    numbers = [-1 if key is None else key for (key,) in keys]
    lookup = np.array([number % 5 - 2 for number in numbers], np.int64)
    partition = np.array([number * 7919 - 40_000 for number in numbers], np.int32)
    return Hashes(lookup, partition)


class StateMachine(RuleBasedStateMachine):
    """Does the same to stores and to dictionaries and compares everything they say.

    A subclass fills in `open`; the directory must be empty when a machine is made.
    """

    place: Path
    """The directory of the operator."""

    def __init__(self) -> None:
        super().__init__()
        self._now_ms = 1_000
        self._cache_bytes = NO_LIMIT
        self._count = 1
        self._epoch = -1
        self._attempts = 0
        self._stores: list[Store] = []
        self._model: Model = _nothing()
        self._kept: dict[int, _Kept] = {}
        self._catalogue = Catalogue(Directory(self.place))

    @abstractmethod
    def open(
        self,
        partition: Partition,
        snapshots: Sequence[Snapshot],
        *,
        attempt: str,
        cache_bytes: int,
    ) -> Store:
        """Open a store with `TABLES` and `LIVES` in `self.place`."""

    @initialize(count=st.integers(1, 3), cache_bytes=st.sampled_from([NO_LIMIT, 1500, 0]))
    def begin(self, count: int, cache_bytes: int) -> None:
        """Open the stores of some partitions, empty."""
        self._count, self._cache_bytes = count, cache_bytes
        self._reopen()

    @rule(ms=st.sampled_from([1, LIFE_MS // 2, LIFE_MS - 1, LIFE_MS]))
    def wait(self, ms: int) -> None:
        """Let time pass."""
        self._now_ms += ms

    @rule(steps=_steps)
    def commit(self, steps: list[Step]) -> None:
        """Do an epoch."""
        self._keep(_commit(self._transact(steps)))

    @rule(steps=_steps)
    def abort(self, steps: list[Step]) -> None:
        """Begin an epoch and forget it."""
        before = deepcopy(self._model)
        transactions = self._transact(steps)
        for transaction in transactions:
            transaction.abort()
        self._model = before
        if any(transaction.must_reopen for transaction in transactions):
            self._reopen()

    @rule(steps=_steps, at=_crashes)
    def crash(self, steps: list[Step], at: int) -> None:
        """Do an epoch and crash after some file operation of it, if it has so many."""
        before = deepcopy(self._model)
        with crashing(at) as crashed:
            self._keep(_commit(self._transact(steps)))
        if not crashed:
            return
        # The epoch counts from the moment its document is there, even if nobody heard of it.
        if self._catalogue.epochs()[-1:] == [self._epoch + 1]:
            self._epoch += 1
            self._kept[self._epoch] = _Kept(self._catalogue.snapshots(), deepcopy(self._model))
        else:
            self._model = before
        self._drop_stores()
        self._reopen()

    @rule()
    def reopen(self) -> None:
        """Close the stores and open them again."""
        self._close_stores()
        self._reopen()

    @rule(at=_crashes)
    def crash_while_opening(self, at: int) -> None:
        """Crash after some file operation of opening, if it has so many, and open again."""
        self._close_stores()
        with crashing(at) as crashed:
            self._reopen()
        if crashed:
            self._drop_stores()
            self._reopen()

    @rule(count=st.integers(1, 5))
    def rescale(self, count: int) -> None:
        """Open the last epoch under another number of partitions."""
        self._close_stores()
        self._count = count
        self._reopen()

    @precondition(lambda self: self._kept)
    @rule(data=st.data(), at=st.one_of(st.none(), _crashes))
    def go_back(self, data: st.DataObject, at: int | None) -> None:
        """Open an older epoch and go on from there; what came after it is given up."""
        epoch = data.draw(st.sampled_from(sorted(self._kept)))
        self._close_stores()
        self._forget({other for other in self._kept if other > epoch}, at)
        self._epoch = epoch
        self._model = deepcopy(self._kept[epoch].model)
        self._reopen()

    @precondition(lambda self: len(self._kept) > 1)
    @rule(data=st.data(), at=st.one_of(st.none(), _crashes))
    def expire(self, data: st.DataObject, at: int | None) -> None:
        """Give up some epochs, never the last, while the stores are open."""
        older = sorted(self._kept)[:-1]
        self._forget(data.draw(st.sets(st.sampled_from(older), min_size=1)), at)

    @rule(at=st.one_of(st.none(), _crashes))
    def collect(self, at: int | None) -> None:
        """Remove every file that no kept epoch names; afterwards there is none."""
        self._close_stores()
        self._surely(self._catalogue.collect, at)
        named = {
            file.name
            for kept in self._kept.values()
            for snapshot in kept.snapshots
            for file in snapshot.files
        }
        left = {
            path.relative_to(self.place).as_posix()
            for path in self.place.rglob("*")
            if path.is_file() and path.parent.name != "epochs"
        }
        assert left == named
        self._reopen()

    @precondition(lambda self: self._kept)
    @rule(data=st.data(), count=st.integers(1, 4))
    def look_back(self, data: st.DataObject, count: int) -> None:
        """Open any kept epoch under any number of partitions beside the open stores."""
        kept = self._kept[data.draw(st.sampled_from(sorted(self._kept)))]
        stores = [self._open(index, count, kept.snapshots) for index in range(count)]
        try:
            self._compare(stores, kept.model)
        finally:
            for store in stores:
                store.close()

    @invariant()
    def equal(self) -> None:
        """Compare every entry of every table, and that each is where it belongs."""
        if self._stores:
            self._compare(self._stores, self._model)

    def teardown(self) -> None:
        """Let go of the stores."""
        self._close_stores()

    def _compare(self, stores: Sequence[Store], model: Model) -> None:
        for schema in TABLES:
            expected = {
                (key,): value
                for key, (value, stamp) in model[schema.name].items()
                if schema.name not in LIVES or stamp > self._now_ms - LIFE_MS
            }
            found: dict[Plain, Plain] = {}
            for store in stores:
                with store.begin(store.epoch + 1, now_ms=self._now_ms) as transaction:
                    here = scan(transaction, schema)
                partition = store.backend.partition
                assert all(self._home(key, len(stores)) == partition.index for (key,) in here)
                found |= here
            assert found == expected, f"table {schema.name}"

    def _transact(self, steps: list[Step]) -> list[Transaction]:
        transactions = [store.begin(self._epoch + 1, now_ms=self._now_ms) for store in self._stores]
        for index, transaction in enumerate(transactions):
            for name, schema, keys, number in steps:
                mine = [key for key in keys if self._home(key, self._count) == index]
                self._step(transaction, name, schema, mine, number)
        return transactions

    def _step(
        self,
        transaction: Transaction,
        name: str,
        schema: TableSchema,
        keys: list[int | None],
        number: int,
    ) -> None:
        entries = self._model[schema.name]
        if name == "put":
            pairs = [(key, (number + n, f"{number}" * n)) for n, key in enumerate(keys)]
            put(transaction, pairs, schema, hashes=hashes)
            entries.update({key: (value, self._now_ms) for key, value in pairs})
        elif name == "delete":
            delete(transaction, keys, schema, hashes=hashes)
            for key in keys:
                entries.pop(key, None)
        else:
            found = get(transaction, keys, schema, hashes=hashes)
            assert found == [self._alive(schema.name, key) for key in keys]

    def _alive(self, table: str, key: int | None) -> Plain | None:
        entries = self._model[table]
        value, stamp = entries.get(key, (None, 0))
        life = LIVES.get(table)
        if value is None or life is None:
            return value
        if stamp <= self._now_ms - LIFE_MS:
            return None
        if life.restart is Restart.ON_READ_WRITE:
            entries[key] = (value, self._now_ms)
        return value

    def _keep(self, snapshots: tuple[Snapshot, ...]) -> None:
        self._catalogue.keep(snapshots)
        self._epoch += 1
        self._kept[self._epoch] = _Kept(self._catalogue.snapshots(), deepcopy(self._model))

    def _forget(self, epochs: set[int], at: int | None) -> None:
        for epoch in epochs:
            del self._kept[epoch]
        self._surely(lambda: self._catalogue.expire(list(self._kept)), at)

    def _surely(self, work: Callable[[], _T], at: int | None) -> None:
        """Do something, crash in the middle of it, and do it again."""
        if at is not None:
            with crashing(at):
                work()
        work()

    def _reopen(self) -> None:
        snapshots: tuple[Snapshot, ...] = ()
        if self._epoch in self._kept:
            snapshots = self._catalogue.snapshots(self._epoch)
        else:
            self._epoch, self._model = -1, _nothing()
        self._drop_stores()
        for index in range(self._count):
            self._stores.append(self._open(index, self._count, snapshots))

    def _open(self, index: int, count: int, snapshots: Sequence[Snapshot]) -> Store:
        self._attempts += 1
        return self.open(
            Partition(index, count),
            snapshots,
            attempt=f"a{self._attempts}",
            cache_bytes=self._cache_bytes,
        )

    def _drop_stores(self) -> None:
        """Let go of the stores as the end of a process does: nothing is closed in order."""
        self._stores = []

    def _close_stores(self) -> None:
        for store in self._stores:
            store.close()
        self._stores = []

    @staticmethod
    def _home(key: int | None, count: int) -> int:
        return int(hashes([(key,)]).partition[0]) % count


@contextmanager
def crashing(at: int) -> Iterator[list[str]]:
    """Crash after the `at`-th file operation; what is yielded then says which it was."""
    reached = 0
    crashed: list[str] = []

    def observe(step: str, subject: str) -> None:
        nonlocal reached
        if not step.startswith("state."):
            return
        reached += 1
        if reached == at:
            # Nothing happens any more after the end of a process.
            failpoints.observe(None)
            crashed.append(f"{step}:{subject}")
            raise Crash

    failpoints.observe(observe)
    try:
        yield crashed
    except Crash:
        assert crashed
    finally:
        failpoints.observe(None)


def _commit(transactions: Sequence[Transaction]) -> tuple[Snapshot, ...]:
    return tuple(transaction.commit() for transaction in transactions)


def _nothing() -> Model:
    return {schema.name: {} for schema in TABLES}
