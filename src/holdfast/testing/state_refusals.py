"""Conformance of keyed state: what may be opened as what."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from holdfast.errors import StateDamaged, StateError, StateFormatMismatch, StateMismatch
from holdfast.state import HOLDFAST_HASHES, SPARK_HASHES, Snapshot, TableSchema
from holdfast.testing.state_suite import (
    ITEMS,
    StateSuite,
    commit,
    delete,
    look,
    put,
    rows_of,
    scan,
    single,
)


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
