"""The backend in RocksDB: what it stores, what its checkpoints consist of, what it refuses."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast import failpoints
from holdfast.errors import (
    DiskFull,
    StateClosed,
    StateDamaged,
    StateError,
    StateFormatMismatch,
    StateMismatch,
)
from holdfast.state.backends.rocksdb import RocksDBBackend, RocksDBOptions
from holdfast.state.backends.rocksdb import options as rocksdb_options
from holdfast.state.files import Directory
from holdfast.state.keys import Keys
from holdfast.state.rows import Ranges, Rows
from holdfast.state.runs import NEVER_MS
from holdfast.state.schema import HOLDFAST_HASHES, TableSchema
from holdfast.state.snapshot import Partition, Snapshot

rocksdict = pytest.importorskip("rocksdict")


def _table(
    name: str, value: pa.DataType, *, key: pa.DataType | None = None, stamped: bool = False
) -> TableSchema:
    return TableSchema(
        name,
        key=pa.schema([("k", key or pa.int64())]),
        value=pa.schema([("v", value)]),
        stamped=stamped,
        hashes=HOLDFAST_HASHES,
    )


TOTALS = _table("totals", pa.int64())

WHOLE = Partition()

Contents = dict[Any, Any]
Open = Callable[..., RocksDBBackend]


@pytest.fixture
def open_state(tmp_path: Path) -> Iterator[Open]:
    """Open backends on one directory, and close them in the end."""
    opened: list[RocksDBBackend] = []

    def open_(
        *snapshots: Snapshot,
        attempt: str = "a",
        tables: Sequence[TableSchema] = (TOTALS,),
        partition: Partition = WHOLE,
        options: RocksDBOptions | None = None,
        drop: Sequence[str] = (),
    ) -> RocksDBBackend:
        backend = RocksDBBackend(
            Directory(tmp_path), tables, partition, attempt=attempt, options=options
        )
        opened.append(backend)
        # As the snapshots arrive in production: through JSON.
        documents = [json.loads(json.dumps(one.document())) for one in snapshots]
        backend.open([Snapshot.from_document(document) for document in documents], drop=drop)
        return backend

    yield open_
    failpoints.observe(None)
    for backend in opened:
        backend.close()


def _rows(table: TableSchema, changes: Contents, stamp_ms: int | None = None) -> Rows:
    keys = Keys.of(table, {"k": list(changes)})
    values = pa.array(list(changes.values()), table.stored_value[0])
    dead = np.array([value is None for value in changes.values()])
    stamps = None if stamp_ms is None else np.full(len(keys), stamp_ms)
    return Rows.of(keys, (values,), dead=dead if dead.any() else None, stamps_ms=stamps)


def _put(backend: RocksDBBackend, changes: Contents, table: TableSchema = TOTALS) -> None:
    """Write values by key; `None` deletes."""
    backend.write({table.name: _rows(table, changes)})


def _get(backend: RocksDBBackend, wanted: list[Any], table: TableSchema = TOTALS) -> Contents:
    hits = backend.get(table.name, Keys.of(table, {"k": wanted}))
    return {
        wanted[at]: value
        for at, value in zip(hits.at.tolist(), hits.values[0].to_pylist(), strict=True)
    }


def _contents(backend: RocksDBBackend, table: TableSchema = TOTALS) -> Contents:
    return {
        key: value
        for rows in backend.scan(table.name, Ranges.everything())
        for key, value in zip(rows.keys[0].to_pylist(), rows.values[0].to_pylist(), strict=True)
    }


def _ssts(snapshot: Snapshot) -> set[str]:
    return {file.name for file in snapshot.files if file.name.endswith(".sst")}


def test_what_was_put_is_found_and_what_was_deleted_is_not(open_state: Open) -> None:
    """A look-up gives the newest value of a key; absent and deleted keys are no hits."""
    state = open_state()
    _put(state, {1: 10, 2: 20, 3: 30})
    _put(state, {2: None, 3: 31, 4: None})
    assert _get(state, [5, 3, 1, 2, 4]) == {1: 10, 3: 31}
    assert _get(state, []) == {}


def test_a_key_may_be_asked_for_twice(open_state: Open) -> None:
    """Every position of a batch has its own hit."""
    state = open_state()
    _put(state, {7: 70})
    hits = state.get("totals", Keys.of(TOTALS, {"k": [7, 8, 7]}))
    assert sorted(hits.at.tolist()) == [0, 2]


def test_a_scan_is_in_the_order_of_the_codes(open_state: Open) -> None:
    """Negative codes come before positive ones, over several pieces."""
    state = open_state()
    _put(state, {number: number for number in range(70_000)})
    pieces = list(state.scan("totals", Ranges.everything()))
    codes = np.concatenate([rows.codes for rows in pieces])
    assert len(pieces) > 1
    assert codes[0] < 0 < codes[-1]
    assert (np.diff(codes) > 0).all()
    assert sum(len(rows) for rows in pieces) == 70_000


@pytest.mark.parametrize("ranges", [1, 3, 200], ids=["one", "few", "many"])
def test_a_scan_of_ranges_gives_their_rows_only(open_state: Open, ranges: int) -> None:
    """Both ends of a range are inclusive, and deleted rows do not appear."""
    state = open_state()
    _put(state, {number: number for number in range(1000)})
    _put(state, dict.fromkeys(range(0, 1000, 7)))
    codes = np.concatenate([rows.codes for rows in state.scan("totals", Ranges.everything())])
    first = codes[: ranges * 4 : 4]
    last = codes[1 : ranges * 4 : 4]
    found = np.concatenate([rows.codes for rows in state.scan("totals", Ranges(first, last))])
    assert found.tolist() == np.sort(np.concatenate([first, last])).tolist()


def test_a_scan_reaches_the_first_and_the_last_code(open_state: Open) -> None:
    """The ends of the range of codes belong to the table, and not to its neighbours."""
    other = _table("other", pa.int64())
    state = open_state(tables=[TOTALS, other])
    ends = np.array([-(2**63), 2**63 - 1])
    for number, table in enumerate((TOTALS, other)):
        rows = Rows(ends, np.zeros(2, np.int32), (pa.array([1, 2]),), (pa.array([number] * 2),))
        state.write({table.name: rows})
    assert _contents(state) == {1: 0, 2: 0}
    assert _contents(state, other) == {1: 1, 2: 1}


def test_keys_of_equal_code_are_told_apart(open_state: Open) -> None:
    """A collision of the hashes costs nothing but order."""
    state = open_state()
    columns = (pa.array([1, 2, 3]),)
    keys = Keys(columns, np.full(3, 42), np.zeros(3, np.int32))
    state.write({"totals": Rows.of(keys, (pa.array([10, 20, 30]),))})
    dead = np.array([True])
    one = Keys((pa.array([2]),), np.full(1, 42), np.zeros(1, np.int32))
    state.write({"totals": Rows.of(one, (pa.array([0]),), dead=dead)})
    hits = state.get("totals", keys)
    assert dict(zip(hits.at.tolist(), hits.values[0].to_pylist(), strict=True)) == {0: 10, 2: 30}


@pytest.mark.parametrize("ranges", [1, 20], ids=["long range", "short ranges"])
def test_rows_of_equal_code_come_in_one_piece(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, ranges: int
) -> None:
    """A scan never parts the keys of one code, however small its pieces are."""
    monkeypatch.setattr("holdfast.state.backends.rocksdb.database.PIECE_ROWS", 4)
    state = open_state()
    codes = np.repeat(np.array([1, 2, 3, 4, 5]), [3, 3, 9, 1, 2])
    keys = (pa.array(np.arange(18)),)
    state.write({"totals": Rows(codes, np.zeros(18, np.int32), keys, keys)})
    lows = np.arange(ranges)
    highs = lows if ranges > 1 else np.array([20])
    pieces = [rows.codes.tolist() for rows in state.scan("totals", Ranges(lows, highs))]
    assert [code for piece in pieces for code in piece] == codes.tolist()
    assert len(pieces) > 1
    for left, right in pairwise(pieces):
        assert left[-1] < right[0]


def test_keys_may_be_null_and_text(open_state: Open) -> None:
    """Null is a key like any other, and not the empty text."""
    table = _table("names", pa.int64(), key=pa.string())
    state = open_state(tables=[table])
    _put(state, {None: 1, "": 2, "क": 3}, table)
    assert _get(state, [None, "", "क", "x"], table) == {None: 1, "": 2, "क": 3}


def test_values_may_be_nested(open_state: Open) -> None:
    """Lists, maps and structs come back, and so do values of more than a megabyte."""
    kind = pa.struct(
        [
            ("tags", pa.list_(pa.string())),
            ("by", pa.map_(pa.string(), pa.decimal128(9, 2))),
            ("blob", pa.binary()),
        ]
    )
    table = _table("nested", kind)
    values = {
        1: {"tags": ["a", None], "by": [("x", None)], "blob": b"z" * 1_500_000},
        2: {"tags": None, "by": [], "blob": None},
    }
    state = open_state(tables=[table])
    _put(state, values, table)
    again = open_state(state.checkpoint(1), attempt="b", tables=[table])
    assert _get(again, [1, 2], table) == values


def test_rows_are_laid_out_as_documented(open_state: Open, tmp_path: Path) -> None:
    """Key: table, code with its sign flipped, columns. Value: partition hash, stamp, columns."""
    aging = _table("aging", pa.int32(), key=pa.string(), stamped=True)
    state = open_state(tables=[TOTALS, aging])
    keys = Keys((pa.array([7]),), np.array([1]), np.array([-2], np.int32))
    state.write({"totals": Rows.of(keys, (pa.array([258]),))})
    keys = Keys((pa.array(["tea"], pa.large_string()),), np.array([-2]), np.array([3], np.int32))
    values = (pa.array([None], pa.int32()),)
    state.write({"aging": Rows.of(keys, values, stamps_ms=np.array([1000]))})
    snapshot = state.checkpoint(1)
    assert snapshot.details["table_numbers"] == {"totals": 0, "aging": 1}
    assert _pairs(tmp_path, snapshot) == {
        b"\x00\x00"  # the number of the table
        b"\x80\x00\x00\x00\x00\x00\x00\x01"  # code 1
        b"\xff"  # the key column is there
        b"\x07\x00\x00\x00\x00\x00\x00\x00":  # and is 7
        b"\xfe\xff\xff\xff"  # partition hash -2
        b"\xff"  # the value column is there
        b"\x02\x01\x00\x00\x00\x00\x00\x00",  # and is 258
        b"\x00\x01"  # the number of the table
        b"\x7f\xff\xff\xff\xff\xff\xff\xfe"  # code -2
        b"\xff"  # the key column is there
        b"\x03\x00\x00\x00tea":  # and has three bytes
        b"\x03\x00\x00\x00"  # partition hash 3
        b"\xe8\x03\x00\x00\x00\x00\x00\x00"  # stamp 1000
        b"\xfe"  # the value column is null
        b"\x00\x00\x00\x00",
    }


def _pairs(directory: Path, snapshot: Snapshot) -> dict[bytes, bytes]:
    """Return everything in a first checkpoint, read from a copy of it with rocksdict alone."""
    with tempfile.TemporaryDirectory() as copy:
        for file in snapshot.files:
            shutil.copy(directory / file.name, copy)
        database = rocksdict.Rdict(
            copy,
            rocksdict.Options(raw_mode=True),
            access_type=rocksdict.AccessType.read_only(False),
        )
        try:
            return dict(database.items())
        finally:
            database.close()


def test_a_checkpoint_opens_again_as_it_was(open_state: Open) -> None:
    """Everything written before it is there, without a log, and nothing written after."""
    state = open_state()
    _put(state, {number: number for number in range(1000)})
    _put(state, {5: None})
    snapshot = state.checkpoint(1)
    _put(state, {6: 0})
    again = open_state(snapshot, attempt="b")
    assert _contents(again) == {number: number for number in range(1000) if number != 5}


def test_only_new_files_are_new(open_state: Open) -> None:
    """A file that an older checkpoint has keeps its name and is stored once."""
    state = open_state()
    _put(state, {1: 1})
    first = state.checkpoint(1)
    _put(state, {2: 2})
    second = state.checkpoint(2)
    assert first.new == {file.name for file in first.files}
    assert _ssts(first) < _ssts(second)
    assert not second.new & {file.name for file in first.files}
    for snapshot in (first, second):
        for name in (file.name for file in snapshot.files):
            assert (state.directory.path / name).stat().st_size


def test_files_stay_old_after_a_restore(open_state: Open, tmp_path: Path) -> None:
    """A reopened state links what it has; its next checkpoint adds only what changed."""
    state = open_state()
    _put(state, {number: number for number in range(1000)})
    first = state.checkpoint(1)
    again = open_state(first, attempt="b")
    _put(again, {1: 0})
    second = again.checkpoint(2)
    assert _ssts(first) < _ssts(second)
    assert len(_ssts(second) & second.new) == 1
    inodes = {(tmp_path / name).stat().st_ino for name in _ssts(second)}
    assert len(inodes) == 2


def test_files_of_an_epoch_that_nobody_kept_are_stored_again(
    open_state: Open, tmp_path: Path
) -> None:
    """A checkpoint never names a file that was cleared away with an older one."""
    state = open_state()
    _put(state, {1: 1})
    for name in state.checkpoint(1).new:
        (tmp_path / name).unlink()
    _put(state, {2: 2})
    again = open_state(state.checkpoint(2), attempt="b")
    assert _contents(again) == {1: 1, 2: 2}


def test_an_epoch_without_a_change_adds_no_rows(open_state: Open) -> None:
    """A checkpoint of an unchanged state is a few hundred bytes."""
    state = open_state()
    _put(state, {number: number for number in range(1000)})
    first, second = state.checkpoint(1), state.checkpoint(2)
    assert _ssts(first) == _ssts(second)
    assert second.new_bytes < 2000


def test_an_empty_state_can_be_checkpointed(open_state: Open) -> None:
    """A fresh pipeline has a first checkpoint too."""
    snapshot = open_state().checkpoint(1)
    assert _contents(open_state(snapshot, attempt="b")) == {}


def test_an_older_epoch_opens_after_compaction(open_state: Open) -> None:
    """Files that compaction has replaced stay for the checkpoints that name them."""
    state = open_state()
    _put(state, dict.fromkeys(range(100), 0))
    first = newest = state.checkpoint(1)
    deadline = time.monotonic() + 30
    while _ssts(first) <= _ssts(newest):
        assert time.monotonic() < deadline, "RocksDB never compacted"
        _put(state, dict.fromkeys(range(100), newest.epoch))
        newest = state.checkpoint(newest.epoch + 1)
    assert set(_contents(open_state(first, attempt="b")).values()) == {0}
    assert set(_contents(open_state(newest, attempt="c")).values()) == {newest.epoch - 1}


def test_two_attempts_open_one_snapshot_side_by_side(open_state: Open) -> None:
    """Attempts that write the same epoch do not meet each other's files."""
    state = open_state()
    _put(state, {1: 0})
    base = state.checkpoint(1)
    left, right = open_state(base, attempt="b"), open_state(base, attempt="c")
    _put(left, {1: 1})
    _put(right, {1: 2})
    snapshots = [left.checkpoint(2), right.checkpoint(2)]
    assert not snapshots[0].new & snapshots[1].new
    found = [_contents(open_state(one, attempt=f"d{at}")) for at, one in enumerate(snapshots)]
    assert found == [{1: 1}, {1: 2}]


def test_an_epoch_written_again_gets_a_directory_of_its_own(open_state: Open) -> None:
    """What a snapshot may name is never written over, even by the same attempt."""
    state = open_state()
    _put(state, {1: 1})
    first = state.checkpoint(1)
    state.close()
    state = open_state()
    _put(state, {1: 2})
    second = state.checkpoint(1)
    assert _contents(open_state(first, attempt="b")) == {1: 1}
    assert _contents(open_state(second, attempt="c")) == {1: 2}


@pytest.mark.parametrize(("before", "after"), [(1, 4), (3, 2), (4, 1), (2, 4)])
def test_keys_follow_their_partitions(open_state: Open, before: int, after: int) -> None:
    """Under another number of partitions every key is in exactly the one that owns it."""
    everything = {number: number for number in range(500)}
    rows = _rows(TOTALS, everything)
    snapshots = []
    for index in range(before):
        partition = Partition(index, before)
        state = open_state(attempt=f"old{index}", partition=partition)
        state.write({"totals": rows.where(partition.owns(rows.partition_hashes))})
        snapshots.append(state.checkpoint(1))
    found: list[Contents] = []
    for index in range(after):
        partition = Partition(index, after)
        state = open_state(*snapshots, attempt=f"new{index}", partition=partition)
        state = open_state(state.checkpoint(2), attempt=f"next{index}", partition=partition)
        found.append(_contents(state))
        for piece in state.scan("totals", Ranges.everything()):
            assert partition.owns(piece.partition_hashes).all()
    assert sum(len(one) for one in found) == 500
    assert {key: value for one in found for key, value in one.items()} == everything


def test_stamps_come_back(open_state: Open) -> None:
    """A stamped table says when each row was last touched, in look-ups and scans."""
    table = _table("sessions", pa.int64(), stamped=True)
    state = open_state(tables=[table])
    state.write({"sessions": _rows(table, {1: 10}, stamp_ms=1234)})
    hits = state.get("sessions", Keys.of(table, {"k": [1]}))
    (rows,) = state.scan("sessions", Ranges.everything())
    assert hits.stamps_ms is not None
    assert rows.stamps_ms is not None
    assert [*hits.stamps_ms, *rows.stamps_ms] == [1234, 1234]


@pytest.mark.parametrize("count", [1, 2], ids=["restored", "adopted"])
def test_a_table_may_get_stamps_and_lose_them(open_state: Open, count: int) -> None:
    """Rows from before the stamps never expire until they are written again."""
    stamped = _table("totals", pa.int64(), stamped=True)
    state = open_state()
    _put(state, {1: 10})
    hashes = _rows(TOTALS, {1: 10}).partition_hashes
    partition = next(
        one for one in (Partition(at, count) for at in range(count)) if one.owns(hashes).all()
    )
    state = open_state(state.checkpoint(1), attempt="b", tables=[stamped], partition=partition)
    hits = state.get("totals", Keys.of(stamped, {"k": [1]}))
    assert hits.stamps_ms is not None
    assert hits.stamps_ms.tolist() == [NEVER_MS]
    state = open_state(state.checkpoint(2), attempt="c", partition=partition)
    assert _contents(state) == {1: 10}


def test_tables_are_told_apart_by_name(open_state: Open) -> None:
    """A new table begins empty, whatever order the tables are declared in."""
    other, third = _table("other", pa.string()), _table("third", pa.int8())
    state = open_state(tables=[TOTALS, other])
    _put(state, {1: 1})
    _put(state, {1: "x"}, other)
    state = open_state(state.checkpoint(1), attempt="b", tables=[third, other, TOTALS])
    assert _contents(state, third) == {}
    assert _contents(state, other) == {1: "x"}
    assert _contents(state) == {1: 1}


@pytest.mark.parametrize("count", [1, 2], ids=["restored", "adopted"])
def test_a_dropped_table_leaves_nothing(open_state: Open, count: int) -> None:
    """A table that was dropped begins empty when it is declared again, with other columns."""
    other = _table("other", pa.string())
    state = open_state(tables=[TOTALS, other])
    _put(state, {number: number for number in range(100)})
    _put(state, dict.fromkeys(range(100), "x"), other)
    partition = Partition(0, count)
    state = open_state(
        state.checkpoint(1), attempt="b", tables=[TOTALS], partition=partition, drop=["other"]
    )
    again = _table("other", pa.int64())
    snapshot = state.checkpoint(2)
    assert [table.name for table in snapshot.tables] == ["totals"]
    state = open_state(snapshot, attempt="c", tables=[again, TOTALS], partition=partition)
    assert _contents(state, again) == {}
    assert _contents(state)


def test_a_table_that_changed_is_refused(open_state: Open) -> None:
    """Rows are never decoded as columns that they were not written with."""
    state = open_state()
    _put(state, {1: 1})
    with pytest.raises(StateMismatch, match="totals"):
        open_state(state.checkpoint(1), attempt="b", tables=[_table("totals", pa.string())])


def _damaged_ways(content: bytes) -> list[bytes]:
    middle = len(content) // 2
    return [
        content[:middle],
        content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        b"",
    ]


def test_a_damaged_file_is_refused_by_name(open_state: Open, tmp_path: Path) -> None:
    """Truncated, changed, emptied or missing: the file is named and nothing is half-read."""
    state = open_state()
    _put(state, {number: number for number in range(1000)})
    snapshot = state.checkpoint(1)
    state.close()
    for file in snapshot.files:
        path = tmp_path / file.name
        content = path.read_bytes()
        for wrong in _damaged_ways(content):
            path.write_bytes(wrong)
            with pytest.raises(StateDamaged, match=file.name):
                open_state(snapshot, attempt="b")
        path.unlink()
        with pytest.raises(StateDamaged, match=file.name):
            open_state(snapshot, attempt="b")
        path.write_bytes(content)
    assert not list(tmp_path.glob("work-*"))
    assert len(_contents(open_state(snapshot, attempt="b"))) == 1000


@pytest.mark.parametrize("ranges", [1, 100], ids=["long range", "short ranges"])
def test_a_file_that_goes_bad_under_way_is_refused_by_name(
    open_state: Open, tmp_path: Path, ranges: int
) -> None:
    """A block that cannot be read stops a look-up and a scan; it is not taken for the end."""
    state = open_state(options=RocksDBOptions(compression="none"))
    _put(state, {number: number for number in range(20_000)})
    snapshot = state.checkpoint(1)
    (name,) = _ssts(snapshot)
    codes = np.linspace(-(2**63), 2**63 - 2049, ranges + 1).astype(np.int64)
    again = open_state(snapshot, attempt="b")
    with (tmp_path / name).open("r+b") as file:
        file.seek(100_000)
        file.write(b"\xff" * 5000)
    with pytest.raises(StateDamaged, match=name):
        list(again.scan("totals", Ranges(codes[:-1], codes[1:] - 1)))
    with pytest.raises(StateDamaged, match=name):
        _get(again, list(range(20_000)))


class _Crash(Exception):
    pass


def test_a_crash_at_any_file_step_leaves_the_last_checkpoint(
    open_state: Open, tmp_path: Path
) -> None:
    """Wherever restore or checkpoint is cut, the previous snapshot opens as it was."""
    state = open_state()
    _put(state, {1: 1})
    base = state.checkpoint(1)

    def run(attempt: str) -> None:
        _put(again := open_state(base, attempt=attempt), {1: 2})
        again.checkpoint(2)

    steps: list[tuple[str, str]] = []
    failpoints.observe(lambda step, subject: steps.append((step, subject)))
    run("count")
    assert {"state.link", "state.sync", "state.sync_directory", "state.remove"} <= {
        step for step, _ in steps
    }
    for number in range(len(steps)):
        failpoints.observe(_crash_at(number))
        with pytest.raises(_Crash):
            run(f"crash{number}")
        failpoints.observe(None)
        assert _contents(open_state(base, attempt=f"after{number}")) == {1: 1}


def _crash_at(number: int) -> Callable[[str, str], None]:
    left = iter([*([False] * number), True])

    def observer(step: str, subject: str) -> None:
        if next(left, False):
            raise _Crash(f"{step}:{subject}")

    return observer


def test_a_failed_checkpoint_can_be_made_again(open_state: Open) -> None:
    """The files of an attempt that failed are not taken for durable by the next one."""
    state = open_state()
    _put(state, {1: 1})
    failpoints.observe(_crash_at(3))
    with pytest.raises(_Crash):
        state.checkpoint(1)
    failpoints.observe(None)
    snapshot = state.checkpoint(1)
    assert snapshot.new == {file.name for file in snapshot.files}
    assert _contents(open_state(snapshot, attempt="b")) == {1: 1}


def test_what_a_crash_left_is_cleared_by_the_same_attempt(open_state: Open, tmp_path: Path) -> None:
    """A stale working directory is never taken for state."""
    stale = tmp_path / "work-a-0"
    (stale / "lost").mkdir(parents=True)
    (stale / "000001.sst").write_bytes(b"garbage")
    state = open_state()
    _put(state, {1: 1})
    assert _contents(state) == {1: 1}
    state.close()
    assert not stale.exists()


def test_one_attempt_has_one_backend(open_state: Open) -> None:
    """A second backend of the same attempt does not take the first one's directory away."""
    state = open_state()
    _put(state, {1: 1})
    with pytest.raises(StateError, match="in use"):
        _put(open_state(), {1: 2})
    assert _contents(state) == {1: 1}


def test_a_closed_backend_says_so(open_state: Open, tmp_path: Path) -> None:
    """Closing twice is fine and leaves no working directory; using it then is not."""
    state = open_state()
    _put(state, {1: 1})
    scan = state.scan("totals", Ranges.everything())
    next(scan)
    state.close()
    state.close()
    with pytest.raises(StateClosed):
        next(scan)
    with pytest.raises(StateClosed):
        _get(state, [1])
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_as_such(open_state: Open) -> None:
    """A checkpoint that does not fit fails, and the one before it opens."""
    state = open_state(options=RocksDBOptions(compression="none"))
    _put(state, {1: 1})
    snapshot = state.checkpoint(1)
    _put(state, {number: number for number in range(100_000)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(DiskFull, match="work-a-0"):
            state.checkpoint(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    state.close()
    assert _contents(open_state(snapshot, attempt="b")) == {1: 1}


def test_the_working_directory_can_be_elsewhere(open_state: Open, tmp_path: Path) -> None:
    """With a local directory, only checkpoints are written to the directory of the state."""
    local = tmp_path / "local"
    options = RocksDBOptions(local_dir=local)
    state = open_state(options=options)
    _put(state, {1: 1})
    snapshot = state.checkpoint(1)
    assert len(list(local.iterdir())) == 1
    assert not list(tmp_path.glob("work-*"))
    again = open_state(snapshot, options=options, attempt="b")
    assert _contents(again) == {1: 1}
    state.close()
    again.close()
    assert list(local.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_the_working_directory_can_be_on_another_device(open_state: Open) -> None:
    """Where files cannot be linked they are copied."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as local:
        options = RocksDBOptions(local_dir=Path(local))
        state = open_state(options=options)
        _put(state, {1: 1})
        again = open_state(state.checkpoint(1), options=options, attempt="b")
        _put(again, {2: 2})
        snapshot = again.checkpoint(2)
        state.close()
        again.close()
    assert _contents(open_state(snapshot, attempt="c")) == {1: 1, 2: 2}


def test_rows_of_another_format_are_refused(open_state: Open) -> None:
    """A later layout of rows is not read as this one."""
    document = open_state().checkpoint(1).document()
    document["details"] = {**document["details"], "row_format": 2}
    with pytest.raises(StateFormatMismatch, match="format 2"):
        open_state(Snapshot.from_document(document), attempt="b")


def test_without_rocksdict_the_error_names_the_extra(
    open_state: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who chose the backend without installing it learns what to install."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    rocksdb_options.rocksdict.cache_clear()
    with pytest.raises(StateError, match=r"holdfast\[rocksdb\]"):
        open_state()


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_bytes": 1},
        {"write_buffer_ratio": 1.0},
        {"background_jobs": 0},
        {"bloom_bits_per_key": -1},
        {"compression": "rar"},
    ],
)
def test_an_impossible_option_is_refused(wrong: dict[str, Any]) -> None:
    """The message names the option."""
    with pytest.raises(StateMismatch, match=next(iter(wrong))):
        RocksDBOptions(**wrong)


@pytest.mark.parametrize("compression", rocksdb_options.COMPRESSIONS)
def test_every_compression_works(open_state: Open, compression: str) -> None:
    """The library brings the compressions that can be chosen."""
    state = open_state(options=RocksDBOptions(compression=compression, bloom_bits_per_key=0))
    _put(state, {number: number for number in range(1000)})
    snapshot = state.checkpoint(1)
    assert len(_contents(open_state(snapshot, attempt="b"))) == 1000
