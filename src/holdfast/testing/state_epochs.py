"""Conformance of keyed state: checkpoints, and what they cost."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from holdfast.state import Directory, Snapshot
from holdfast.state.catalogue import Catalogue
from holdfast.testing.state_suite import ITEMS, StateSuite, commit, look, rows_of, single


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


class CostConformance(StateSuite):
    """What a checkpoint writes, next to what an epoch changed."""

    def test_an_epoch_costs_what_it_changes(self) -> None:
        """Small epochs over a large state write little, in most of them at least."""
        store = self.open([ITEMS])
        chance = np.random.default_rng(5)
        commit(store, 0, {key: chance.bytes(100).hex() for key in range(3000)})
        for epoch in range(1, 3):
            commit(store, epoch, {epoch: "x"})
        costs = [commit(store, epoch, {epoch: "y"}).new_bytes for epoch in range(3, 15)]
        if self.writes_whole_tables:
            assert min(costs) > 200_000
        else:
            assert sorted(costs)[len(costs) // 2] < 20_000
