"""A mistake or a failing disk ends in an error that names it, never in wrong rows."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
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
    TTL,
    Directory,
    Hashes,
    Snapshot,
    Store,
    TableSchema,
    Transaction,
    open_store,
)
from holdfast.state.catalogue import Catalogue
from holdfast.state.collections import ListState, MapState
from holdfast.state.runs import open_run
from holdfast.state.timers import Timers

from .child import TABLES, acknowledge, do_epoch, model, opened

KINDS = [
    backend + changelog for backend in ("arrow", "heap", "rocksdb") for changelog in ("", "+log")
]
kinds = pytest.mark.parametrize("kind", KINDS)

OWNER = pa.schema([("user", pa.string())])
VALUE = pa.schema([("v", pa.int64())])
WIDE = TableSchema(
    "wide",
    key=pa.schema([("k", pa.int64()), ("s", pa.string())]),
    value=pa.schema([("v", pa.int64()), pa.field("w", pa.string(), nullable=False)]),
    hashes=HOLDFAST_HASHES,
)
SPARK = TableSchema("spark", key=pa.schema([("k", pa.int64())]), value=VALUE)
MAPS = MapState.schema_of("maps", OWNER, pa.string(), VALUE, hashes=HOLDFAST_HASHES)
LISTS = ListState.schema_of("lists", OWNER, VALUE, hashes=HOLDFAST_HASHES)
TIMERS = Timers.schema_of("timers", OWNER, hashes=HOLDFAST_HASHES)


def _keys(**columns: Any) -> Callable[[Transaction], object]:
    return lambda transaction: transaction.table("wide").keys(columns)


def _batch(batch: Any) -> Callable[[Transaction], object]:
    return lambda transaction: transaction.table("wide").keys(batch)


def _values(**columns: Any) -> Callable[[Transaction], object]:
    def put(transaction: Transaction) -> None:
        table = transaction.table("wide")
        table.put(table.keys({"k": [1, 2], "s": ["a", "b"]}), columns)

    return put


def _hashes(lookup: Any, partition: Any) -> Callable[[Transaction], object]:
    return lambda transaction: transaction.table("spark").keys(
        {"k": [1, 2]}, Hashes.of(lookup, partition)
    )


def _map_put(entries: Any) -> Callable[[Transaction], object]:
    def put(transaction: Transaction) -> None:
        state = MapState(transaction, "maps")
        state.put(state.owners({"user": ["a", "b"]}), entries, {"v": [1, 2]})

    return put


def _map_get(entries: Any) -> Callable[[Transaction], object]:
    def get(transaction: Transaction) -> object:
        state = MapState(transaction, "maps")
        return state.get(state.owners({"user": ["a", "b"]}), entries)

    return get


def _timer(times: Any) -> Callable[[Transaction], object]:
    def set_(transaction: Transaction) -> None:
        state = Timers(transaction, "timers")
        state.set(state.owners({"user": ["a", "b"]}), np.array(times))

    return set_


def _append(values: Any) -> Callable[[Transaction], object]:
    def append(transaction: Transaction) -> None:
        state = ListState(transaction, "lists")
        state.append(state.owners({"user": ["a", "b"]}), {"v": values})

    return append


TWICE = pa.RecordBatch.from_arrays(
    [pa.array([1]), pa.array([1]), pa.array(["a"])], names=["k", "k", "s"]
)
ONE64, TWO64, TWO32 = np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int32)

MISTAKES: dict[str, tuple[Callable[[Transaction], object], str]] = {
    "a missing key column": (_keys(k=[1]), "no key column 's'; it has k"),
    "an extra key column": (_keys(k=[1], s=["a"], x=[1]), "'x' is not a key column"),
    "narrower integers": (_keys(k=pa.array([1], pa.int32()), s=["a"]), "int32.*declared as int64"),
    "other numbers": (_keys(k=np.array([1.0]), s=["a"]), "double.*declared as int64"),
    "fractions": (_keys(k=[1.5], s=["a"]), "'k' does not hold values of type int64.*fractions"),
    "text for a number": (_keys(k=["x"], s=["a"]), "'k' does not hold values of type int64"),
    "a number too large": (_keys(k=[2**70], s=["a"]), "'k' does not hold values of type int64"),
    "no column": (_keys(k=5, s=["a"]), "'k' is a single int"),
    "nothing": (_keys(k=None, s=["a"]), "'k' does not hold values"),
    "objects": (_keys(k=np.array(["x", 1], object), s=["a", "b"]), "'k' does not hold values"),
    "two dimensions": (_keys(k=np.zeros((2, 2), np.int64), s=["a", "b"]), "'k' does not hold"),
    "half a character": (_keys(k=[1], s=["\ud800"]), "'s' does not hold values of type string"),
    "bytes for text": (_keys(k=[1], s=pa.array([b"\xff"])), "binary.*declared as string"),
    "not a batch": (_batch([1, 2]), "a batch cannot be of type list"),
    "a column twice": (_batch(TWICE), "more than one column 'k'"),
    "keys of two lengths": (_keys(k=[1, 2], s=["a"]), "differ in length: k 2, s 1"),
    "too few values": (_values(v=[1], w=["a"]), "2 keys came with 1 values"),
    "too many values": (_values(v=[1, 2, 3], w=["a", "b", "c"]), "2 keys came with 3 values"),
    "values of two lengths": (_values(v=[1, 2], w=["a"]), "differ in length: v 2, w 1"),
    "a missing value column": (_values(v=[1, 2]), "no value column 'w'"),
    "an extra value column": (_values(v=[1], w=["a"], x=[1]), "'x' is not a value column"),
    "a null where none may be": (_values(v=[1, 2], w=["a", None]), "'w' has 1 nulls"),
    "a value of another type": (_values(v=pa.array([1.0, 2.0]), w=["a", "b"]), "double"),
    "complex numbers": (_values(v=np.array([1j, 2]), w=["a", "b"]), "'v' does not hold"),
    "no hashes": (
        lambda transaction: transaction.table("spark").keys({"k": [1]}),
        "keys came without hashes",
    ),
    "too few hashes": (_hashes(ONE64, TWO32), "2 keys came with 1 look-up and 2 partition"),
    "look-up hashes too short": (_hashes(TWO32, TWO32), "look-up hashes are of type int32"),
    "partition hashes too long": (_hashes(TWO64, TWO64), "partition hashes are of type int64"),
    "hashes that are no integers": (_hashes(np.zeros(2), TWO32), "of type float64"),
    "null hashes": (_hashes(pa.array([1, None]), TWO32), "1 look-up hashes are null"),
    "null partition hashes": (
        _hashes(TWO64, pa.array([1, None], pa.int32())),
        "1 partition hashes are null",
    ),
    "a partition hash too large": (_hashes([1, 2], [2**40, 1]), "of type int64, not int32"),
    "hashes of two dimensions": (_hashes(np.zeros((2, 2), np.int64), TWO32), "2 dimensions"),
    "text for hashes": (_hashes(["a", "b"], TWO32), "of type <U1"),
    "a table of entries by its key": (
        lambda transaction: transaction.table("maps").keys({"user": ["a"], "__entry": ["x"]}),
        "sorted by entry",
    ),
    "too few entries to put": (_map_put(pa.array(["x"])), "2 keys came with 1 entries"),
    "too many entries to put": (_map_put(pa.array(["x"] * 3)), "2 keys came with 3 entries"),
    "too few entries to get": (_map_get(pa.array(["x"])), "2 keys came with 1 entries"),
    "entries of another type": (_map_put(pa.array([1, 2])), "int64.*declared as string"),
    "too few elements": (_append([1]), "2 keys came with 1 values"),
    "too few times": (_timer([1]), "2 keys came with 1 times"),
    "too many times": (_timer([1, 2, 3]), "2 keys came with 3 times"),
    "times that are no integers": (_timer([1.5, 2.0]), "of type float64"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_batch_is_refused(tmp_path: Path, name: str) -> None:
    """A wrong batch is refused with what is wrong with it, and the transaction goes on."""
    mistake, message = MISTAKES[name]
    store = open_store(tmp_path, [WIDE, SPARK, MAPS, LISTS, TIMERS])
    with store.begin(0, now_ms=0) as transaction:
        with pytest.raises(StateMismatch, match=f"(?s){message}") as caught:
            mistake(transaction)
        assert caught.value.hint
        table = transaction.table("wide")
        table.put(table.keys({"k": [1], "s": ["a"]}), {"v": [1], "w": ["x"]})
        snapshot = transaction.commit()
    assert [(file.table, file.rows) for file in snapshot.files] == [("wide", 1)]


def test_empty_batches_of_every_kind(tmp_path: Path) -> None:
    """Nothing can be put, appended, set and looked for, and costs nothing."""
    store = open_store(tmp_path, [WIDE, SPARK, MAPS, LISTS, TIMERS])
    with store.begin(0, now_ms=0) as transaction:
        spark = transaction.table("spark")
        none = spark.keys({"k": []}, Hashes.of([], []))
        spark.put(none, {"v": []})
        assert len(spark.get(none)) == 0
        maps, lists = MapState(transaction, "maps"), ListState(transaction, "lists")
        timers = Timers(transaction, "timers")
        maps.put(maps.owners({"user": []}), pa.array([], pa.string()), {"v": []})
        assert len(maps.items(maps.owners({"user": []}))) == 0
        lists.append(lists.owners({"user": []}), {"v": []})
        lists.clear(lists.owners({"user": []}))
        timers.set(timers.owners({"user": []}), np.array([]))
        assert list(timers.due(10**15)) == []
        assert transaction.commit().files == ()


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("", OWNER, VALUE, "cannot be named ''"),
        ("a-b", OWNER, VALUE, "cannot be named 'a-b'"),
        ("../x", OWNER, VALUE, "cannot be named"),
        ("t", pa.schema([]), VALUE, "has no key column"),
        ("t", OWNER, pa.schema([("user", pa.int64())]), "'user' is declared more than once"),
        ("t", pa.schema([("__code", pa.int64())]), VALUE, "begins with '__'"),
        ("t", OWNER, pa.schema([("__dead", pa.int64())]), "begins with '__'"),
        *(
            ("t", pa.schema([("k", kind)]), VALUE, "cannot be part of a key")
            for kind in (
                pa.list_(pa.int64()),
                pa.struct([("a", pa.int64())]),
                pa.map_(pa.string(), pa.string()),
                pa.dictionary(pa.int32(), pa.string()),
                pa.decimal256(50, 2),
                pa.null(),
            )
        ),
    ],
)
def test_a_wrong_declaration_is_refused(
    name: str, key: pa.Schema, value: pa.Schema, message: str
) -> None:
    """A table that cannot be stored is refused when it is declared."""
    with pytest.raises(StateMismatch, match=message):
        TableSchema(name, key, value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "leveldb"}, "(?s)no state backend 'leveldb'.*arrow, heap, rocksdb"),
        ({"tables": [WIDE, WIDE]}, "same name"),
        ({"changelog": True, "materialize_every": 0}, "every 0 epochs"),
        ({"ttl": {"other": TTL(1)}}, "'other', which is not declared"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """A store that cannot be opened as asked says why."""
    with pytest.raises(StateMismatch, match=message):
        open_store(tmp_path, **{"tables": [WIDE], **options})


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A path through a file is refused with the path and the reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"file/state could not be created: Not a directory"):
        open_store(tmp_path / "file" / "state", [WIDE])


# Damage.


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Snapshot]]:
    """A state of several files for every backend."""
    result = {}
    for kind in KINDS:
        directory = tmp_path_factory.mktemp("state")
        with opened(str(directory), kind, ()) as store:
            for epoch in range(5):
                snapshot = do_epoch(store, epoch)
        result[kind] = (directory, snapshot)
    return result


@pytest.fixture
def state(
    states: dict[str, tuple[Path, Snapshot]], tmp_path: Path, kind: str
) -> tuple[Path, Snapshot]:
    """A copy of it that may be damaged."""
    directory, snapshot = states[kind]
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    return copy, snapshot


def read_everything(directory: Path, kind: str, snapshot: Snapshot) -> None:
    """Open a state and see that every row is right, by scans and by look-ups."""
    with opened(str(directory), kind, [snapshot]) as store:
        check(store)


def check(store: Store) -> None:
    """Compare every row of a store with what its epoch must have left."""
    with store.begin(store.epoch + 1, now_ms=0) as transaction:
        for schema in TABLES:
            table = transaction.table(schema.name)
            expected = model(store.epoch, schema.name)
            found = {
                row["k"]: (row["v"], row["text"])
                for batch in table.scan()
                for row in batch.to_pylist()
            }
            assert found == expected
            lookup = table.get(table.keys({"k": pa.array(list(expected))}))
            rows = lookup.values.to_pylist()
            assert [(row["v"], row["text"]) for row in rows] == list(expected.values())


@kinds
def test_a_truncated_file_is_named(state: tuple[Path, Snapshot], kind: str) -> None:
    """A file that was cut anywhere, or has grown, is refused by name when it is opened."""
    directory, snapshot = state
    for file in snapshot.files:
        path = directory / "state" / file.name
        content = path.read_bytes()
        for length in (0, 1, len(content) // 2, len(content) - 25, len(content) - 1):
            path.write_bytes(content[: max(length, 0)])
            with pytest.raises(StateDamaged, match=f"{file.name} is damaged: it has"):
                read_everything(directory, kind, snapshot)
        path.write_bytes(content + b"\x00")
        with pytest.raises(StateDamaged, match=f"{file.name} is damaged: it has"):
            read_everything(directory, kind, snapshot)
        path.write_bytes(content)
    read_everything(directory, kind, snapshot)


@kinds
def test_a_missing_file_is_named(state: tuple[Path, Snapshot], kind: str) -> None:
    """A file that is not there is refused by name when the state is opened."""
    directory, snapshot = state
    for file in snapshot.files:
        path = directory / "state" / file.name
        path.rename(path.with_suffix(".away"))
        with pytest.raises(StateDamaged, match=f"{file.name} is damaged: it is missing"):
            read_everything(directory, kind, snapshot)
        path.with_suffix(".away").rename(path)
    read_everything(directory, kind, snapshot)


@kinds
def test_a_changed_bit_is_never_a_wrong_row(state: tuple[Path, Snapshot], kind: str) -> None:
    """Whichever bit of whichever file changes, the file is named or nothing is different."""
    directory, snapshot = state
    chance = random.Random(kind)
    for file in snapshot.files:
        path = directory / "state" / file.name
        content = path.read_bytes()
        for _ in range(40):
            place, bit = chance.randrange(len(content)), chance.randrange(8)
            flip(path, content, place, bit)
            try:
                read_everything(directory, kind, snapshot)
            except StateDamaged as error:
                assert file.name in error.message  # noqa: PT017 - reading well is fine too
            except StateFormatMismatch as error:
                assert file.name in error.message  # noqa: PT017 - as above
                assert place >= len(content) - 3
            else:
                assert file.name.endswith(".run")
                assert place in unchecked(path)
        path.write_bytes(content)
    read_everything(directory, kind, snapshot)


def flip(path: Path, content: bytes, place: int, bit: int) -> None:
    """Write a file with one bit changed."""
    path.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])


def unchecked(path: Path) -> range:
    """Return the bytes of a run that no checksum covers: Arrow's marker of the end."""
    content = path.read_bytes()
    length = int.from_bytes(content[-12:-8], "little")
    end = len(content) - 20 - length
    return range(end - 8, end)


@pytest.mark.parametrize("kind", ["arrow"])
def test_every_byte_of_a_run_is_checked(state: tuple[Path, Snapshot], kind: str) -> None:
    """Of a run only the 8 bytes of Arrow's end marker may change unnoticed, and change nothing."""
    directory, snapshot = state
    file = snapshot.files[0]
    schema = next(table for table in TABLES if table.name == file.table)
    path = directory / "state" / file.name
    content = path.read_bytes()

    def rows() -> list[Any]:
        run = open_run(path, file, schema)
        return [
            (page.first, page.last, page.rows, page.load().values[1].to_pylist())
            for page in run.layer.pages
        ]

    right = rows()
    unnoticed = []
    for place in range(len(content)):
        flip(path, content, place, place % 8)
        try:
            assert rows() == right
            unnoticed.append(place)
        except (StateDamaged, StateFormatMismatch) as error:
            assert str(path) in error.message  # noqa: PT017 - the other outcome is listed
    path.write_bytes(content)
    assert unnoticed == list(unchecked(path))


@pytest.mark.parametrize("kind", ["arrow", "arrow+log"])
def test_damage_that_is_met_late_fails_the_epoch(state: tuple[Path, Snapshot], kind: str) -> None:
    """Rows that are first needed by a merge are checked by it, and nothing is committed on them."""
    directory, snapshot = state
    file = snapshot.files[0]
    path = directory / "state" / file.name
    content = path.read_bytes()
    flip(path, content, unchecked(path).start - 9, 3)
    store = opened(str(directory), kind, [snapshot])

    def merge() -> None:
        for epoch in range(5, 30):
            do_epoch(store, epoch)

    with pytest.raises(StateDamaged, match=f"{file.name} is damaged: page 0"):
        merge()
    with pytest.raises(StateClosed, match="which failed"):
        store.begin(99, now_ms=0)
    path.write_bytes(content)
    read_everything(directory, kind, snapshot)


@pytest.mark.parametrize("kind", ["arrow"])
def test_a_changed_document_is_never_another_epoch(state: tuple[Path, Snapshot], kind: str) -> None:
    """Whichever byte of the description of an epoch changes, it is refused or says the same."""
    directory, snapshot = state
    catalogue = Catalogue(Directory(directory / "state"))
    catalogue.keep([snapshot])
    (path,) = (directory / "state" / "epochs").iterdir()
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        flip(path, content, place, place % 7)
        try:
            assert catalogue.snapshots() == (snapshot,)
        except (StateDamaged, StateFormatMismatch) as error:
            assert str(path) in error.message  # noqa: PT017 - saying the same is fine too
            refused += 1
    assert refused > len(content) // 2
    path.write_bytes(content)
    catalogue.verify()
    path.unlink()
    assert catalogue.snapshots() == ()


# A full disk.


@kinds
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_full_disk(state: tuple[Path, Snapshot], kind: str, share: float) -> None:
    """When a file cannot be written whole, the epoch fails and leaves no half of it behind."""
    directory, snapshot = state
    acknowledge(str(directory), snapshot)
    rehearsal = directory.with_name("rehearsal")
    shutil.copytree(directory, rehearsal)
    with opened(str(rehearsal), kind, [snapshot]) as store:
        following = do_epoch(store, store.epoch + 1)
    sizes = {file.name: file.bytes for file in following.files if file.name in following.new}
    limit = int(max(sizes.values()) * share)
    before = sorted(directory.rglob("*"))
    child = subprocess.run(
        [sys.executable, Path(__file__).with_name("child.py"), "fill", directory, kind, str(limit)],
        capture_output=True,
        check=True,
    )
    assert b"could not be" in child.stdout
    # Another table may have been written whole already, under a name that nobody knows.
    left = [path for path in sorted(directory.rglob("*")) if path not in before]
    assert [path for path in left if not path.read_bytes().endswith(b"HFRUN001")] == []
    read_everything(directory, kind, snapshot)
