"""Conformance of keyed state: keys and values of every type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.state import HOLDFAST_HASHES, TableSchema
from holdfast.testing.state_suite import (
    StateSuite,
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
