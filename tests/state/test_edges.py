"""Where callers, retention and files meet the engine: nothing is lost at the edges."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast import state
from holdfast.errors import StateClosed, StateDamaged, StateMismatch
from holdfast.state import (
    HOLDFAST_HASHES,
    SPARK_HASHES,
    TTL,
    Catalogue,
    Directory,
    Hashes,
    Hits,
    Keys,
    ListState,
    Partition,
    Rows,
    Snapshot,
    Store,
    TableSchema,
    Timers,
    open_store,
    seal_savepoint,
    tables,
)
from holdfast.state.backends.heap import HeapBackend

USER = pa.schema([("user", pa.int64())])
TOTALS = TableSchema("totals", USER, pa.schema([("n", pa.int64())]), hashes=HOLDFAST_HASHES)
PAGES = ListState.schema_of(
    "pages", USER, pa.schema([("page", pa.string())]), hashes=HOLDFAST_HASHES
)
ALARMS = Timers.schema_of("alarms", USER, hashes=HOLDFAST_HASHES)


def put(store: Store, epoch: int, rows: dict[int, int], now_ms: int = 0) -> Snapshot:
    """Write some users' numbers in an epoch of their own."""
    with store.begin(epoch, now_ms=now_ms) as transaction:
        table = transaction.table("totals")
        table.put(table.keys({"user": list(rows)}), {"n": list(rows.values())})
        return transaction.commit()


def content(store: Store, now_ms: int = 0) -> dict[int, int]:
    """Everything in the table of totals."""
    with store.begin(store.epoch + 1, now_ms=now_ms) as transaction:
        pieces = list(transaction.table("totals").scan())
    return {row["user"]: row["n"] for piece in pieces for row in piece.to_pylist()}


def test_a_reused_buffer_changes_nothing_that_was_put(tmp_path: Path) -> None:
    """A caller may write the next batch into the arrays of the last one."""
    users, numbers = np.zeros(1, np.int64), np.zeros(1, np.int64)
    with open_store(tmp_path, [TOTALS]) as store, store.begin(0, now_ms=0) as transaction:
        table = transaction.table("totals")
        for number in range(3):
            users[0], numbers[0] = number, number * 10
            table.put(table.keys({"user": users}), {"n": numbers})
        snapshot = transaction.commit()
    with open_store(tmp_path, [TOTALS], snapshots=[snapshot]) as store:
        assert content(store) == {0: 0, 1: 10, 2: 20}


def test_reused_hashes_and_times_change_nothing(tmp_path: Path) -> None:
    """The same holds for hashes and for the times of timers."""
    spark = TableSchema("totals", USER, pa.schema([("n", pa.int64())]))
    lookup, partition = np.zeros(1, np.int64), np.zeros(1, np.int32)
    due = np.array([1_000_000], np.int64)
    with open_store(tmp_path, [spark, ALARMS]) as store:
        with store.begin(0, now_ms=0) as transaction:
            table, timers = transaction.table("totals"), Timers(transaction, "alarms")
            for number in range(3):
                lookup[0] = number + 100
                keys = table.keys({"user": [number]}, Hashes.of(lookup, partition))
                table.put(keys, {"n": [number]})
                timers.set(timers.owners({"user": [number]}), due)
                due += 1_000_000
            transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            table, timers = transaction.table("totals"), Timers(transaction, "alarms")
            for number in range(3):
                hashes = Hashes.of([number + 100], [0])
                assert table.get(table.keys({"user": [number]}, hashes)).found.all()
            times = [time for due_now in timers.due(10**9) for time in due_now.due_us.tolist()]
            assert times == [1_000_000, 2_000_000, 3_000_000]


def test_a_refused_list_stays_as_it_was(tmp_path: Path) -> None:
    """Replacing a list by values of another type is refused before the list is cleared."""
    with open_store(tmp_path, [PAGES]) as store:
        with store.begin(0, now_ms=0) as transaction:
            pages = ListState(transaction, "pages")
            pages.append(pages.owners({"user": [1]}), {"page": ["/"]})
            with pytest.raises(StateMismatch):
                pages.replace(pages.owners({"user": [1]}), {"page": [5]})
            pages.replace(pages.owners({"user": [2]}), {"page": ["/new"]})
            transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            pages = ListState(transaction, "pages")
            found = pages.items(pages.owners({"user": [1, 2]}))
            assert found.values["page"].to_pylist() == ["/", "/new"]


def test_an_epoch_is_kept_whole(tmp_path: Path) -> None:
    """Keeping one partition of two would forget the other's files, and is refused."""
    catalogue = Catalogue(Directory(tmp_path))
    with open_store(tmp_path, [TOTALS], partition=Partition(0, 2)) as store:
        snapshot = store.begin(0, now_ms=0).commit()
    with pytest.raises(StateMismatch, match=r"partitions \[0\]"):
        catalogue.keep([snapshot])


def test_collecting_leaves_alone_what_is_not_the_engines(tmp_path: Path) -> None:
    """Savepoints and files of other names in the directory survive a collection."""
    catalogue = Catalogue(Directory(tmp_path))
    with open_store(tmp_path, [TOTALS]) as store:
        catalogue.keep([put(store, 0, {1: 1})])
        seal_savepoint(tmp_path / "savepoint", [store.write_savepoint(tmp_path / "savepoint")])
    (tmp_path / "README.txt").write_text("mine")
    (tmp_path / "epochs" / "1 (copy).json").write_text("{}")
    assert catalogue.collect() == []
    assert catalogue.epochs() == [0]
    with open_store(tmp_path / "new", [TOTALS], savepoint=tmp_path / "savepoint") as store:
        assert content(store) == {1: 1}
    assert (tmp_path / "README.txt").read_text() == "mine"


@pytest.mark.parametrize("backend", ["arrow", "heap"])
@pytest.mark.parametrize("changelog", [False, True])
def test_a_snapshot_never_names_a_file_that_was_removed(
    tmp_path: Path, backend: str, changelog: bool
) -> None:
    """If somebody expired the files a store stands on, the commit fails instead of the restart."""
    with open_store(tmp_path, [TOTALS], backend=backend, changelog=changelog) as store:
        first = put(store, 0, dict.fromkeys(range(100), 0))
        for file in first.files:
            (tmp_path / file.name).unlink()
        with pytest.raises(StateDamaged, match="missing"):
            store.begin(1, now_ms=0).commit()


def test_a_run_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    """Two files of equal size and columns whose contents were exchanged are not accepted."""
    with open_store(tmp_path, [TOTALS]) as store:
        put(store, 0, dict.fromkeys(range(100), 0))
        put(store, 1, {1: 1})
        snapshot = put(store, 2, {1: 2})
    one, other = (tmp_path / file.name for file in snapshot.files[-2:])
    first, second = one.read_bytes(), other.read_bytes()
    assert len(first) == len(second)
    one.write_bytes(second)
    other.write_bytes(first)
    with pytest.raises(StateDamaged, match="not the one that the snapshot names"):
        open_store(tmp_path, [TOTALS], snapshots=[snapshot])


def test_keys_of_another_partition_are_not_answered(tmp_path: Path) -> None:
    """A key that belongs elsewhere is refused by a look-up too, right after a rescale."""
    with open_store(tmp_path, [TOTALS]) as store:
        snapshot = put(store, 0, {user: user for user in range(50)})
    with open_store(tmp_path, [TOTALS], partition=Partition(0, 3), snapshots=[snapshot]) as store:
        table = store.begin(1, now_ms=0).table("totals")
        with pytest.raises(StateMismatch, match="do not belong to partition 0 of 3"):
            table.get(table.keys({"user": list(range(50))}))


@pytest.mark.parametrize("backend", ["arrow", "heap", "rocksdb"])
def test_a_ttl_that_comes_back_finds_the_stamps(tmp_path: Path, backend: str) -> None:
    """Opened without its TTL in between, a table still knows when its rows were touched."""
    ttl = {"totals": TTL(1000)}

    def opened(snapshot: Snapshot | None, **options: Any) -> Store:
        snapshots = [snapshot] if snapshot else []
        return open_store(tmp_path, [TOTALS], backend=backend, snapshots=snapshots, **options)

    with opened(None, ttl=ttl) as store:
        first = put(store, 0, {1: 1, 2: 2}, now_ms=0)
    with opened(first) as store:
        second = put(store, 1, {2: 3}, now_ms=900)
    with opened(second, ttl=ttl) as store:
        assert content(store, now_ms=999) == {1: 1, 2: 3}
        assert content(store, now_ms=1000) == {2: 3}
        assert content(store, now_ms=1900) == {}


def test_stamps_survive_a_savepoint_opened_without_its_ttl(tmp_path: Path) -> None:
    """The same holds for a savepoint on the way."""
    ttl = {"totals": TTL(1000)}
    with open_store(tmp_path / "old", [TOTALS], ttl=ttl) as store:
        put(store, 0, {1: 1}, now_ms=0)
        seal_savepoint(tmp_path / "savepoint", [store.write_savepoint(tmp_path / "savepoint")])
    with open_store(tmp_path / "new", [TOTALS], savepoint=tmp_path / "savepoint") as store:
        snapshot = put(store, 1, {2: 2}, now_ms=900)
    with open_store(tmp_path / "new", [TOTALS], snapshots=[snapshot], ttl=ttl) as store:
        assert content(store, now_ms=1000) == {2: 2}


def test_a_ttl_may_be_written_in_words(tmp_path: Path) -> None:
    """`restart` takes the words of the configuration, and no others."""
    ttl = {"totals": TTL(100, restart="on_read_write")}  # type: ignore[arg-type]
    with open_store(tmp_path, [TOTALS], ttl=ttl) as store:
        put(store, 0, {1: 1}, now_ms=0)
        with store.begin(1, now_ms=90) as transaction:
            table = transaction.table("totals")
            assert table.get(table.keys({"user": [1]})).found.all()
            transaction.commit()
        assert content(store, now_ms=150) == {1: 1}
    with pytest.raises(StateMismatch, match="sometimes"):
        TTL(100, restart="sometimes")  # type: ignore[arg-type]
    with pytest.raises(StateMismatch, match=r"1\.5"):
        TTL(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["arrow", "heap", "rocksdb"])
def test_a_closed_backend_answers_nothing(tmp_path: Path, backend: str) -> None:
    """After it was closed, a backend refuses instead of saying that nothing is there."""
    store = open_store(tmp_path, [TOTALS], backend=backend)
    put(store, 0, {1: 1})
    store.close()
    keys = Keys.of(TOTALS, {"user": [1]})
    with pytest.raises(StateClosed):
        store.backend.get("totals", keys)
    with pytest.raises(StateClosed):
        store.backend.write({"totals": Rows.of(keys, (pa.array([2]),))})
    with pytest.raises(StateClosed):
        store.backend.checkpoint(1)
    store.close()


def test_a_store_takes_a_backend_of_ones_own(tmp_path: Path) -> None:
    """A class that implements the contract is used like those that come along."""

    class Counting(HeapBackend):
        name = "counting"
        asked = 0

        def get(self, table: str, keys: Keys) -> Hits:
            Counting.asked += len(keys)
            return super().get(table, keys)

    with open_store(tmp_path, [TOTALS], backend=Counting) as store:
        snapshot = put(store, 0, {1: 1})
        table = store.begin(1, now_ms=0).table("totals")
        assert table.get(table.keys({"user": [1, 2]})).found.tolist() == [True, False]
    assert Counting.asked == 2
    assert snapshot.backend == "counting"


def test_the_examples_in_docstrings_hold() -> None:
    """Every doctest of the package is true."""
    tested = 0
    for found in pkgutil.walk_packages(state.__path__, "holdfast.state."):
        result = doctest.testmod(importlib.import_module(found.name))
        assert result.failed == 0, found.name
        tested += result.attempted
    assert tested > 3


def test_parts_of_different_epochs_are_no_savepoint(tmp_path: Path) -> None:
    """A savepoint is one moment of all partitions."""
    parts = []
    for index in range(2):
        with open_store(tmp_path, [TOTALS], partition=Partition(index, 2)) as store:
            store.begin(index, now_ms=0).commit()
            parts.append(store.write_savepoint(tmp_path / "savepoint"))
    with pytest.raises(StateMismatch, match="different epochs"):
        seal_savepoint(tmp_path / "savepoint", parts)


def test_a_damaged_old_epoch_does_not_stop_retention(tmp_path: Path) -> None:
    """An epoch that is to go may be unreadable; its files are collected instead."""
    catalogue = Catalogue(Directory(tmp_path))
    with open_store(tmp_path, [TOTALS], backend="heap") as store:
        for epoch in range(3):
            catalogue.keep([put(store, epoch, {1: epoch})])
    (tmp_path / "epochs" / "0.json").write_text("nonsense")
    assert len(catalogue.expire(keep=[2])) == 1
    assert catalogue.epochs() == [2]
    assert len(catalogue.collect()) == 1
    with open_store(tmp_path, [TOTALS], backend="heap", snapshots=catalogue.snapshots()) as store:
        assert content(store) == {1: 2}


def test_nothing_is_left_of_what_was_never_committed(tmp_path: Path) -> None:
    """Runs that were spilled or replayed, and that no snapshot came to name, are removed."""
    options: dict[str, Any] = {"options": {"pending_bytes": 1}, "changelog": True}
    with open_store(tmp_path, [TOTALS], **options) as store:
        snapshot = put(store, 0, {user: user for user in range(100)})
    for _ in range(3):
        with open_store(tmp_path, [TOTALS], snapshots=[snapshot], **options) as store:
            assert len(content(store)) == 100
    left = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert left == {file.name for file in snapshot.files}


def test_large_pieces_are_cut_to_what_32_bits_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan gives text in as many batches as its declared type needs."""
    monkeypatch.setattr(tables, "_REACH_BYTES", 10_000)
    texts = TableSchema("totals", USER, pa.schema([("n", pa.string())]), hashes=HOLDFAST_HASHES)
    with open_store(tmp_path, [texts]) as store, store.begin(0, now_ms=0) as transaction:
        table = transaction.table("totals")
        words = [f"{user:0100}" for user in range(500)]
        table.put(table.keys({"user": list(range(500))}), {"n": words})
        pieces = list(table.scan())
    assert len(pieces) > 5
    rows = [row for piece in pieces for row in piece.to_pylist()]
    assert sorted(row["n"] for row in rows) == words


def test_a_crowd_under_one_hash_is_told_apart(tmp_path: Path) -> None:
    """Thousands of keys that share one hash are found, changed and removed, epoch after epoch."""
    key = pa.schema([("name", pa.string()), ("part", pa.int32())])
    schema = TableSchema("totals", key, pa.schema([("n", pa.int64())]))
    names = [None if number % 50 == 0 else f"name {number}" for number in range(3000)]
    parts = list(range(3000))

    def batch(numbers: range) -> tuple[dict[str, Any], Hashes]:
        columns = {
            "name": pa.array([names[number] for number in numbers], pa.string()),
            "part": pa.array([parts[number] for number in numbers], pa.int32()),
        }
        count = len(numbers)
        return columns, Hashes(np.full(count, 7, np.int64), np.zeros(count, np.int32))

    expected: dict[int, int] = {}
    with open_store(tmp_path, [schema]) as store:
        for epoch in range(6):
            numbers = range(epoch * 300, epoch * 300 + 1500)
            with store.begin(epoch, now_ms=0) as transaction:
                table = transaction.table("totals")
                keys = table.keys(*batch(numbers))
                known = table.get(keys)
                assert known.found.tolist() == [number in expected for number in numbers]
                wanted = [expected.get(number) for number in numbers]
                assert known.values["n"].to_pylist() == wanted
                table.put(keys, {"n": [number * 10 + epoch for number in numbers]})
                gone = range(epoch * 300, epoch * 300 + 100)
                table.delete(table.keys(*batch(gone)))
                transaction.commit()
            expected |= {number: number * 10 + epoch for number in numbers}
            for number in gone:
                del expected[number]


def _other_table(store: Store) -> None:
    transaction = store.begin(0, now_ms=0)
    keys = transaction.table("totals").keys({"user": [1]})
    transaction.table("alarms").get(keys)


def _keys_hashed_otherwise(store: Store) -> None:
    spark = replace(TOTALS, hashes=SPARK_HASHES)
    keys = Keys.of(spark, {"user": [1]}, Hashes.of([1], [1]))
    store.begin(0, now_ms=0).table("totals").put(keys, {"n": [1]})


def _one_text(store: Store) -> None:
    table = store.begin(0, now_ms=0).table("totals")
    table.keys({"user": "chai"})


def _late_timer(store: Store) -> None:
    timers = Timers(store.begin(0, now_ms=0), "alarms")
    timers.set(timers.owners({"user": [1]}), np.array([2**63], np.uint64))  # type: ignore[arg-type]


MISTAKES: dict[str, Callable[[Store], object]] = {
    "an epoch of text": lambda store: store.begin("0", now_ms=0),  # type: ignore[arg-type]
    "an epoch beyond 31 bits": lambda store: store.begin(2**31, now_ms=0),
    "a time of fractions": lambda store: store.begin(0, now_ms=0.5),  # type: ignore[arg-type]
    "a time beyond 62 bits": lambda store: store.begin(0, now_ms=2**63),
    "keys of another table": _other_table,
    "keys hashed otherwise": _keys_hashed_otherwise,
    "a batch in the place of keys": lambda store: (
        store.begin(0, now_ms=0).table("totals").get({"user": [1]})
    ),  # type: ignore[arg-type]
    "hashes as a pair": lambda store: Keys.of(
        replace(TOTALS, hashes=SPARK_HASHES),
        {"user": [1]},
        ([1], [1]),  # type: ignore[arg-type]
    ),
    "hashes of nobody": lambda store: replace(TOTALS, hashes="holdfast"),
    "a list in the table of timers": lambda store: ListState(store.begin(0, now_ms=0), "alarms"),
    "timers in a table of totals": lambda store: Timers(store.begin(0, now_ms=0), "totals"),
    "an epoch before the first": lambda store: store.begin(-1, now_ms=0),
    "keys of a table that has none of its own": lambda store: (
        store.begin(0, now_ms=0).table("alarms").keys({"user": [1]})
    ),
    "a text in the place of a column": _one_text,
    "a timer beyond 63 bits": _late_timer,
    "a column that may not be null any more": lambda store: TableSchema(
        "totals", pa.schema([pa.field("user", pa.int64(), nullable=False)]), TOTALS.value
    ).refuse_other(replace(TOTALS, hashes="spark:hash+xxhash64")),
    "a list in the place of a schema": lambda store: TableSchema(
        "other",
        [("user", pa.int64())],  # type: ignore[arg-type]
        TOTALS.value,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained(tmp_path: Path, mistake: str) -> None:
    """What a caller got wrong is refused with what to do, never with a foreign error."""
    with open_store(str(tmp_path), [TOTALS, ALARMS]) as store:
        with pytest.raises(StateMismatch) as refusal:
            MISTAKES[mistake](store)
        assert refusal.value.hint


def test_a_store_is_not_opened_with_nonsense(tmp_path: Path) -> None:
    """Unknown options, a TTL on timers, and a savepoint that is not there are refused."""
    with pytest.raises(StateMismatch, match="colour"):
        open_store(tmp_path, [TOTALS], options={"colour": "red"})
    with pytest.raises(StateMismatch, match="take no TTL"):
        open_store(tmp_path, [ALARMS], ttl={"alarms": TTL(1)})
    with pytest.raises(Exception, match="not a savepoint"):
        open_store(tmp_path, [TOTALS], savepoint=tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()


def test_a_snapshot_document_is_read_whole_or_refused(tmp_path: Path) -> None:
    """A description with a field missing or of another kind is damaged, whichever field it is."""
    with open_store(tmp_path, [TOTALS]) as store:
        document = put(store, 0, {1: 1}).document()
    assert Snapshot.from_document(document).epoch == 0
    for field in ("backend", "epoch", "partition", "tables", "files", "new", "details"):
        with pytest.raises(StateDamaged, match="cannot be read"):
            Snapshot.from_document({name: document[name] for name in document if name != field})
    with pytest.raises(StateDamaged, match="cannot be read"):
        Snapshot.from_document(document | {"epoch": "x"})
