"""Conformance of keyed state: other numbers of partitions, other backends."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import StateClosed, StateError, StateMismatch
from holdfast.state import TTL, Partition, Snapshot, Store, open_store
from holdfast.state.savepoint import seal_savepoint
from holdfast.testing.state_suite import (
    ITEMS,
    StateSuite,
    colliding,
    commit,
    delete,
    get,
    look,
    put,
    rows_of,
    scan,
)


class PartitionConformance(StateSuite):
    """Keys live in the partition that their hash says, under any number of partitions."""

    KEYS = tuple(range(-40, 80))

    def write(self, count: int, *, epochs: int = 4) -> tuple[list[Snapshot], dict[int, str]]:
        """Write some epochs under a number of partitions; return the last one's snapshots."""
        hashes = colliding(groups=25)
        stores = [self.open([ITEMS], partition=Partition(n, count)) for n in range(count)]
        model: dict[int, str] = {}
        snapshots: list[Snapshot] = []
        for epoch in range(epochs):
            puts = dict.fromkeys(self.KEYS[epoch::2], f"{count}.{epoch}")
            deletes = self.KEYS[epoch::9]
            snapshots = [self._commit(store, epoch, puts, deletes) for store in stores]
            model = {key: value for key, value in model.items() if key not in deletes} | puts
        for store in stores:
            store.close()
        assert hashes([(1,)]).partition[0] == _partition_hash(1)
        return snapshots, model

    def _commit(
        self, store: Store, epoch: int, puts: dict[int, str], deletes: Any = ()
    ) -> Snapshot:
        mine = store.backend.partition
        return commit(
            store,
            epoch,
            {key: value for key, value in puts.items() if _lives(key, mine)},
            [key for key in deletes if _lives(key, mine)],
            hashes=colliding(groups=25),
        )

    @pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (6, 4), (3, 3)])
    def test_another_number_of_partitions(self, before: int, after: int) -> None:
        """State opens under another number of partitions, each with exactly its keys."""
        snapshots, model = self.write(before)
        last: list[Snapshot] = []
        for index in range(after):
            mine = Partition(index, after)
            store = self.open([ITEMS], snapshots=snapshots, partition=mine)
            expected = {key: value for key, value in model.items() if _lives(key, mine)}
            own = [key for key in self.KEYS if _lives(key, mine)]
            with store.begin(9, now_ms=0) as transaction:
                assert scan(transaction) == rows_of(expected)
                found = get(transaction, own, hashes=colliding(groups=25))
                assert found == [(expected[k],) if k in expected else None for k in own]
                delete(transaction, own[:2], hashes=colliding(groups=25))
                put(transaction, dict.fromkeys(own[2:4], "new"), hashes=colliding(groups=25))
                last.append(transaction.commit())
            expected = {k: v for k, v in expected.items() if k not in own[:2]}
            expected |= dict.fromkeys(own[2:4], "new")
            assert look(store) == rows_of(expected)
            assert self.values(last[-1]) == rows_of(expected)
            hashes = {row.partition_hash for row in self.stored(last[-1]).values()}
            assert all(hash_ % after == index for hash_ in hashes)
            if before != after:
                foreign = {file.name for one in snapshots for file in one.files}
                assert not foreign & {file.name for file in last[-1].files}
                assert last[-1].new == {file.name for file in last[-1].files}

    def test_keys_of_another_partition_are_refused(self) -> None:
        """Writing a key that lives elsewhere is refused, and nothing of the batch is kept."""
        store = self.open([ITEMS], partition=Partition(1, 3))
        foreign = [key for key in self.KEYS if not _lives(key, Partition(1, 3))]
        own = [key for key in self.KEYS if _lives(key, Partition(1, 3))]
        hashes = colliding(groups=25)
        with store.begin(0, now_ms=0) as transaction:
            for wrong in ([foreign[0]], own[:1] + foreign[:1]):
                with pytest.raises(StateMismatch, match="do not belong to partition 1 of 3"):
                    put(transaction, dict.fromkeys(wrong, "x"), hashes=hashes)
                with pytest.raises(StateMismatch, match="do not belong to partition 1 of 3"):
                    delete(transaction, wrong, hashes=hashes)
            put(transaction, {own[1]: "kept"}, hashes=hashes)
            snapshot = transaction.commit()
        assert self.values(snapshot) == rows_of({own[1]: "kept"})

    def test_incomplete_snapshots_are_refused(self) -> None:
        """Partitions of different epochs or numbers, or too few of them, are refused."""
        three, _ = self.write(3)
        older, _ = self.write(3, epochs=2)
        two, _ = self.write(2)
        for snapshots, message in (
            (three[:2], "partition 2 of 3.*was not given"),
            ([three[0], older[1], three[2]], "different epochs"),
            ([three[0], two[1]], "different numbers of partitions"),
        ):
            with pytest.raises(StateMismatch, match=message):
                self.open([ITEMS], snapshots=snapshots, partition=Partition(0, 4))
        with pytest.raises(StateMismatch, match="There is no partition 3 of 3"):
            Partition(3, 3)


class SavepointConformance(StateSuite):
    """State moves to any backend, and any number of partitions, through a savepoint."""

    @pytest.mark.parametrize("backend", ["arrow", "heap", "rocksdb"])
    @pytest.mark.parametrize("changelog", [False, True])
    def test_state_moves_to_another_backend(self, backend: str, changelog: bool) -> None:
        """Written by this backend under two partitions, it opens with another under three."""
        hashes = colliding(groups=25)
        keys = range(60)
        aim = self.place.with_name("savepoint")
        parts, model = [], {key: f"{key}" for key in keys if key % 7}
        for index in range(2):
            mine = Partition(index, 2)
            store = self.open([ITEMS], partition=mine, ttl={ITEMS.name: TTL(100)})
            own = [key for key in keys if _lives(key, mine)]
            commit(store, 4, dict.fromkeys(own, "old"), hashes=hashes, now_ms=50)
            puts = {key: value for key, value in model.items() if key in own}
            commit(store, 5, puts, own, hashes=hashes, now_ms=100)
            parts.append(store.write_savepoint(aim))
        seal_savepoint(aim, parts)
        place = self.place.with_name("elsewhere")
        for index in range(3):
            mine = Partition(index, 3)
            options: dict[str, Any] = {
                "backend": backend,
                "changelog": changelog,
                "partition": mine,
                "ttl": {ITEMS.name: TTL(100)},
            }
            expected = rows_of({k: v for k, v in model.items() if _lives(k, mine)})
            with open_store(place, [ITEMS], savepoint=aim, **options) as store:
                assert store.epoch == 5
                assert look(store, now_ms=199) == expected
                assert look(store, now_ms=200) == {}
                last = commit(store, 6, now_ms=100)
            # All partitions of one count are needed only under another count.
            with open_store(place, [ITEMS], snapshots=[last], **options) as store:
                assert look(store, now_ms=199) == expected

    def test_a_savepoint_is_of_the_last_commit(self) -> None:
        """What is not committed is not in a savepoint, nor is what was committed after it."""
        aim = self.place.with_name("savepoint")
        store = self.open([ITEMS])
        commit(store, 0, {1: "a"})
        transaction = store.begin(1, now_ms=0)
        put(transaction, {2: "never"})
        with pytest.raises(StateClosed, match="still open"):
            store.write_savepoint(aim)
        transaction.abort()
        seal_savepoint(aim, [store.write_savepoint(aim)])
        commit(store, 1, {1: "later"})
        with open_store(self.place.with_name("elsewhere"), [ITEMS], savepoint=aim) as moved:
            assert look(moved) == rows_of({1: "a"})

    def test_half_a_savepoint_is_refused(self) -> None:
        """A savepoint without all its parts cannot be sealed, and without a seal not be opened."""
        aim = self.place.with_name("savepoint")
        store = self.open([ITEMS], partition=Partition(0, 2))
        commit(store, 0)
        part = store.write_savepoint(aim)
        with pytest.raises(StateMismatch, match="is not complete"):
            seal_savepoint(aim, [part])
        with pytest.raises(StateError, match="is not a savepoint"):
            open_store(self.place.with_name("elsewhere"), [ITEMS], savepoint=aim)


def _partition_hash(key: int) -> int:
    return int(colliding()([(key,)]).partition[0])


def _lives(key: int, partition: Partition) -> bool:
    return _partition_hash(key) % partition.count == partition.index
