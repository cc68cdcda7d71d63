"""Conformance of keyed state: lists, maps and timers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.state import HOLDFAST_HASHES, Hashes, Store, Transaction
from holdfast.state.collections import Entries, ListState, MapState
from holdfast.state.owners import Owners
from holdfast.state.timers import Timers
from holdfast.testing.state_suite import StateSuite

OWNER = pa.schema([("user", pa.string())])
LISTS = ListState.schema_of("lists", OWNER, pa.schema([("v", pa.int64())]), hashes=HOLDFAST_HASHES)
MAPS = MapState.schema_of(
    "maps", OWNER, pa.string(), pa.schema([("v", pa.int64())]), hashes=HOLDFAST_HASHES
)
TIMERS = Timers.schema_of("timers", OWNER, hashes=HOLDFAST_HASHES)


def _owners(state: ListState | MapState | Timers, users: Iterable[str | None]) -> Owners:
    return state.owners({"user": list(users)})


def _colliding(state: ListState | MapState, users: Sequence[str]) -> Owners:
    """Return owners that all have the same look-up hash."""
    hashes = Hashes(np.full(len(users), 42, np.int64), np.zeros(len(users), np.int32))
    return state.owners({"user": users}, hashes)


def _by_owner(entries: Entries) -> list[tuple[int, Any, Any]]:
    values = entries.values.column(0).to_pylist()
    return list(zip(entries.owner.tolist(), entries.entry.to_pylist(), values, strict=True))


class ListConformance(StateSuite):
    """List state: one element, one row."""

    def elements(self, transaction: Transaction, users: Sequence[str]) -> dict[str, list[int]]:
        """Return the lists of some users."""
        state = ListState(transaction, "lists")
        result: dict[str, list[int]] = {user: [] for user in users}
        for owner, _, value in _by_owner(state.items(_owners(state, users))):
            result[users[owner]].append(value)
        return result

    def append(self, store: Store, epoch: int, items: Sequence[tuple[str, int]]) -> int:
        """Append elements in an epoch of its own and return how many rows its files have."""
        with store.begin(epoch, now_ms=0) as transaction:
            state = ListState(transaction, "lists")
            state.append(_owners(state, [user for user, _ in items]), {"v": [v for _, v in items]})
            snapshot = transaction.commit()
        return len(self.stored(snapshot, "lists"))

    def test_elements_keep_their_order(self) -> None:
        """Elements come back in the order in which they were appended, over many epochs."""
        store = self.open([LISTS])
        expected: dict[str, list[int]] = {"a": [], "b": [], "c": []}
        rows = 0
        for epoch in range(12):
            items = [("ab"[n % 2], epoch * 100 + n) for n in range(epoch % 4 + 1)]
            for user, value in items:
                expected[user].append(value)
            rows += len(items)
            # One element is one row.
            assert self.append(store, epoch, items) == rows
        with store.begin(12, now_ms=0) as transaction:
            assert self.elements(transaction, ["a", "b", "c"]) == expected
            assert self.elements(transaction, ["c", "b"]) == {"c": [], "b": expected["b"]}

    def test_own_elements_are_seen(self) -> None:
        """A transaction sees what it appended behind what was there."""
        store = self.open([LISTS])
        self.append(store, 0, [("a", 1), ("b", 2)])
        with store.begin(1, now_ms=0) as transaction:
            state = ListState(transaction, "lists")
            state.append(_owners(state, ["a", "a"]), {"v": [3, 4]})
            state.append(_owners(state, ["a"]), {"v": [5]})
            assert self.elements(transaction, ["a", "b"]) == {"a": [1, 3, 4, 5], "b": [2]}

    def test_replacing_and_clearing(self) -> None:
        """A list can be replaced or cleared without touching those of other keys."""
        store = self.open([LISTS])
        self.append(store, 0, [("a", 1), ("b", 2), ("a", 3), ("c", 4)])
        with store.begin(1, now_ms=0) as transaction:
            state = ListState(transaction, "lists")
            state.replace(_owners(state, ["a", "a"]), {"v": [7, 8]})
            state.clear(_owners(state, ["c", "nobody"]))
            assert self.elements(transaction, list("abc")) == {"a": [7, 8], "b": [2], "c": []}
            snapshot = transaction.commit()
        assert len(self.stored(snapshot, "lists")) == 3
        with self.open([LISTS], snapshots=[snapshot]).begin(2, now_ms=0) as transaction:
            assert self.elements(transaction, list("abc")) == {"a": [7, 8], "b": [2], "c": []}

    def test_lists_of_colliding_keys(self) -> None:
        """Keys of one hash have lists of their own."""
        users = ["a", "b", "c"]
        store = self.open([LISTS])
        with store.begin(0, now_ms=0) as transaction:
            state = ListState(transaction, "lists")
            state.append(_colliding(state, ["a", "b", "a", "c", "b"]), {"v": [1, 2, 3, 4, 5]})
            snapshot = transaction.commit()
        with self.open([LISTS], snapshots=[snapshot]).begin(1, now_ms=0) as transaction:
            state = ListState(transaction, "lists")
            state.clear(_colliding(state, ["c"]))
            found = [(users[o], v) for o, _, v in _by_owner(state.items(_colliding(state, users)))]
            assert sorted(found) == [("a", 1), ("a", 3), ("b", 2), ("b", 5)]
            only = state.items(_colliding(state, ["b"]))
            assert only.values.column(0).to_pylist() == [2, 5]


class MapConformance(StateSuite):
    """Map state: one entry, one row."""

    def put(self, transaction: Transaction, items: Mapping[tuple[str, str | None], int]) -> None:
        """Put entries."""
        state = MapState(transaction, "maps")
        entries = pa.array([entry for _, entry in items], pa.string())
        state.put(_owners(state, [u for u, _ in items]), entries, {"v": list(items.values())})

    def content(
        self, transaction: Transaction, users: Sequence[str]
    ) -> dict[tuple[str, str | None], int]:
        """Return the entries of some users."""
        state = MapState(transaction, "maps")
        found = _by_owner(state.items(_owners(state, users)))
        return {(users[owner], entry): value for owner, entry, value in found}

    def test_entries_are_told_apart(self) -> None:
        """Entries of a key are put, replaced, got and removed one by one; null is an entry."""
        store = self.open([MAPS])
        with store.begin(0, now_ms=0) as transaction:
            self.put(transaction, {("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 3, ("a", None): 4})
            transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            state = MapState(transaction, "maps")
            self.put(transaction, {("a", "y"): 5, ("b", "z"): 6})
            state.remove(_owners(state, ["a", "b"]), pa.array(["x", "nothing"]))
            expected = {("a", "y"): 5, ("a", None): 4, ("b", "x"): 3, ("b", "z"): 6}
            assert self.content(transaction, ["a", "b", "c"]) == expected
            asked = _owners(state, ["a", "a", "b", "c", "a"])
            lookup = state.get(asked, pa.array(["x", "y", "z", "x", None]))
            assert lookup.found.tolist() == [False, True, True, False, True]
            assert lookup.values.column(0).to_pylist() == [None, 5, 6, None, 4]
            snapshot = transaction.commit()
        assert self.values(snapshot, "maps") == {key: (v,) for key, v in expected.items()}
        with self.open([MAPS], snapshots=[snapshot]).begin(2, now_ms=0) as transaction:
            assert self.content(transaction, ["b", "a"]) == expected

    def test_one_entry_of_a_large_map_costs_one_row(self) -> None:
        """Changing one entry writes one entry, however many the key has."""
        store = self.open([MAPS])
        with store.begin(0, now_ms=0) as transaction:
            self.put(transaction, {("a", f"entry {n}" * 10): n for n in range(5000)})
            large = transaction.commit()
        costs = []
        for epoch in range(1, 10):
            with store.begin(epoch, now_ms=0) as transaction:
                self.put(transaction, {("a", f"entry {epoch}" * 10): -epoch})
                snapshot = transaction.commit()
            files = [file for file in snapshot.files if file.name in snapshot.new]
            costs.append(sum(file.rows for file in files if self.holds_rows(file)))
            assert len(self.stored(snapshot, "maps")) == 5000
        if large.backend == "heap":
            assert set(costs) == {5000}  # it keeps nothing but whole tables
        else:
            assert sorted(costs)[len(costs) // 2] <= 4

    def test_clearing_a_map(self) -> None:
        """All entries of a key can be removed at once, and put again."""
        store = self.open([MAPS])
        with store.begin(0, now_ms=0) as transaction:
            self.put(transaction, {(user, str(n)): n for user in "ab" for n in range(30)})
            transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            state = MapState(transaction, "maps")
            self.put(transaction, {("a", "own"): 1})
            state.clear(_owners(state, ["a"]))
            assert self.content(transaction, ["a"]) == {}
            self.put(transaction, {("a", "again"): 2})
            assert self.content(transaction, ["a"]) == {("a", "again"): 2}
            snapshot = transaction.commit()
        assert len(self.stored(snapshot, "maps")) == 31


class TimerConformance(StateSuite):
    """Timers: what is due is found without looking at the rest."""

    def set(self, transaction: Transaction, items: Sequence[tuple[str | None, int]]) -> None:
        """Set timers."""
        state = Timers(transaction, "timers")
        state.set(_owners(state, [user for user, _ in items]), np.array([t for _, t in items]))

    def due(self, transaction: Transaction, until_us: int) -> list[tuple[int, str | None]]:
        """Return what is due, by time."""
        return sorted(
            (time, user)
            for due in Timers(transaction, "timers").due(until_us)
            for user, time in zip(due.owners.columns[0].to_pylist(), due.due_us, strict=True)
        )

    def test_due_to_the_microsecond(self) -> None:
        """Timers up to a time, that time included, are due, and they stay set until they fire."""
        store = self.open([TIMERS])
        times = [-5_000_001, -1, 0, 1, 999, 1000, 1001, 5_000_000, 10**15]
        with store.begin(0, now_ms=0) as transaction:
            self.set(transaction, [(f"{time}", time) for time in times])
            snapshot = transaction.commit()
        for opened in (store, self.open([TIMERS], snapshots=[snapshot])):
            with opened.begin(1, now_ms=0) as transaction:
                for until in (-(10**7), -2, -1, 0, 1, 999, 1000, 1500, 10**16):
                    wanted = [(time, f"{time}") for time in times if time <= until]
                    assert self.due(transaction, until) == wanted

    def test_setting_twice_and_cancelling(self) -> None:
        """A timer set twice is one timer; a cancelled one is none; a key may have several."""
        store = self.open([TIMERS])
        with store.begin(0, now_ms=0) as transaction:
            self.set(transaction, [("a", 10), ("a", 20), ("b", 10)])
            transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            self.set(transaction, [("a", 10), ("a", 10)])
            state = Timers(transaction, "timers")
            state.cancel(_owners(state, ["a", "b", "nobody"]), np.array([20, 11, 10]))
            assert self.due(transaction, 100) == [(10, "a"), (10, "b")]
            snapshot = transaction.commit()
        assert set(self.stored(snapshot, "timers")) == {("a", 10), ("b", 10)}

    def test_firing_removes(self) -> None:
        """What has fired is gone; what a fired timer sets for later stays."""
        store = self.open([TIMERS])
        with store.begin(0, now_ms=0) as transaction:
            self.set(transaction, [(f"{n}", n * 1000) for n in range(100)])
            transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            fired = 0
            for due in Timers(transaction, "timers").fire(49_999):
                fired += len(due)
                self.set(transaction, [("0", 200_000)])
            assert fired == 50
            assert self.due(transaction, 49_999) == []
            snapshot = transaction.commit()
        left = {(f"{n}", n * 1000) for n in range(50, 100)} | {("0", 200_000)}
        assert set(self.stored(snapshot, "timers")) == left
        with self.open([TIMERS], snapshots=[snapshot]).begin(2, now_ms=0) as transaction:
            assert len(self.due(transaction, 10**9)) == 51

    def test_a_due_key_brings_its_hashes(self) -> None:
        """What is due carries the hashes by which the state of its key is found."""
        store = self.open([TIMERS])
        with store.begin(0, now_ms=0) as transaction:
            state = Timers(transaction, "timers")
            owners = _owners(state, ["a", "b", None])
            state.set(owners, np.array([1, 2, 3]))
            (due,) = list(state.due(10))
            order = np.argsort(due.due_us)
            assert due.owners.hashes.lookup[order].tolist() == owners.hashes.lookup.tolist()
            assert due.owners.hashes.partition[order].tolist() == owners.hashes.partition.tolist()

    def test_only_what_is_due_is_read(self) -> None:
        """Looking for what is due asks the backend for the codes up to that time only."""
        store = self.open([TIMERS])
        with store.begin(0, now_ms=0) as transaction:
            self.set(transaction, [(f"{n}", n * 1_000_000) for n in range(1000)])
            transaction.commit()
        seen: list[int] = []
        original = store.backend.scan

        def scan(table: str, ranges: Any) -> Any:
            for rows in original(table, ranges):
                seen.append(len(rows))
                yield rows

        store.backend.scan = scan  # type: ignore[method-assign]
        with store.begin(1, now_ms=0) as transaction:
            assert len(self.due(transaction, 9_000_000)) == 10
        assert sum(seen) == 10
