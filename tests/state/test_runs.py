"""Runs: plain Arrow streams with a footer, checked before a row of them is used."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from holdfast.errors import StateDamaged, StateError, StateFormatMismatch, StateMismatch
from holdfast.state import (
    HOLDFAST_HASHES,
    Hashes,
    Keys,
    Rows,
    StateFile,
    TableSchema,
    open_store,
)
from holdfast.state.codes import entry_codes, entry_range, time_codes, time_range
from holdfast.state.layers import PAGE_ROWS
from holdfast.state.runs import NEVER_MS, open_run, write_run

TABLE = TableSchema(
    "totals",
    key=pa.schema([("k", pa.int64())]),
    value=pa.schema([("v", pa.string())]),
    hashes=HOLDFAST_HASHES,
)
STAMPED = TableSchema(
    "totals",
    key=pa.schema([("k", pa.int64())]),
    value=pa.schema([("v", pa.string())]),
    stamped=True,
    hashes=HOLDFAST_HASHES,
)


def piece(codes: Sequence[int], *, dead: Sequence[bool] | None = None, stamp: bool = False) -> Rows:
    """Return rows whose keys are their codes."""
    numbers = np.array(codes, np.int64)
    keys = Keys.of(TABLE, {"k": numbers}, Hashes(numbers, numbers.astype(np.int32)))
    return Rows.of(
        keys,
        (pa.array([f"value {code}" for code in codes], pa.large_string()),),
        dead=None if dead is None else np.array(dead),
        stamps_ms=numbers * 10 if stamp else None,
    )


def written(
    path: Path, pieces: Sequence[Rows], *, deletions: bool = False, schema: TableSchema = TABLE
) -> StateFile:
    """Write a run and return its description."""
    file = write_run(path, "a.run", schema, pieces, deletions=deletions)
    assert file is not None
    return file


def codes_of(path: Path, file: StateFile, schema: TableSchema = TABLE) -> list[list[int]]:
    """Return the codes of a run, page by page."""
    return [page.load().codes.tolist() for page in open_run(path, file, schema).layer.pages]


def test_a_run_is_an_arrow_stream(tmp_path: Path) -> None:
    """Any Arrow reader sees the rows, sorted, with nothing of the footer."""
    file = written(tmp_path, [piece([1, 2]), piece([5, 9])])
    with pa.OSFile(str(tmp_path / "a.run")) as source:
        table = pa.ipc.open_stream(source).read_all()
    assert table.to_pydict() == {
        "__code": [1, 2, 5, 9],
        "__partition_hash": [1, 2, 5, 9],
        "k": [1, 2, 5, 9],
        "v": ["value 1", "value 2", "value 5", "value 9"],
    }
    assert (file.table, file.rows, file.role) == ("totals", 4, "run")


def test_a_run_describes_itself(tmp_path: Path) -> None:
    """The footer holds the declaration and where every page is; the file's checksum is right."""
    file = written(
        tmp_path, [piece([1, 2], dead=[False, True]), piece([5], dead=[False])], deletions=True
    )
    content = (tmp_path / "a.run").read_bytes()
    assert file.bytes == len(content)
    assert file.checksum == xxh3_128_hexdigest(content)
    assert content.endswith(b"HFRUN001")
    length = int.from_bytes(content[-12:-8], "little")
    footer = content[-20 - length : -20]
    assert int.from_bytes(content[-20:-12], "little") == xxh3_64_intdigest(footer)
    document = json.loads(footer)
    assert TableSchema.from_document(document["table"]) == TABLE
    assert (document["rows"], document["dead"]) == (3, 1)
    pages = [
        (page["rows"], page["dead"], page["first"], page["last"]) for page in document["pages"]
    ]
    assert pages == [(2, 1, 1, 2), (1, 0, 5, 5)]
    # Schema, pages, then Arrow's marker of the end: no gap between them.
    ends = document["schema"]["bytes"]
    for page in document["pages"]:
        assert page["offset"] == ends
        ends += page["bytes"]
    assert content[ends : ends + 8] == b"\xff\xff\xff\xff\x00\x00\x00\x00"
    assert ends + 8 + length + 20 == len(content)


def test_pages_are_loaded_when_they_are_needed(tmp_path: Path) -> None:
    """A damaged page does no harm until something in it is asked for, and is then named."""
    file = written(tmp_path, [piece([1, 2]), piece([5, 9])])
    path = tmp_path / "a.run"
    content = path.read_bytes()
    place = content.rindex(b"value 9")
    path.write_bytes(content[:place] + b"VALUE 9" + content[place + 7 :])
    first, second = open_run(path, file, TABLE).layer.pages
    assert first.load().codes.tolist() == [1, 2]
    with pytest.raises(StateDamaged, match=re.escape(f"{path} is damaged: page 1")):
        second.load()


def test_no_rows_are_no_run(tmp_path: Path) -> None:
    """Without a row there is no file, and nothing is left on the disk."""
    for pieces in ([], [piece([])]):
        assert write_run(tmp_path, "a.run", TABLE, pieces, deletions=False) is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_never_written_twice(tmp_path: Path) -> None:
    """A name that is taken is refused, and what has it stays as it is."""
    written(tmp_path, [piece([1])])
    before = (tmp_path / "a.run").read_bytes()
    with pytest.raises(StateError, match="exists already"):
        write_run(tmp_path, "a.run", TABLE, [piece([2])], deletions=False)
    assert (tmp_path / "a.run").read_bytes() == before


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    """When the rows fail to come, the file that was begun is removed."""

    def failing() -> object:
        yield piece([1])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_run(tmp_path, "a.run", TABLE, failing(), deletions=False)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [0, 1, 19, 20, 100, -21, -20, -9, -1])
def test_a_cut_run_is_refused(tmp_path: Path, length: int) -> None:
    """A run cut at any length is refused by name, even by who does not know its size."""
    file = written(tmp_path, [piece(range(50))])
    path = tmp_path / "a.run"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(StateError, match=re.escape(str(path))):
        codes_of(path, file)


def test_another_format_is_refused(tmp_path: Path) -> None:
    """A run of another version is refused with both versions."""
    file = written(tmp_path, [piece([1])])
    path = tmp_path / "a.run"
    path.write_bytes(path.read_bytes()[:-3] + b"002")
    with pytest.raises(StateFormatMismatch, match="has format 002; this version reads format 001"):
        open_run(path, file, TABLE)


def test_another_table_is_refused(tmp_path: Path) -> None:
    """A run that was put in the place of another is refused by its columns."""
    file = written(tmp_path, [piece([1])])
    other = TableSchema("totals", TABLE.key, pa.schema([("v", pa.int64())]), hashes=HOLDFAST_HASHES)
    with pytest.raises(StateMismatch, match="value columns v string"):
        open_run(tmp_path / "a.run", file, other)


def test_stamps_come_and_go(tmp_path: Path) -> None:
    """A run with stamps is read without, and one without is read with such that never expire."""
    (tmp_path / "with").mkdir()
    with_stamps = written(tmp_path / "with", [piece([1, 2], stamp=True)], schema=STAMPED)
    without = written(tmp_path, [piece([1, 2])])
    for path, file, schema, stamps in (
        (tmp_path / "with", with_stamps, STAMPED, [10, 20]),
        (tmp_path / "with", with_stamps, TABLE, None),
        (tmp_path, without, STAMPED, [NEVER_MS, NEVER_MS]),
        (tmp_path, without, TABLE, None),
    ):
        (page,) = open_run(path / "a.run", file, schema).layer.pages
        rows = page.load()
        assert (None if rows.stamps_ms is None else rows.stamps_ms.tolist()) == stamps
        assert rows.values[0].to_pylist() == ["value 1", "value 2"]


def test_a_state_of_several_pages(tmp_path: Path) -> None:
    """A table larger than a page is looked up, changed, merged and scanned across its pages."""
    rows = PAGE_ROWS + PAGE_ROWS // 2
    schema = TableSchema(
        "totals",
        key=pa.schema([("k", pa.int64())]),
        value=pa.schema([("v", pa.int64())]),
        hashes=HOLDFAST_HASHES,
    )
    numbers = np.arange(rows)
    # Pairs of one code, so that a page could end within one.
    hashes = Hashes((numbers + 1) // 2 * 1000, np.zeros(rows, np.int32))
    store = open_store(tmp_path, [schema])
    with store.begin(0, now_ms=0) as transaction:
        table = transaction.table("totals")
        table.put(table.keys({"k": numbers}, hashes), {"v": numbers})
        first = transaction.commit()
    (file,) = first.files
    pages = open_run(tmp_path / file.name, file, schema).layer.pages
    assert len(pages) > 1
    assert all(one.last < other.first for one, other in pairwise(pages))
    changed = numbers[::2]
    gone = numbers[1::1000]
    for epoch in (1, 2):
        with store.begin(epoch, now_ms=0) as transaction:
            table = transaction.table("totals")
            some = Hashes(hashes.lookup[changed], hashes.partition[changed])
            table.put(table.keys({"k": changed}, some), {"v": -changed})
            some = Hashes(hashes.lookup[gone], hashes.partition[gone])
            table.delete(table.keys({"k": gone}, some))
            second = transaction.commit()
    assert file not in second.files, "it was to be merged"
    expected = numbers.copy()
    expected[changed] *= -1
    here = np.ones(rows, np.bool_)
    here[gone] = False
    with open_store(tmp_path, [schema], snapshots=[second]).begin(3, now_ms=0) as transaction:
        table = transaction.table("totals")
        lookup = table.get(table.keys({"k": numbers}, hashes))
        assert (lookup.found == here).all()
        assert (lookup.values["v"].drop_null().to_numpy() == expected[here]).all()
        scanned = pa.Table.from_batches(list(table.scan())).sort_by("k")
        assert (scanned["v"].to_numpy() == expected[here]).all()


def test_codes_keep_their_order() -> None:
    """Codes of times sort as the times do, also far from 1970; those of entries by their owner."""
    times = np.array([-(2**60), -(10**15), -1, 0, 1, 10**12, 10**15, 2**60])
    codes = time_codes(times, np.full(len(times), -1, np.int64))
    assert (np.diff(codes) >= 0).all()
    for first in times.tolist():
        for last in times.tolist():
            low, high = time_range(first, last)
            inside = (times >= first) & (times <= last)
            assert ((codes >= low) & (codes <= high))[inside].all()
    owners = np.array([-(2**63), -1, 0, 2**63 - 1])
    low, high = entry_range(owners)
    for entry in (-(2**63), -1, 0, 1, 2**63 - 1):
        codes = entry_codes(owners, np.full(4, entry, np.int64))
        assert ((codes >= low) & (codes <= high)).all()
