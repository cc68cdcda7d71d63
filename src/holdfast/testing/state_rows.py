"""Conformance of keyed state: what is put is found, under every type of key and value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.state import HOLDFAST_HASHES, Hashes, Ranges, TableSchema
from holdfast.testing.state_suite import (
    ITEMS,
    Hasher,
    Plain,
    StateSuite,
    colliding,
    columns,
    commit,
    delete,
    get,
    keys_of,
    look,
    plain,
    put,
    rows_of,
    scan,
    single,
)

KEYS: list[tuple[str, pa.DataType, list[Any]]] = [
    *(
        (str(kind), kind, [0, 1, -1, low, high, None])
        for kind, low, high in (
            (pa.int8(), -(2**7), 2**7 - 1),
            (pa.int16(), -(2**15), 2**15 - 1),
            (pa.int32(), -(2**31), 2**31 - 1),
            (pa.int64(), -(2**63), 2**63 - 1),
        )
    ),
    *(
        (str(kind), kind, [0, 1, high, None])
        for kind, high in (
            (pa.uint8(), 2**8 - 1),
            (pa.uint16(), 2**16 - 1),
            (pa.uint32(), 2**32 - 1),
            (pa.uint64(), 2**64 - 1),
        )
    ),
    ("string", pa.string(), ["", "a", "ab", "é", "😀", "a\x00b", "x" * 5000, None]),
    ("large_string", pa.large_string(), ["", "a", "ab", None]),
    ("binary", pa.binary(), [b"", b"\x00", b"\x00\x00", b"\xff" * 300, None]),
    ("fixed_binary", pa.binary(8), [b"\x00" * 8, b"12345678", None]),
    ("short_fixed_binary", pa.binary(3), [b"\x00" * 3, b"123", None]),
    ("bool", pa.bool_(), [True, False, None]),
    (
        "timestamp",
        pa.timestamp("us", "UTC"),
        [
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2025, 3, 15, 14, 30, tzinfo=UTC),
            None,
        ],
    ),
    ("date", pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31), None]),
    ("time", pa.time64("us"), [time(0), time(23, 59, 59, 999999), None]),
    ("duration", pa.duration("us"), [timedelta(0), timedelta(days=-1, microseconds=3), None]),
    (
        "decimal",
        pa.decimal128(38, 10),
        [Decimal(0), Decimal("-0.0000000001"), Decimal("9999999999999999999999999999"), None],
    ),
    ("float32", pa.float32(), [0.0, 0.5, -0.5, math.inf, -math.inf, math.nan, None]),
    ("float64", pa.float64(), [0.0, 5e-324, 1.7e308, math.inf, -math.inf, math.nan, None]),
]

VALUES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("list", pa.list_(pa.int32()), [[], [1, None, -3], None, [7] * 1000]),
    ("struct", pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None]),
    ("struct of nulls", pa.struct([("a", pa.int64())]), [{"a": None}, None, {"a": 3}]),
    ("map", pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
    (
        "list of struct",
        pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.float64()))])),
        [[{"a": "x", "b": [1.5, None]}, {"a": None, "b": None}, None], [], None],
    ),
    ("list of map", pa.list_(pa.map_(pa.string(), pa.string())), [[[("k", "v")], []], None]),
    ("fixed list", pa.list_(pa.int16(), 3), [[1, 2, 3], None]),
    ("binary", pa.binary(), [b"", b"\x00\xff", None]),
    ("decimal", pa.decimal128(20, 2), [Decimal("1.25"), None]),
    ("float", pa.float64(), [math.nan, -0.0, None]),
    ("timestamp", pa.timestamp("us"), [datetime(2025, 3, 15, 14, 30), None]),  # noqa: DTZ001
    ("dictionary", pa.dictionary(pa.int32(), pa.string()), ["a", None, "b"]),
    ("bool", pa.bool_(), [True, False, None]),
]


def _ids(cases: list[tuple[str, pa.DataType, list[Any]]]) -> list[str]:
    return [name for name, _, _ in cases]


class RowConformance(StateSuite):
    """Puts, gets, deletes."""

    def test_what_is_put_is_found(self) -> None:
        """Values are found in the transaction, after it, in the files and after reopening."""
        items = {number: f"value {number}" for number in range(-50, 50)}
        store = self.open([ITEMS])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, items)
            assert scan(transaction) == rows_of(items)
            first = transaction.commit()
        assert look(store) == rows_of(items)
        assert self.values(first) == rows_of(items)
        again = self.open([ITEMS], snapshots=[first])
        assert again.epoch == 0
        assert look(again) == rows_of(items)

    def test_an_answer_is_in_the_order_of_the_keys(self) -> None:
        """Keys may be asked for in any order, more than once, absent ones among them."""
        store = self.open([ITEMS])
        snapshot = commit(store, 0, {1: "one", 2: "two", 3: None})
        for opened in (store, self.open([ITEMS], snapshots=[snapshot])):
            with opened.begin(1, now_ms=0) as transaction:
                put(transaction, {4: "four"})
                assert get(transaction, [4, 3, 9, 1, 1, 2, 9, 4]) == [
                    ("four",),
                    (None,),
                    None,
                    ("one",),
                    ("one",),
                    ("two",),
                    None,
                    ("four",),
                ]

    def test_a_null_value_is_not_an_absent_key(self) -> None:
        """A key whose value is null is found, and one that was never put is not."""
        store = self.open([ITEMS])
        snapshot = commit(store, 0, {1: None})
        assert self.values(snapshot) == {(1,): (None,)}
        with self.open([ITEMS], snapshots=[snapshot]).begin(1, now_ms=0) as transaction:
            table = transaction.table(ITEMS.name)
            lookup = table.get(keys_of(table, [1, 2]))
            assert lookup.found.tolist() == [True, False]
            assert lookup.values.to_pydict() == {"v": [None, None]}

    def test_deleted_keys_are_gone(self) -> None:
        """A deleted key is absent in the transaction, the files and later ones; it may return."""
        store = self.open([ITEMS])
        commit(store, 0, {1: "a", 2: "b", 3: "c"})
        with store.begin(1, now_ms=0) as transaction:
            delete(transaction, [1, 3, 99])
            assert get(transaction, [1, 2, 3, 99]) == [None, ("b",), None, None]
            put(transaction, {3: "again"})
            assert get(transaction, [1, 3]) == [None, ("again",)]
            snapshot = transaction.commit()
        expected = rows_of({2: "b", 3: "again"})
        assert self.values(snapshot) == expected
        assert look(store) == expected
        assert look(self.open([ITEMS], snapshots=[snapshot])) == expected

    def test_everything_can_be_deleted(self) -> None:
        """A table whose every key was deleted is empty, and opens again."""
        store = self.open([ITEMS])
        commit(store, 0, dict.fromkeys(range(100), "x"))
        snapshot = commit(store, 1, deletes=range(100))
        assert self.values(snapshot) == {}
        again = self.open([ITEMS], snapshots=[snapshot])
        assert look(again) == {}
        last = commit(again, 2, {5: "y"})
        assert look(self.open([ITEMS], snapshots=[last])) == rows_of({5: "y"})

    def test_of_a_key_that_comes_twice_the_last_one_stays(self) -> None:
        """Within a batch and between batches, the last value of a key counts."""
        store = self.open([ITEMS])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, [(1, "a"), (2, "b"), (1, "c"), (1, "d"), (2, "e")])
            assert get(transaction, [1, 2]) == [("d",), ("e",)]
            put(transaction, [(2, "f")])
            snapshot = transaction.commit()
        assert self.values(snapshot) == rows_of({1: "d", 2: "f"})

    def test_empty_batches(self) -> None:
        """No keys can be put, got and deleted, in an empty store and in a filled one."""
        store = self.open([ITEMS])
        for epoch in range(2):
            with store.begin(epoch, now_ms=0) as transaction:
                put(transaction, {})
                delete(transaction, [])
                assert get(transaction, []) == []
                assert scan(transaction) == ({} if epoch == 0 else rows_of({1: "a"}))
                put(transaction, {1: "a"})
                snapshot = transaction.commit()
        assert self.values(snapshot) == rows_of({1: "a"})

    def test_an_empty_state_opens(self) -> None:
        """A checkpoint of nothing is a checkpoint."""
        snapshot = commit(self.open([ITEMS]), 0)
        store = self.open([ITEMS], snapshots=[snapshot])
        assert look(store) == {}
        assert self.values(commit(store, 1, {1: "a"})) == rows_of({1: "a"})

    def test_a_table_may_have_several_columns(self) -> None:
        """Keys of several columns, nulls among them, are told apart by every column."""
        schema = TableSchema(
            "wide",
            key=pa.schema([("a", pa.string()), ("b", pa.int32()), ("c", pa.float64())]),
            value=pa.schema([("x", pa.int64()), ("y", pa.list_(pa.string())), ("z", pa.bool_())]),
            hashes=HOLDFAST_HASHES,
        )
        parts: list[list[Any]] = [["", "a", None], [0, 1, None], [0.0, math.nan, None]]
        keys = [(a, b, c) for a in parts[0] for b in parts[1] for c in parts[2]]
        items = [(key, (number, [str(number)], None)) for number, key in enumerate(keys)]
        store = self.open([schema])
        snapshot = commit(store, 0, items, schema=schema)
        expected = {plain(key): plain(value) for key, value in items}
        assert len(expected) == 27
        assert self.values(snapshot, "wide") == expected
        again = self.open([schema], snapshots=[snapshot])
        assert look(again, schema) == expected
        with again.begin(1, now_ms=0) as transaction:
            assert get(transaction, keys, schema) == list(expected.values())

    def test_a_table_may_have_no_value(self) -> None:
        """A table of keys alone is a set."""
        schema = TableSchema(
            "seen", pa.schema([("k", pa.int64())]), pa.schema([]), hashes=HOLDFAST_HASHES
        )
        store = self.open([schema])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, [(1, ()), (2, ())], schema)
            snapshot = transaction.commit()
        again = self.open([schema], snapshots=[snapshot])
        with again.begin(1, now_ms=0) as transaction:
            assert get(transaction, [1, 2, 3], schema) == [(), (), None]
            assert scan(transaction, schema) == {(1,): (), (2,): ()}

    def test_several_tables_change_together(self) -> None:
        """The tables of an operator are told apart, and one commit covers them all."""
        tables = [single(name) for name in ("one", "two", "three")]
        store = self.open(tables)
        with store.begin(0, now_ms=0) as transaction:
            for table in tables:
                put(transaction, {1: table.name, 2: table.name}, table)
            first = transaction.commit()
        with store.begin(1, now_ms=0) as transaction:
            delete(transaction, [1], tables[0])
            put(transaction, {2: "changed"}, tables[1])
            second = transaction.commit()
        for snapshot, expected in (
            (first, [{1: "one", 2: "one"}, {1: "two", 2: "two"}, {1: "three", 2: "three"}]),
            (second, [{2: "one"}, {1: "two", 2: "changed"}, {1: "three", 2: "three"}]),
        ):
            again = self.open(tables, snapshots=[snapshot])
            for table, items in zip(tables, expected, strict=True):
                assert self.values(snapshot, table.name) == rows_of(items)
                assert look(again, table) == rows_of(items)


class TypeConformance(StateSuite):
    """Keys and values of every type."""

    @pytest.mark.parametrize(("name", "kind", "keys"), KEYS, ids=_ids(KEYS))
    def test_keys_of_every_type(self, name: str, kind: pa.DataType, keys: list[Any]) -> None:
        """Keys of every type, null among them, are found, replaced, deleted and read back."""
        schema = single(name, key=kind, value=pa.int64())
        store = self.open([schema])
        commit(store, 0, [(key, -1) for key in keys], schema=schema)
        snapshot = commit(
            store, 1, [(key, n) for n, key in enumerate(keys)], deletes=keys[:1], schema=schema
        )
        expected = {plain([key]): (n,) for n, key in enumerate(keys)}
        assert len(expected) == len(keys)
        assert self.values(snapshot, name) == expected
        again = self.open([schema], snapshots=[snapshot])
        with again.begin(2, now_ms=0) as transaction:
            assert get(transaction, keys, schema) == [(n,) for n in range(len(keys))]
            assert scan(transaction, schema) == expected
            batches = list(transaction.table(name).scan())
            assert all(batch.schema.field("k").type == kind for batch in batches)
            delete(transaction, keys[1:], schema)
            assert scan(transaction, schema) == {plain(keys[:1]): (0,)}

    @pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
    def test_floats_group_as_in_spark(self, kind: pa.DataType) -> None:
        """Every NaN is one key, -0.0 is 0.0, and null is a key of its own."""
        schema = single("floats", key=kind, value=pa.string())
        other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
        store = self.open([schema])
        commit(store, 0, [(math.nan, "nan"), (0.0, "zero"), (None, "null")], schema=schema)
        with store.begin(1, now_ms=0) as transaction:
            asked = [-math.nan, -0.0, None, float(other_nan)]
            assert get(transaction, asked, schema) == [("nan",), ("zero",), ("null",), ("nan",)]
            put(transaction, [(-0.0, "minus"), (float(other_nan), "other")], schema)
            snapshot = transaction.commit()
        expected = {("NaN",): ("other",), (0.0,): ("minus",), (None,): ("null",)}
        assert self.values(snapshot, "floats") == expected
        (key,) = [k for (k,) in self.values(snapshot, "floats") if k == 0.0]
        assert math.copysign(1, key) == 1

    @pytest.mark.parametrize(("name", "kind", "values"), VALUES, ids=_ids(VALUES))
    def test_values_of_every_type(self, name: str, kind: pa.DataType, values: list[Any]) -> None:
        """Nested values, nulls inside and outside, come back as they were put."""
        schema = single("nested", value=kind)
        items = dict(enumerate(values))
        store = self.open([schema])
        commit(store, 0, dict.fromkeys((0, 100), values[0]), schema=schema)
        snapshot = commit(store, 1, items, deletes=[100], schema=schema)
        assert self.values(snapshot, "nested") == rows_of(items)
        again = self.open([schema], snapshots=[snapshot])
        assert look(again, schema) == rows_of(items)
        with again.begin(2, now_ms=0) as transaction:
            found = get(transaction, [*items, 100], schema)
            assert found == [*(plain([value]) for value in values), None]
            table = transaction.table("nested")
            assert table.get(keys_of(table, [0])).values.schema.field("v").type == kind

    def test_values_may_be_large(self) -> None:
        """Values of more than a megabyte are stored like small ones."""
        schema = single("large", value=pa.binary())
        chance = np.random.default_rng(7)
        items = {n: chance.bytes(n * 700_000) for n in range(4)}
        store = self.open([schema])
        commit(store, 0, {2: b"small", 9: b"other"}, schema=schema)
        snapshot = commit(store, 1, items, schema=schema)
        expected = rows_of({**items, 9: b"other"})
        assert self.values(snapshot, "large") == expected
        assert look(self.open([schema], snapshots=[snapshot]), schema) == expected

    def test_a_batch_may_be_a_slice(self) -> None:
        """Columns that begin in the middle of their buffers are read from there."""
        schema = TableSchema(
            "sliced",
            key=pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.decimal128(10, 2))]),
            value=pa.schema([("v", pa.bool_()), ("w", pa.list_(pa.int64()))]),
            hashes=HOLDFAST_HASHES,
        )
        keys = [(n, f"key {n}", Decimal(n) if n % 3 else None) for n in range(40)]
        values = [(n % 2 == 0, [n, None]) for n in range(40)]
        store = self.open([schema])
        with store.begin(0, now_ms=0) as transaction:
            table = transaction.table("sliced")
            batch = pa.RecordBatch.from_pydict(columns(schema.key, keys)).slice(7, 20)
            content = pa.RecordBatch.from_pydict(columns(schema.value, values)).slice(7, 20)
            table.put(table.keys(batch), content)
            snapshot = transaction.commit()
        expected = {key: plain(value) for key, value in zip(keys[7:27], values[7:27], strict=True)}
        assert self.values(snapshot, "sliced") == expected
        with self.open([schema], snapshots=[snapshot]).begin(1, now_ms=0) as transaction:
            assert get(transaction, keys[7:27], schema) == list(expected.values())


class CollisionConformance(StateSuite):
    """Keys whose hashes are equal are different keys."""

    @pytest.mark.parametrize("groups", [1, 2, 30])
    def test_colliding_keys_are_told_apart(self, groups: int) -> None:
        """Keys of one hash are put, replaced, deleted and put again without touching others."""
        hashes = colliding(groups=groups)
        expected: dict[int, str] = {}
        store = self.open([ITEMS])
        for epoch in range(2 * self.epochs_to_compaction):
            puts = {key: f"{epoch}.{key}" for key in range(epoch % 5, 60, 1 + epoch % 4)}
            deletes = list(range(epoch % 7, 60, 5))
            snapshot = commit(store, epoch, puts, deletes, hashes=hashes)
            expected = {k: v for k, v in expected.items() if k not in deletes} | puts
            assert look(store) == rows_of(expected)
            if epoch % 5 == 4:
                assert self.values(snapshot) == rows_of(expected)
                store = self.open([ITEMS], snapshots=[snapshot])
            with store.begin(epoch + 1, now_ms=0) as transaction:
                found = get(transaction, range(70), hashes=hashes)
            wanted = [(expected[key],) if key in expected else None for key in range(70)]
            assert found == wanted

    def test_colliding_keys_in_one_batch(self) -> None:
        """Of keys of one hash that alternate in a batch, each keeps its own last value."""
        hashes = colliding()
        store = self.open([ITEMS])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, [(n % 7, f"{n}") for n in range(50)], hashes=hashes)
            delete(transaction, [3, 3, 5], hashes=hashes)
            put(transaction, [(5, "back")], hashes=hashes)
            snapshot = transaction.commit()
        expected = {0: "49", 1: "43", 2: "44", 4: "46", 5: "back", 6: "48"}
        assert self.values(snapshot) == rows_of(expected)
        assert look(self.open([ITEMS], snapshots=[snapshot])) == rows_of(expected)

    @pytest.mark.parametrize("spread", ["even", "crowded", "clustered", "ends"])
    def test_what_is_searched_often_is_found(self, spread: str) -> None:
        """Keys are found however often they are looked for and however their codes lie."""
        rows = 9_000
        numbers, ends = np.arange(rows), np.iinfo(np.int64)
        codes = {
            "even": (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64),
            "crowded": numbers // 100,
            "clustered": np.where(numbers < rows // 2, ends.min + numbers, 2**62 + numbers * 2**40),
            "ends": np.where(numbers % 2, ends.min + numbers // 4, ends.max - numbers // 4),
        }[spread]
        schema = single(value=pa.int64())
        store = self.open([schema])
        here = numbers % 3 != 0
        with store.begin(0, now_ms=0) as transaction:
            table = transaction.table("items")
            hashes = Hashes(codes, np.zeros(rows, np.int32))
            some = Hashes(codes[here], np.zeros(int(here.sum()), np.int32))
            table.put(table.keys({"k": numbers[here]}, some), {"v": numbers[here] * 7})
            snapshot = transaction.commit()
        chance = np.random.default_rng(1)
        for opened in (store, self.open([schema], snapshots=[snapshot])):
            with opened.begin(1, now_ms=0) as transaction:
                table = transaction.table("items")
                for size in (10, rows, rows, 500, rows):
                    asked = chance.choice(numbers, size)
                    part = Hashes(hashes.lookup[asked], hashes.partition[asked])
                    lookup = table.get(table.keys({"k": asked}, part))
                    assert lookup.found.tolist() == here[asked].tolist()
                    values = lookup.values.column(0).drop_null().to_numpy()
                    assert values.tolist() == (asked[here[asked]] * 7).tolist()

    def test_codes_at_the_ends(self) -> None:
        """The lowest and the highest hash there are belong to keys like any other."""
        ends = {1: -(2**63), 2: -(2**63), 3: 2**63 - 1, 4: 2**63 - 1, 5: 0, 6: -1}
        hashes = _fixed(ends)
        items = {key: str(key) for key in ends}
        store = self.open([ITEMS])
        snapshot = commit(store, 0, items, hashes=hashes)
        for opened in (store, self.open([ITEMS], snapshots=[snapshot])):
            with opened.begin(1, now_ms=0) as transaction:
                assert get(transaction, ends, hashes=hashes) == [(str(key),) for key in ends]
                assert scan(transaction) == rows_of(items)


class ScanConformance(StateSuite):
    """A scan goes through a table in the order of the codes."""

    CODES = tuple(range(-1000, 1000, 10))

    def test_a_scan_is_in_order(self) -> None:
        """Rows come by ascending code, whatever was written when, own writes included."""
        hashes = _fixed({code: code for code in range(-2000, 2000)})
        store = self.open([ITEMS])
        for epoch in range(3):
            puts = dict.fromkeys(self.CODES[epoch::3], f"{epoch}")
            snapshot = commit(store, epoch, puts, hashes=hashes)
        for opened in (store, self.open([ITEMS], snapshots=[snapshot])):
            with opened.begin(3, now_ms=0) as transaction:
                delete(transaction, self.CODES[::7], hashes=hashes)
                put(transaction, {code + 1: "own" for code in self.CODES[::5]}, hashes=hashes)
                pieces = list(transaction.table(ITEMS.name).rows())
                codes = np.concatenate([rows.codes for rows in pieces]).tolist()
            removed = set(self.CODES[::7])
            wanted = {c for c in self.CODES if c not in removed} | {c + 1 for c in self.CODES[::5]}
            assert codes == sorted(wanted)

    def test_a_long_scan_shows_every_key_once(self) -> None:
        """However a scan is cut into pieces, keys of one code are not, and own writes count."""
        rows = 70_000
        schema = single(value=pa.int64())
        keys = np.arange(rows)
        store = self.open([schema])
        for shift in (0, 1):
            # Pairs of one code, and wherever a piece ends, it may end within a pair.
            hashes = Hashes((keys + shift) // 2, np.zeros(rows, np.int32))
            with store.begin(2 * shift, now_ms=0) as transaction:
                table = transaction.table("items")
                for old in list(table.rows()):
                    table.delete(old.as_keys())
                table.put(table.keys({"k": keys}, hashes), {"v": keys})
                transaction.commit()
            with store.begin(2 * shift + 1, now_ms=0) as transaction:
                table = transaction.table("items")
                table.put(table.keys({"k": keys}, hashes), {"v": -keys})
                found = [batch.to_pydict() for batch in table.scan()]
                assert sorted(key for batch in found for key in batch["k"]) == keys.tolist()
                assert all(-key == v for b in found for key, v in zip(b["k"], b["v"], strict=True))
                transaction.commit()

    def test_a_scan_of_ranges(self) -> None:
        """Only rows of the asked-for codes come, both ends of a range included, in order."""
        hashes = _fixed({code: code for code in range(-2000, 2000)})
        store = self.open([ITEMS])
        commit(store, 0, dict.fromkeys(self.CODES, "old"), hashes=hashes)
        commit(store, 1, dict.fromkeys(self.CODES[::2], "new"), hashes=hashes)
        ranges = [(-1000, -1000), (-999, -991), (-500, -400), (7, 13), (990, 5000)]
        many = [(code, code + 3) for code in range(-990, 900, 40)]
        with store.begin(2, now_ms=0) as transaction:
            put(transaction, {8: "own", 9: "own"}, hashes=hashes)
            delete(transaction, [-450], hashes=hashes)
            present = sorted({*self.CODES, 8, 9} - {-450})
            for asked in (ranges, many, ranges[:1], ranges[1:2], [(10, 9)]):
                first, last = (np.array(ends, np.int64) for ends in zip(*asked, strict=True))
                found = [
                    code
                    for rows in transaction.table(ITEMS.name).rows(Ranges.of(first, last))
                    for code in rows.codes.tolist()
                ]
                wanted = [c for c in present if any(low <= c <= high for low, high in asked)]
                assert found == wanted

    def test_a_transaction_scans_its_own_writes(self) -> None:
        """A scan shows what the transaction put and hides what it deleted."""
        store = self.open([ITEMS])
        commit(store, 0, {1: "a", 2: "b", 3: "c"})
        with store.begin(1, now_ms=0) as transaction:
            delete(transaction, [1])
            put(transaction, {2: "changed", 4: "new"})
            delete(transaction, [4, 5])
            put(transaction, {5: "again"})
            assert scan(transaction) == rows_of({2: "changed", 3: "c", 5: "again"})

    def test_writes_during_a_scan(self) -> None:
        """A scan whose reader deletes every row it sees still sees every row once."""
        store = self.open([ITEMS], cache_bytes=200)
        items = dict.fromkeys(range(300), "x" * 50)
        commit(store, 0, items)
        seen: list[int] = []
        with store.begin(1, now_ms=0) as transaction:
            table = transaction.table(ITEMS.name)
            for rows in table.rows():
                seen += rows.keys[0].to_pylist()
                table.delete(rows.as_keys())
            assert scan(transaction) == {}
            snapshot = transaction.commit()
        assert sorted(seen) == list(items)
        assert self.values(snapshot) == {}


def _fixed(codes: dict[int, int]) -> Hasher:
    def hashes(keys: Sequence[Plain]) -> Hashes:
        lookup = np.array([codes[key] for (key,) in keys], np.int64)
        return Hashes(lookup, np.array([key % 1000 for (key,) in keys], np.int32))

    return hashes
