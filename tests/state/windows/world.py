"""Windows under test: an operator of several partitions, and what it should do, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from holdfast.state import HOLDFAST_HASHES, Hashes, Partition, Snapshot, Store, open_store
from holdfast.state.codes import FIRST, LAST
from holdfast.state.store import DEFAULT_CACHE_BYTES
from holdfast.state.windows import (
    Added,
    Session,
    Sliding,
    Tumbling,
    WindowMemory,
    Windows,
    WindowSpec,
    WindowState,
)

KEY = pa.schema([("who", pa.string())])
VALUE = pa.schema([("n", pa.int64()), ("low", pa.int64()), ("ids", pa.list_(pa.int64()))])
NAME = "visits"

Key: TypeAlias = str | None
Window: TypeAlias = tuple[Key, int, int]
Row: TypeAlias = tuple[Key, int]
"""A key and a time."""
Held: TypeAlias = dict[Window, tuple[int, int, tuple[int, ...]]]
"""What windows hold: how many rows, the lowest of their ids, all of them."""


def schemas() -> list[Any]:
    """Declare the tables of the windows under test."""
    return list(WindowState.schemas_of(NAME, KEY, VALUE, hashes=HOLDFAST_HASHES))


def merge(values: pa.RecordBatch, starts: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """Count, find the lowest, and collect."""
    ids = values["ids"]
    bounds = np.asarray(ids.offsets)[np.append(starts, len(ids))]
    lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), ids.values)
    n = np.add.reduceat(np.asarray(values["n"]), starts)
    low = np.minimum.reduceat(np.asarray(values["low"]), starts)
    return pa.RecordBatch.from_arrays([pa.array(n), pa.array(low), lists], schema=VALUE)


def partials(ids: Sequence[int]) -> dict[str, Any]:
    """Return the values of single rows, each known by its id."""
    return {"n": [1] * len(ids), "low": list(ids), "ids": [[one] for one in ids]}


def hashes_of(keys: Sequence[Key], *, collide: bool) -> Hashes:
    """Hash keys; with `collide`, all of them to the first or to the last place of their time."""
    own = Hashes.own((pa.array(keys, pa.large_string()),))
    return Hashes(-(own.lookup & 1), own.partition) if collide else own


def add(
    state: WindowState,
    rows: Sequence[Row],
    watermark_us: int = FIRST,
    *,
    ids: Sequence[int] | None = None,
    collide: bool = False,
) -> Added:
    """Assign rows to windows and add them."""
    ids = range(len(rows)) if ids is None else ids
    at, start, end = state.spec.assign(np.array([time for _, time in rows], np.int64))
    keys = [rows[row][0] for row in at.tolist()]
    owners = state.owners({"who": keys}, hashes_of(keys, collide=collide))
    return state.add(owners, start, end, partials([ids[row] for row in at.tolist()]), watermark_us)


def held(windows: Windows | Iterable[Windows]) -> Held:
    """Return windows as plain Python; a window that comes twice is an error."""
    result: Held = {}
    for piece in [windows] if isinstance(windows, Windows) else windows:
        values = piece.values.to_pydict()
        keys = piece.owners.batch(KEY)["who"].to_pylist()
        for who, start, end, n, low, ids in zip(
            keys, piece.start_us.tolist(), piece.end_us.tolist(), *values.values(), strict=True
        ):
            assert (who, start, end) not in result
            result[who, start, end] = (n, low, tuple(sorted(ids)))
    return result


def stored(store_state: WindowState, transaction: Any) -> tuple[set[Any], set[Any]]:
    """Return (window, due) of all windows, and of all entries of the pending index."""
    tables = []
    for name in (NAME, NAME + "_due"):
        found = [
            (row["who"], row["__start_us"], row["__end_us"], row["__due_us"])
            for batch in transaction.table(name).scan()
            for row in batch.to_pylist()
        ]
        assert len(found) == len(set(found))
        tables.append(set(found))
    assert store_state.memory.counts.held <= store_state.memory.max_pending_windows
    return tables[0], tables[1]


@contextmanager
def windows_on(
    store: Store, epoch: int, spec: WindowSpec, memory: WindowMemory, *, lateness_us: int = 0
) -> Iterator[WindowState]:
    """Work on windows in a transaction that commits at the end."""
    with store.begin(epoch, now_ms=0) as transaction:
        yield WindowState(transaction, NAME, spec, merge, lateness_us=lateness_us, memory=memory)
        transaction.commit()


@dataclass
class Operator:
    """The real thing: partitions of one operator, and their last checkpoint."""

    directory: Path
    backend: str
    spec: WindowSpec
    lateness_us: int
    max_pending: int
    collide: bool
    cache_bytes: int = DEFAULT_CACHE_BYTES
    count: int = 1
    epoch: int = 0
    watermark_us: int = FIRST
    """As the checkpoint has it."""
    snapshots: list[Snapshot] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    memories: list[WindowMemory] = field(default_factory=list)
    states: list[WindowState] = field(default_factory=list)
    transactions: list[Any] = field(default_factory=list)

    def open(self, count: int) -> None:
        """Open the last checkpoint, under some number of partitions, and begin an epoch."""
        self.close()
        self.count = count
        self.stores = [
            open_store(
                self.directory,
                schemas(),
                snapshots=self.snapshots,
                partition=Partition(index, count),
                backend=self.backend,
                cache_bytes=self.cache_bytes,
            )
            for index in range(count)
        ]
        self.memories = [
            WindowMemory(self.max_pending, watermark_us=self.watermark_us) for _ in range(count)
        ]
        self.begin()

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def begin(self) -> None:
        self.epoch += 1
        self.transactions = [store.begin(self.epoch, now_ms=0) for store in self.stores]
        self._use(self.memories)
        for memory in self.memories:
            memory.advance(self.watermark_us)

    def _use(self, memories: Sequence[WindowMemory]) -> None:
        self.states = [
            WindowState(
                transaction, NAME, self.spec, merge, lateness_us=self.lateness_us, memory=memory
            )
            for transaction, memory in zip(self.transactions, memories, strict=True)
        ]

    def switch(self, *, back: bool) -> None:
        """Go on in the same epoch with new memories, or with the lasting ones."""
        memories = self.memories if back else [WindowMemory(self.max_pending) for _ in self.stores]
        watermark_us = self.highest_us
        self._use(memories)
        for memory in memories:
            memory.advance(watermark_us)

    @property
    def highest_us(self) -> int:
        """The watermark, whichever memories know it."""
        return max(state.memory.watermark_us for state in self.states)

    def commit(self) -> None:
        self.snapshots = [transaction.commit() for transaction in self.transactions]
        self.watermark_us = self.highest_us
        self.begin()

    def abort(self) -> None:
        for transaction in self.transactions:
            transaction.abort()
        if any(transaction.must_reopen for transaction in self.transactions):
            self.open(self.count)
        else:
            self.begin()

    def add(
        self, rows: Sequence[Row], ids: Sequence[int], watermark_us: int
    ) -> tuple[set[int], Held, set[Window], Held]:
        """Add rows; return late ids, changed windows, which had fired, and what is retracted."""
        late: set[int] = set()
        changed: Held = {}
        fired: set[Window] = set()
        retracted: Held = {}
        where = hashes_of([who for who, _ in rows], collide=False).partition
        for index, state in enumerate(self.states):
            mine = np.flatnonzero(Partition(index, self.count).owns(where)).tolist()
            own = [ids[at] for at in mine]
            added = add(
                state, [rows[at] for at in mine], watermark_us, ids=own, collide=self.collide
            )
            assigned = self.spec.assign(np.array([rows[at][1] for at in mine], np.int64)).row
            late |= {own[row] for row in assigned[added.late].tolist()}
            here = held(added.windows)
            changed |= here
            fired |= {window for window, one in zip(here, added.fired_before, strict=True) if one}
            retracted |= held(added.retracted)
        return late, changed, fired, retracted

    def fire(self, watermark_us: int | None) -> Held:
        """Fire, or flush without a watermark."""
        result: Held = {}
        for state in self.states:
            pieces = state.flush() if watermark_us is None else state.fire(watermark_us)
            result |= held(pieces)
        return result

    def firing(self, watermark_us: int) -> list[Iterator[Windows]]:
        """Begin to fire in every partition."""
        return [state.fire(watermark_us) for state in self.states]

    def tables(self) -> tuple[set[Any], set[Any]]:
        """Return what all partitions have stored."""
        windows: set[Any] = set()
        entries: set[Any] = set()
        for state, transaction in zip(self.states, self.transactions, strict=True):
            mine = stored(state, transaction)
            windows |= mine[0]
            entries |= mine[1]
        return windows, entries


@dataclass
class Model:
    """What windows should do: one dictionary, one row at a time."""

    spec: WindowSpec
    lateness_us: int
    watermark_us: int = FIRST
    open: dict[Window, set[int]] = field(default_factory=dict)
    waiting: set[Window] = field(default_factory=set)
    """Open windows that have nothing new to fire."""
    given: set[Window] = field(default_factory=set)
    """Open windows that were ever given out."""
    accepted: list[tuple[int, Window]] = field(default_factory=list)
    """The ids of rows, with every window, before any merging, that a row was not late for."""

    def copy(self) -> Model:
        return deepcopy(self)

    def _is_closed(self, end: int) -> bool:
        return end + self.lateness_us <= self.watermark_us

    def assign(self, time: int) -> list[tuple[int, int]]:
        """Try every window near a time."""
        if isinstance(self.spec, Session):
            return [(time, time + self.spec.gap_us)]
        return brute_force_windows(self.spec, time)

    def add(
        self, rows: Sequence[Row], ids: Sequence[int], watermark_us: int
    ) -> tuple[set[int], Held, set[Window], Held]:
        self.watermark_us = max(self.watermark_us, watermark_us)
        late: set[int] = set()
        before = {window: set(ids) for window, ids in self.open.items()}
        for number, (who, time) in zip(ids, rows, strict=True):
            for start, end in self.assign(time):
                if self._is_closed(end):
                    late.add(number)
                else:
                    self._add((who, start, end), number)
                    self.accepted.append((number, (who, start, end)))
        changed = {w: ids for w, ids in self.open.items() if before.get(w) != ids}
        gone = {w: before[w] for w in before.keys() - self.open.keys() if w in self.given}
        again = self.given & set(changed)
        self.waiting -= set(changed)
        self.waiting &= set(self.open)
        self.given &= set(self.open)
        return late, holding(changed), again, holding(gone)

    def _add(self, window: Window, number: int) -> None:
        who, start, end = window
        ids = {number}
        if isinstance(self.spec, Session):
            for other in list(self.open):
                touches = other[0] == who and other[1] <= end and start <= other[2]
                if touches and not self._is_closed(other[2]):
                    ids |= self.open.pop(other)
                    start, end = min(start, other[1]), max(end, other[2])
            window = (who, start, end)
        self.open[window] = self.open.get(window, set()) | ids

    def due(self, until_us: int) -> dict[Window, set[int]]:
        """Return what has something to fire."""
        return {w: i for w, i in self.open.items() if w[2] <= until_us and w not in self.waiting}

    def fire(self, watermark_us: int | None) -> Held:
        if watermark_us is not None:
            self.watermark_us = max(self.watermark_us, watermark_us)
        due = self.due(LAST if watermark_us is None else self.watermark_us)
        self.give(due)
        self._remove(
            {w for w in self.open if watermark_us is None or self._is_closed(w[2])},
        )
        return holding(due)

    def give(self, windows: Iterable[Window]) -> None:
        """Take note of windows that were given out."""
        self.waiting |= set(windows)
        self.given |= set(windows)

    def sweep(self, kept: set[Window]) -> None:
        """Remove windows that are closed for good and wait for nothing else, but for some."""
        self._remove({w for w in self.waiting - kept if self._is_closed(w[2])})

    def _remove(self, windows: set[Window]) -> None:
        self.open = {w: ids for w, ids in self.open.items() if w not in windows}
        self.waiting -= windows
        self.given -= windows

    def stored(self) -> set[Any]:
        """Return (window, due) of all windows."""
        return {(*w, w[2] + self.lateness_us if w in self.waiting else w[2]) for w in self.open}


def brute_force_windows(spec: Tumbling | Sliding, time: int) -> list[tuple[int, int]]:
    """Try all windows that begin near a time."""
    slide = spec.slide_us if isinstance(spec, Sliding) else spec.size_us
    nearest = (time - spec.offset_us) // slide
    reach = spec.size_us // slide + 2
    starts = [spec.offset_us + k * slide for k in range(nearest - reach, nearest + reach)]
    return [(s, s + spec.size_us) for s in starts if s <= time < s + spec.size_us]


def holding(windows: dict[Window, set[int]]) -> Held:
    return {w: (len(ids), min(ids), tuple(sorted(ids))) for w, ids in windows.items()}
