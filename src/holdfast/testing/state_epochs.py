"""Conformance of keyed state: checkpoints, what they cost, and what may be opened as what."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import (
    StateClosed,
    StateDamaged,
    StateError,
    StateFormatMismatch,
    StateMismatch,
)
from holdfast.state import (
    HOLDFAST_HASHES,
    SPARK_HASHES,
    TTL,
    Directory,
    Partition,
    Snapshot,
    Store,
    TableSchema,
    open_store,
)
from holdfast.state.catalogue import Catalogue
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
    single,
)


class EpochConformance(StateSuite):
    """Every checkpoint is the state of its epoch, for as long as its files are there."""

    EPOCHS = 40

    def test_every_snapshot_is_its_epoch(self) -> None:
        """After many epochs and merges, each snapshot opens and is exactly its epoch."""
        chance = random.Random(11)
        store = self.open([ITEMS])
        model: dict[int, str] = {}
        kept: list[tuple[Snapshot, dict[int, str]]] = []
        for epoch in range(self.EPOCHS):
            puts = {chance.randrange(400): f"{epoch}" for _ in range(chance.choice([0, 5, 60]))}
            deletes = [chance.randrange(400) for _ in range(chance.choice([0, 20]))]
            kept.append((commit(store, epoch, puts, deletes), {}))
            model = {key: value for key, value in model.items() if key not in deletes} | puts
            kept[-1][1].update(model)
            if epoch % 9 == 8:
                store = self.open([ITEMS], snapshots=[kept[-1][0]])
        for snapshot, expected in kept:
            self.verify(snapshot)
            assert self.values(snapshot) == rows_of(expected)
            with self.open([ITEMS], snapshots=[snapshot]) as opened:
                assert opened.epoch == snapshot.epoch
                assert look(opened) == rows_of(expected)

    def test_new_files_are_those_the_snapshot_before_did_not_have(self) -> None:
        """`new` names exactly what has to be brought to safety, also after reopening."""
        store = self.open([ITEMS, single("other")])
        before: set[str] = set()
        for epoch in range(14):
            schema = single("other") if epoch % 3 == 2 else ITEMS
            puts = dict.fromkeys(range(epoch, epoch + 30), f"{epoch}")
            snapshot = commit(store, epoch, puts, schema=schema)
            names = {file.name for file in snapshot.files}
            assert len(names) == len(snapshot.files)
            assert snapshot.new == names - before
            assert self.new_rows(snapshot)
            sizes = {file.name: file.bytes for file in snapshot.files}
            assert snapshot.bytes == sum(sizes.values())
            assert snapshot.new_bytes == sum(sizes[name] for name in snapshot.new)
            self.verify(snapshot)
            before = names
            if epoch % 4 == 3:
                store = self.open([ITEMS, single("other")], snapshots=[snapshot])

    def test_an_unchanged_epoch_writes_no_rows(self) -> None:
        """An epoch without a change adds no file of rows, just opened or not."""
        store = self.open([ITEMS])
        last = commit(store, 0, dict.fromkeys(range(100), "x"))
        last = commit(store, 1, dict.fromkeys(range(10), "y"))
        for epoch in range(2, 12):
            if epoch % 4 == 0:
                store = self.open([ITEMS], snapshots=[last])
            snapshot = commit(store, epoch)
            assert snapshot.epoch == epoch
            expected = rows_of({key: "y" if key < 10 else "x" for key in range(100)})
            assert self.values(snapshot) == expected
            # A changelog may just have come to its end, and be written into the backend.
            assert epoch == 2 or self.new_rows(snapshot) == set()
            last = snapshot

    def test_a_file_name_is_never_used_twice(self) -> None:
        """Doing an epoch again from an older snapshot leaves the abandoned one intact."""
        store = self.open([ITEMS])
        first = commit(store, 0, {1: "a"})
        abandoned = commit(store, 1, {1: "b", 2: "b"})
        again = self.open([ITEMS], snapshots=[first])
        redone = commit(again, 1, {1: "c"})
        later = commit(again, 2, {3: "c"})
        for snapshot, expected in (
            (first, {1: "a"}),
            (abandoned, {1: "b", 2: "b"}),
            (redone, {1: "c"}),
            (later, {1: "c", 3: "c"}),
        ):
            self.verify(snapshot)
            assert self.values(snapshot) == rows_of(expected)
            assert look(self.open([ITEMS], snapshots=[snapshot])) == rows_of(expected)

    def test_epochs_are_given_up(self) -> None:
        """Removing some epochs leaves the others whole, and no file that none of them names."""
        catalogue = Catalogue(Directory(self.place))
        store = self.open([ITEMS])
        model: dict[int, str] = {}
        kept: dict[int, dict[int, str]] = {}
        for epoch in range(14):
            puts = dict.fromkeys(range(epoch * 7, epoch * 7 + 5 + 400 * (epoch == 0)), f"{epoch}")
            model = model | puts
            kept[epoch] = model
            catalogue.keep([commit(store, epoch, puts)])
        for keep in ({2, 3, 7, 9, 12, 13}, {3, 9, 13}, {9, 13}):
            catalogue.expire(keep)
            assert catalogue.epochs() == sorted(keep)
            for epoch in keep:
                catalogue.verify(epoch)
                with self.open([ITEMS], snapshots=catalogue.snapshots(epoch)) as opened:
                    assert look(opened) == rows_of(kept[epoch])
        assert look(store) == rows_of(model)
        store.close()
        catalogue.collect()
        named = {
            file.name
            for epoch in (9, 13)
            for one in catalogue.snapshots(epoch)
            for file in one.files
        }
        left = {path.relative_to(self.place) for path in self.place.rglob("*") if path.is_file()}
        assert {path.as_posix() for path in left if path.parts[0] != "epochs"} == named

    def test_two_stores_of_one_snapshot_go_their_own_ways(self) -> None:
        """Two stores opened at one snapshot at once do not see or disturb each other."""
        start = commit(self.open([ITEMS]), 0, dict.fromkeys(range(50), "start"))
        one = self.open([ITEMS], snapshots=[start])
        other = self.open([ITEMS], snapshots=[start])
        for epoch in range(1, 10):
            left = commit(one, epoch, {epoch: "one"}, deletes=[epoch + 20])
            right = commit(other, epoch, {epoch: "other"}, deletes=[epoch + 30])
        base = dict.fromkeys(range(50), "start")
        for snapshot, store, name, gap in ((left, one, "one", 20), (right, other, "other", 30)):
            expected = base | dict.fromkeys(range(1, 10), name)
            expected = {k: v for k, v in expected.items() if not gap < k < gap + 10}
            assert look(store) == rows_of(expected)
            assert self.values(snapshot) == rows_of(expected)

    def test_old_rows_are_merged_away(self) -> None:
        """A state that is overwritten over and over does not grow without end."""
        store = self.open([ITEMS])
        chance = np.random.default_rng(3)
        sizes = []
        for epoch in range(4 * self.epochs_to_compaction):
            puts = {key: chance.bytes(40).hex() for key in range(200)}
            sizes.append(commit(store, epoch, puts).bytes)
        assert max(sizes[self.epochs_to_compaction :]) < 8 * sizes[0]

    def test_a_snapshot_survives_as_a_document(self) -> None:
        """What was written as JSON opens like the original."""
        store = self.open([ITEMS])
        for epoch in range(5):
            snapshot = commit(store, epoch, {epoch: "x"})
        copied = Snapshot.from_document(snapshot.document())
        assert copied == snapshot
        opened = self.open([ITEMS], snapshots=[copied])
        assert look(opened) == rows_of(dict.fromkeys(range(5), "x"))

    def test_a_state_of_several_pages(self) -> None:
        """A batch of many rows is found row by row, and a small change on top of it too."""
        rows = 70_000
        numbers = pa.array(np.arange(rows))
        schema = single(value=pa.int64())
        store = self.open([schema])
        with store.begin(0, now_ms=0) as transaction:
            table = transaction.table("items")
            table.put(table.keys({"k": numbers}), {"v": numbers})
            transaction.commit()
        snapshot = commit(store, 1, {5: -5}, deletes=[6, 69_999], schema=schema)
        with self.open([schema], snapshots=[snapshot]).begin(2, now_ms=0) as transaction:
            table = transaction.table("items")
            lookup = table.get(table.keys({"k": numbers}))
            expected = np.arange(rows)
            expected[5] = -5
            assert np.flatnonzero(~lookup.found).tolist() == [6, 69_999]
            found = lookup.values.column(0).drop_null().to_numpy()
            assert found.tolist() == np.delete(expected, [6, 69_999]).tolist()
            assert sum(len(batch) for batch in table.scan()) == rows - 2


class RefusalConformance(StateSuite):
    """State is only opened as what it is."""

    def test_another_backend_is_refused(self) -> None:
        """State that another backend wrote is refused, and both are named."""
        snapshot = commit(self.open([ITEMS]), 0, {1: "a"})
        with pytest.raises(StateMismatch, match=r"'other'.*opened with"):
            self.open([ITEMS], snapshots=[replace(snapshot, backend="other")])

    @pytest.mark.parametrize(
        ("other", "what"),
        [
            (single(key=pa.int32()), "key columns k int64"),
            (single(value=pa.binary()), "value columns v string"),
            (
                TableSchema(
                    "items",
                    pa.schema([("k", pa.int64())]),
                    pa.schema([("v", pa.string()), ("w", pa.string())]),
                    hashes=HOLDFAST_HASHES,
                ),
                "value columns v string",
            ),
            (
                TableSchema(
                    "items",
                    pa.schema([("key", pa.int64())]),
                    pa.schema([("v", pa.string())]),
                    hashes=HOLDFAST_HASHES,
                ),
                "key columns k int64",
            ),
            (replace(ITEMS, hashes=SPARK_HASHES), "hashes"),
        ],
        ids=["key type", "value type", "more columns", "key name", "hashes"],
    )
    def test_another_schema_is_refused(self, other: TableSchema, what: str) -> None:
        """A table declared otherwise than it was stored is refused, and both ways are named."""
        snapshot = commit(self.open([ITEMS]), 0, {1: "a"})
        with pytest.raises(StateMismatch, match=f"Table items was stored with the {what}"):
            self.open([other], snapshots=[snapshot])
        assert look(self.open([ITEMS], snapshots=[snapshot])) == rows_of({1: "a"})

    def test_an_undeclared_table_is_refused_unless_dropped(self) -> None:
        """A stored table must be declared or dropped; a dropped one is gone for good."""
        other = single("other")
        store = self.open([ITEMS, other])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, {1: "a"})
            put(transaction, {1: "b"}, other)
            snapshot = transaction.commit()
        with pytest.raises(StateMismatch, match=r"'other'.*not declared"):
            self.open([ITEMS], snapshots=[snapshot])
        dropped = self.open([ITEMS], snapshots=[snapshot], drop=["other"])
        assert look(dropped) == rows_of({1: "a"})
        last = snapshot
        for epoch in range(1, 5):
            last = commit(dropped, epoch, {epoch + 1: "a"})
        expected = rows_of(dict.fromkeys(range(1, 6), "a"))
        assert look(self.open([ITEMS], snapshots=[last])) == expected
        both = self.open([ITEMS, other], snapshots=[last])
        assert look(both) == expected
        assert look(both, other) == {}

    def test_a_new_table_begins_empty(self) -> None:
        """A table that the checkpoint does not have can be declared and used."""
        other = single("other")
        snapshot = commit(self.open([ITEMS]), 0, {1: "a"})
        store = self.open([other, ITEMS], snapshots=[snapshot])
        assert look(store, other) == {}
        last = commit(store, 1, {1: "b"}, schema=other)
        assert self.values(last) == rows_of({1: "a"})
        assert self.values(last, "other") == rows_of({1: "b"})
        again = self.open([ITEMS, other], snapshots=[last])
        assert look(again) == rows_of({1: "a"})
        assert look(again, other) == rows_of({1: "b"})

    def test_tables_come_and_go(self) -> None:
        """Tables may be added, dropped and added again between any two epochs."""
        tables = {name: single(name) for name in ("first", "second", "third")}
        declared = [["first"]] * 5 + [["first", "second"]] * 2 + [["second"]] * 2
        declared += [["third", "second"]] * 4 + [["first", "third"]] * 5
        # Dropped for one epoch only, at every distance from a checkpoint of a changelog.
        declared += [["first"], ["first", "third"], ["third"], *[["first", "third"]] * 2] * 4
        model: dict[str, dict[int, str]] = {}
        snapshots: list[Snapshot] = []
        for epoch, names in enumerate(declared):
            model = {name: model.get(name, {}) for name in names}
            store = self.open(
                [tables[name] for name in names], snapshots=snapshots, drop=list(tables)
            )
            with store.begin(epoch, now_ms=0) as transaction:
                for name in names:
                    assert scan(transaction, tables[name]) == rows_of(model[name])
                    put(transaction, {epoch: f"{name} {epoch}"}, tables[name])
                    model[name][epoch] = f"{name} {epoch}"
                    delete(transaction, [epoch - 3], tables[name])
                    model[name].pop(epoch - 3, None)
                snapshots = [transaction.commit()]
            store.close()
            for name in names:
                assert self.values(snapshots[0], name) == rows_of(model[name])

    def test_an_unknown_table_is_refused(self) -> None:
        """A table that was not declared cannot be used, and the declared ones are named."""
        with (
            self.open([ITEMS]).begin(0, now_ms=0) as transaction,
            pytest.raises(StateMismatch, match=r"(?s)'nothing'.*items"),
        ):
            transaction.table("nothing")

    def test_an_unknown_format_is_refused(self) -> None:
        """A snapshot described by another version is refused before anything is read."""
        document = commit(self.open([ITEMS]), 0, {1: "a"}).document()
        for version in (None, 0, 2, "1"):
            with pytest.raises(StateFormatMismatch, match="format"):
                Snapshot.from_document({**document, "format": version})

    def test_a_missing_file_is_named(self) -> None:
        """State of which a file is missing is refused by the file's name, whichever it is."""
        store = self.open([ITEMS])
        for epoch in range(5):
            snapshot = commit(store, epoch, {epoch: "x" * 100})
        for file in snapshot.files:
            path = self.place / file.name
            content = path.read_bytes()
            path.unlink()
            with pytest.raises(StateDamaged, match=f"{file.name} is damaged: it is missing"):
                self.open([ITEMS], snapshots=[snapshot])
            path.write_bytes(content)
        expected = rows_of(dict.fromkeys(range(5), "x" * 100))
        assert look(self.open([ITEMS], snapshots=[snapshot])) == expected

    def test_an_attempt_never_overwrites(self) -> None:
        """An attempt that does an epoch again under the same name destroys nothing."""
        start = commit(self.open([ITEMS], attempt="start"), 0, {1: "a"})
        done = commit(self.open([ITEMS], snapshots=[start], attempt="same"), 1, {1: "b"})
        again = self.open([ITEMS], snapshots=[start])
        again.close()
        try:
            with self.open([ITEMS], snapshots=[start], attempt="same") as second:
                other = commit(second, 1, {1: "c"})
                assert self.values(other) == rows_of({1: "c"})
        except StateError as error:
            assert "same" in error.message  # noqa: PT017 - both outcomes are fine
        self.verify(done)
        assert self.values(done) == rows_of({1: "b"})


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


class ChangelogConformance(StateSuite):
    """What holds of epochs holds as well between two checkpoints of the backend inside."""

    def test_an_epoch_costs_what_it_changes(self) -> None:
        """Small epochs over a large state write little, in most of them at least."""
        store = self.open([ITEMS])
        chance = np.random.default_rng(5)
        whole = commit(store, 0, {key: chance.bytes(100).hex() for key in range(3000)})
        for epoch in range(1, 3):
            whole = commit(store, epoch, {epoch: "x"})
        costs = [commit(store, epoch, {epoch: "y"}).new_bytes for epoch in range(3, 15)]
        if whole.backend.startswith("heap") and "changelog" not in whole.backend:
            assert min(costs) > 200_000  # it keeps nothing but whole tables
        else:
            assert sorted(costs)[len(costs) // 2] < 20_000

    def test_replay_after_every_epoch(self) -> None:
        """A store reopened after every epoch is the same as one that goes on."""
        model: dict[int, str] = {}
        snapshots: list[Snapshot] = []
        for epoch in range(10):
            store = self.open([ITEMS], snapshots=snapshots)
            puts = dict.fromkeys(range(epoch, epoch + 6), f"{epoch}")
            deletes = list(range(0, epoch, 2))
            snapshots = [commit(store, epoch, puts, deletes)]
            store.close()
            model = {key: value for key, value in model.items() if key not in deletes} | puts
            assert self.values(snapshots[0]) == rows_of(model)
        assert look(self.open([ITEMS], snapshots=snapshots)) == rows_of(model)


def _partition_hash(key: int) -> int:
    return int(colliding()([(key,)]).partition[0])


def _lives(key: int, partition: Partition) -> bool:
    return _partition_hash(key) % partition.count == partition.index
