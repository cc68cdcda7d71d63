"""State written under any number of partitions opens under any other."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast.state import (
    HOLDFAST_HASHES,
    Partition,
    Snapshot,
    Store,
    TableSchema,
    open_store,
)
from holdfast.state.collections import ListState, MapState
from holdfast.state.hashing import lookup_hashes, partition_hashes
from holdfast.state.snapshot import sources
from holdfast.state.timers import Timers

MOST = 64
NUMBERS = TableSchema(
    "numbers",
    key=pa.schema([("k", pa.int64())]),
    value=pa.schema([("v", pa.int64())]),
    hashes=HOLDFAST_HASHES,
)
KEYS = np.arange(300)
HASHES = partition_hashes(lookup_hashes((pa.array(KEYS),)))

KINDS = [
    backend + changelog for backend in ("arrow", "heap", "rocksdb") for changelog in ("", "+log")
]

Model = Mapping[int, int]


def opened(
    path: Path,
    partition: Partition,
    snapshots: Sequence[Snapshot] = (),
    kind: str = "arrow",
    tables: Sequence[TableSchema] = (NUMBERS,),
) -> Store:
    """Open one partition of a state."""
    backend, _, changelog = kind.partition("+")
    return open_store(
        path,
        tables,
        partition=partition,
        snapshots=snapshots,
        backend=backend,
        changelog=bool(changelog),
        materialize_every=3,
    )


def own(keys: Iterable[int], partition: Partition) -> list[int]:
    """Return the keys that Spark's shuffle would bring to a partition."""
    return [key for key in keys if int(HASHES[key]) % partition.count == partition.index]


def write(store: Store, epoch: int, puts: Model, deletes: Iterable[int] = ()) -> Snapshot:
    """Write what belongs to a partition in an epoch."""
    mine = own(puts, store.backend.partition)
    gone = own(deletes, store.backend.partition)
    with store.begin(epoch, now_ms=0) as transaction:
        table = transaction.table("numbers")
        table.delete(table.keys({"k": pa.array(gone, pa.int64())}))
        values = pa.array([puts[key] for key in mine], pa.int64())
        table.put(table.keys({"k": pa.array(mine, pa.int64())}), {"v": values})
        return transaction.commit()


def content(store: Store) -> dict[int, int]:
    """Return what a partition holds by a scan, having seen that look-ups say the same."""
    found: dict[int, int] = {}
    keys = own(KEYS.tolist(), store.backend.partition)
    with store.begin(store.epoch + 1, now_ms=0) as transaction:
        table = transaction.table("numbers")
        for batch in table.scan():
            found.update(zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True))
        lookup = table.get(table.keys({"k": pa.array(keys, pa.int64())}))
    values = lookup.values["v"].to_pylist()
    looked_up = {k: v for k, v, there in zip(keys, values, lookup.found, strict=True) if there}
    assert looked_up == found
    return found


def check(path: Path, snapshots: Sequence[Snapshot], partition: Partition, model: Model) -> None:
    """See that a partition holds exactly its keys."""
    with opened(path, partition, snapshots, snapshots[0].backend.replace("changelog", "log")) as it:
        assert content(it) == {key: model[key] for key in own(model, partition)}


def written(
    path: Path, count: int, *, epochs: int = 1, kind: str = "arrow"
) -> list[tuple[list[Snapshot], dict[int, int]]]:
    """Write some epochs under a number of partitions; return each epoch's snapshots and rows."""
    stores = [opened(path, Partition(index, count), kind=kind) for index in range(count)]
    model: dict[int, int] = {}
    result = []
    for epoch in range(epochs):
        puts = {key: key * 1000 + epoch for key in KEYS[epoch :: epoch + 1].tolist()}
        deletes = KEYS[epoch * 3 :: 7].tolist() if epoch else []
        snapshots = [write(store, epoch, puts, deletes) for store in stores]
        model = {key: value for key, value in model.items() if key not in deletes} | puts
        result.append((snapshots, dict(model)))
    for store in stores:
        store.close()
    return result


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, list[Snapshot]]]:
    """The same state, written under every number of partitions."""
    result = {}
    for count in range(1, MOST + 1):
        path = tmp_path_factory.mktemp(f"under-{count}")
        ((snapshots, model),) = written(path, count)
        assert len(model) == len(KEYS)
        result[count] = (path, snapshots)
    return result


MODEL = {key: key * 1000 for key in KEYS.tolist()}


def test_every_number_under_every_other(
    everywhere: dict[int, tuple[Path, list[Snapshot]]],
) -> None:
    """All 4096 combinations open; of each, one partition is compared row by row."""
    chance = random.Random(64)
    for path, snapshots in everywhere.values():
        for after in range(1, MOST + 1):
            check(path, snapshots, Partition(chance.randrange(after), after), MODEL)


def test_every_key_is_found_under_every_other_number(
    everywhere: dict[int, tuple[Path, list[Snapshot]]],
) -> None:
    """In all 4096 combinations, every key's partition opens the snapshot that the key is in."""
    for before, (_, snapshots) in everywhere.items():
        home = HASHES % before
        for after in range(1, MOST + 1):
            known = np.zeros((after, before), np.bool_)
            for index in range(after):
                for snapshot in sources(snapshots, Partition(index, after)):
                    known[index, snapshot.partition.index] = True
            assert known[HASHES % after, home].all()


def test_whole_states_under_few_partitions(tmp_path: Path) -> None:
    """With updates and deletions, the union of all partitions is the whole state."""
    for before in range(1, 9):
        path = tmp_path / str(before)
        for snapshots, model in written(path, before, epochs=3):
            for after in range(1, 9):
                for index in range(after):
                    check(path, snapshots, Partition(index, after), model)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_every_partition_of_every_number_under_every_other(
    everywhere: dict[int, tuple[Path, list[Snapshot]]],
) -> None:
    """All partitions of all 4096 combinations are compared row by row."""
    for path, snapshots in everywhere.values():
        for after in range(1, MOST + 1):
            for index in range(after):
                check(path, snapshots, Partition(index, after), MODEL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (3, 5), (6, 4), (4, 4), (2, 6)])
def test_every_backend(tmp_path: Path, kind: str, before: int, after: int) -> None:
    """Every backend opens any epoch under another number, merged, logged or not."""
    for snapshots, model in written(tmp_path, before, epochs=5, kind=kind):
        for index in range(after):
            check(tmp_path, snapshots, Partition(index, after), model)


@pytest.mark.parametrize("kind", KINDS)
def test_again_and_again(tmp_path: Path, kind: str) -> None:
    """A state may change its number of partitions at every epoch, and go back to older ones."""
    kept = written(tmp_path, 3, epochs=2, kind=kind)
    for epoch, count in enumerate((5, 2, 2, 1, 4, 3, 6), start=2):
        before, model = kept[-1]
        stores = [opened(tmp_path, Partition(n, count), before, kind) for n in range(count)]
        puts = {key: key * 1000 + epoch for key in KEYS[epoch::11].tolist()}
        deletes = KEYS[epoch::13].tolist()
        snapshots = [write(store, epoch, puts, deletes) for store in stores]
        model = {key: value for key, value in model.items() if key not in deletes} | puts
        kept.append((snapshots, model))
        for store, snapshot in zip(stores, snapshots, strict=True):
            mine = {key: model[key] for key in own(model, store.backend.partition)}
            assert content(store) == mine
            store.close()
            if len(before) != count:
                foreign = {file.name for one in before for file in one.files}
                assert not foreign & {file.name for file in snapshot.files}
    for snapshots, model in kept:
        for count in (1, 3):
            for index in range(count):
                check(tmp_path, snapshots, Partition(index, count), model)


@pytest.mark.parametrize("kind", KINDS)
def test_twice_without_a_change(tmp_path: Path, kind: str) -> None:
    """Rescaling twice in a row, with empty epochs in between, moves every key and loses none."""
    ((snapshots, model),) = written(tmp_path, 4, kind=kind)
    for epoch, count in enumerate((6, 3, 4), start=1):
        stores = [opened(tmp_path, Partition(n, count), snapshots, kind) for n in range(count)]
        snapshots = [write(store, epoch, {}) for store in stores]
        for store in stores:
            store.close()
    for index in range(4):
        check(tmp_path, snapshots, Partition(index, 4), model)


@pytest.mark.parametrize("kind", KINDS)
def test_lists_maps_and_timers_move_with_their_key(tmp_path: Path, kind: str) -> None:
    """Everything a key owns is in the key's partition, before and after a rescale."""
    owner = pa.schema([("user", pa.int64())])
    value = pa.schema([("v", pa.int64())])
    tables = [
        ListState.schema_of("lists", owner, value, hashes=HOLDFAST_HASHES),
        MapState.schema_of("maps", owner, pa.string(), value, hashes=HOLDFAST_HASHES),
        Timers.schema_of("timers", owner, hashes=HOLDFAST_HASHES),
    ]
    users = list(range(60))
    snapshots = []
    for index in range(3):
        partition = Partition(index, 3)
        mine = {"user": pa.array(own(users, partition), pa.int64())}
        numbers = np.asarray(mine["user"])
        with (
            opened(tmp_path, partition, kind=kind, tables=tables) as store,
            store.begin(0, now_ms=0) as transaction,
        ):
            lists, maps = ListState(transaction, "lists"), MapState(transaction, "maps")
            timers = Timers(transaction, "timers")
            for times in (1, 2):
                lists.append(lists.owners(mine), {"v": numbers * times})
                entries = pa.array([f"{times}"] * len(numbers))
                maps.put(maps.owners(mine), entries, {"v": numbers * times})
                timers.set(timers.owners(mine), numbers * 1000 * times)
            snapshots.append(transaction.commit())
    for index in range(5):
        partition = Partition(index, 5)
        mine = own(users, partition)
        with (
            opened(tmp_path, partition, snapshots, kind, tables) as store,
            store.begin(1, now_ms=0) as transaction,
        ):
            lists, maps = ListState(transaction, "lists"), MapState(transaction, "maps")
            batch = {"user": pa.array(mine, pa.int64())}
            elements = lists.items(lists.owners(batch))
            wanted = [(n, user * times) for n, user in enumerate(mine) for times in (1, 2)]
            found = zip(elements.owner.tolist(), elements.values["v"].to_pylist(), strict=True)
            assert list(found) == wanted
            entries = maps.items(maps.owners(batch))
            found = zip(entries.owner.tolist(), entries.values["v"].to_pylist(), strict=True)
            assert sorted(found) == wanted
            due = {
                (user, time)
                for some in Timers(transaction, "timers").due(10**9)
                for user, time in zip(some.owners.columns[0].to_pylist(), some.due_us, strict=True)
            }
            assert due == {(user, user * 1000 * times) for user in mine for times in (1, 2)}
