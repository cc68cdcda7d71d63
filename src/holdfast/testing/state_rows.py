"""Conformance of keyed state: what is put is found, and what is deleted is not."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from holdfast.state import HOLDFAST_HASHES, TableSchema
from holdfast.testing.state_suite import (
    ITEMS,
    StateSuite,
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
