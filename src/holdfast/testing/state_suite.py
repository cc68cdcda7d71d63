"""What the parts of the conformance suite of keyed state share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pytest

from holdfast.state import (
    HOLDFAST_HASHES,
    TTL,
    Directory,
    Hashes,
    Keys,
    Partition,
    Snapshot,
    StateFile,
    Store,
    Table,
    TableSchema,
    Transaction,
)
from holdfast.state.changelog import ROLE as CHANGELOG

Plain = tuple[Any, ...]
"""The columns of a key or of a value as plain Python objects that can be compared."""

Hasher = Callable[[Sequence[Plain]], Hashes]
"""Gives keys other hashes than their own."""

NO_LIMIT: Final = 2**40


def single(
    name: str = "items", key: pa.DataType | None = None, value: pa.DataType | None = None
) -> TableSchema:
    """Declare a table with one key column `k` and one value column `v`."""
    return TableSchema(
        name,
        key=pa.schema([("k", key or pa.int64())]),
        value=pa.schema([("v", value or pa.string())]),
        hashes=HOLDFAST_HASHES,
    )


ITEMS: Final = single()
"""What most tests write to."""


@dataclass(frozen=True)
class Stored:
    """A row as the back door found it."""

    value: Plain
    partition_hash: int
    stamp_ms: int | None = None


class StateSuite:
    """The hooks a backend fills in, and what the tests share."""

    removes_expired_at_compaction: ClassVar[bool] = True
    """Whether rewriting a table leaves its expired rows out."""

    writes_whole_tables: ClassVar[bool] = False
    """Whether a checkpoint writes all of a table that has changed at all."""

    epochs_to_compaction: ClassVar[int] = 8
    """After so many epochs that overwrite everything, old rows have been merged away."""

    place: Path
    """The directory of the operator; another one for every test."""

    @abstractmethod
    def open(
        self,
        tables: Sequence[TableSchema],
        *,
        snapshots: Sequence[Snapshot] = (),
        partition: Partition | None = None,
        ttl: Mapping[str, TTL] | None = None,
        cache_bytes: int = NO_LIMIT,
        attempt: str = "",
        drop: Sequence[str] = (),
    ) -> Store:
        """Open a store in `self.place`; the arguments are those of `open_store`."""

    @abstractmethod
    def checkpointed(
        self, snapshot: Snapshot, files: Sequence[StateFile], table: str
    ) -> dict[Plain, Stored]:
        """Return the rows of a table in the files of a snapshot, those of a changelog excepted.

        It must not use the backend, so that no backend is tested by itself. `stored_in_runs`
        does it for backends that write runs.
        """

    def holds_rows(self, file: StateFile) -> bool:
        """Say whether a file holds rows, and is not there for the backend's own bookkeeping."""
        return True

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path / "operator"

    def stored(self, snapshot: Snapshot, table: str = ITEMS.name) -> dict[Plain, Stored]:
        """Return the committed rows of a table, read through the back door."""
        files = [file for file in snapshot.files if file.role != CHANGELOG]
        rows = self.checkpointed(snapshot, files, table) if files else {}
        logs = [file for file in snapshot.files if file.role == CHANGELOG]
        keys = _key_names(snapshot, table)
        for file in logs:
            if file.table == table:
                overlay(rows, self.place / file.name, keys)
        return rows

    def values(self, snapshot: Snapshot, table: str = ITEMS.name) -> dict[Plain, Plain]:
        """Return the committed values of a table, read through the back door."""
        return {key: row.value for key, row in self.stored(snapshot, table).items()}

    def row_files(self, snapshot: Snapshot) -> list[str]:
        """Return the names of the files of a snapshot that hold rows."""
        return [file.name for file in snapshot.files if self.holds_rows(file)]

    def new_rows(self, snapshot: Snapshot) -> set[str]:
        """Return the names of the new files of a snapshot that hold rows."""
        return set(self.row_files(snapshot)) & snapshot.new

    def verify(self, snapshot: Snapshot) -> None:
        """See that every file is there with the recorded size and checksum."""
        for file in snapshot.files:
            Directory(self.place).verify(file)

    def stored_in_runs(
        self, snapshot: Snapshot, files: Sequence[StateFile], table: str
    ) -> dict[Plain, Stored]:
        """Merge runs by hand, for backends that write nothing else."""
        rows: dict[Plain, Stored] = {}
        for file in files:
            if file.table == table:
                overlay(rows, self.place / file.name, _key_names(snapshot, table))
        return rows


def _key_names(snapshot: Snapshot, table: str) -> list[str]:
    schema = snapshot.table(table)
    return [] if schema is None else list(schema.key.names)


def overlay(rows: dict[Plain, Stored], path: Path, keys: Sequence[str]) -> None:
    """Put the rows of a run on top of older ones; a run is an Arrow stream like any other."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        content = stream.read_all().to_pylist(maps_as_pydicts=None)
    for row in content:
        del row["__code"]
        key = plain(row.pop(name) for name in keys)
        partition_hash, stamp_ms = row.pop("__partition_hash"), row.pop("__stamp", None)
        if row.pop("__dead", False):
            rows.pop(key, None)
        else:
            rows[key] = Stored(plain(row.values()), partition_hash, stamp_ms)


def plain(columns: Iterable[Any]) -> Plain:
    """Return columns of a row so that equal rows are equal: NaN too, and lists are tuples."""
    return tuple(_plain(value) for value in columns)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Mapping):
        return tuple((name, _plain(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value


def columns(schema: pa.Schema, rows: Sequence[Plain]) -> dict[str, pa.Array]:
    """Return rows as the columns of a batch."""
    return {
        field.name: pa.array([row[number] for row in rows], field.type)
        for number, field in enumerate(schema)
    }


def keys_of(table: Table, keys: Iterable[Any], hashes: Hasher | None = None) -> Keys:
    """Return keys of a table; where it has one key column, the values alone will do."""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    return table.keys(columns(table.schema.key, rows), hashes and hashes(rows))


def put(
    transaction: Transaction,
    items: Mapping[Any, Any] | Sequence[tuple[Any, Any]],
    schema: TableSchema = ITEMS,
    *,
    hashes: Hasher | None = None,
) -> None:
    """Put values under keys; single columns need not be tuples."""
    pairs = list(items.items()) if isinstance(items, Mapping) else list(items)
    table = transaction.table(schema.name)
    values = [value if isinstance(value, tuple) else (value,) for _, value in pairs]
    keys = keys_of(table, [key for key, _ in pairs], hashes)
    table.put(keys, columns(schema.value, values))


def delete(
    transaction: Transaction,
    keys: Iterable[Any],
    schema: TableSchema = ITEMS,
    *,
    hashes: Hasher | None = None,
) -> None:
    """Delete keys."""
    table = transaction.table(schema.name)
    table.delete(keys_of(table, keys, hashes))


def get(
    transaction: Transaction,
    keys: Iterable[Any],
    schema: TableSchema = ITEMS,
    *,
    hashes: Hasher | None = None,
) -> list[Plain | None]:
    """Return the values of keys in the order of the keys, `None` where there is none."""
    table = transaction.table(schema.name)
    lookup = table.get(keys_of(table, keys, hashes))
    rows = _rows(lookup.values)
    if not schema.value.names:
        rows = [()] * len(lookup)
    return [row if found else None for row, found in zip(rows, lookup.found, strict=True)]


def scan(transaction: Transaction, schema: TableSchema = ITEMS) -> dict[Plain, Plain]:
    """Return everything in a table; a key that comes twice is an error."""
    found: dict[Plain, Plain] = {}
    for batch in transaction.table(schema.name).scan():
        for row in _rows(batch):
            key, value = row[: len(schema.key)], row[len(schema.key) :]
            assert key not in found, f"{key} came twice"
            found[key] = value
    return found


def _rows(batch: pa.RecordBatch) -> list[Plain]:
    lists = [column.to_pylist() for column in batch.columns]
    return [plain(row) for row in zip(*lists, strict=True)]


def commit(
    store: Store,
    epoch: int,
    puts: Mapping[Any, Any] | Sequence[tuple[Any, Any]] = (),
    deletes: Sequence[Any] = (),
    schema: TableSchema = ITEMS,
    *,
    now_ms: int = 0,
    hashes: Hasher | None = None,
) -> Snapshot:
    """Delete and put in a transaction of its own, and commit it."""
    with store.begin(epoch, now_ms=now_ms) as transaction:
        if deletes:
            delete(transaction, deletes, schema, hashes=hashes)
        if puts:
            put(transaction, puts, schema, hashes=hashes)
        return transaction.commit()


def look(store: Store, schema: TableSchema = ITEMS, *, now_ms: int = 0) -> dict[Plain, Plain]:
    """Return everything in a table of a store between two transactions."""
    with store.begin(store.epoch + 1, now_ms=now_ms) as transaction:
        return scan(transaction, schema)


def rows_of(items: Mapping[Any, Any]) -> dict[Plain, Plain]:
    """Return what `look` and `values` say of a table that has one key and one value column."""
    return {plain([key]): plain([value]) for key, value in items.items()}


def colliding(*, groups: int = 1) -> Hasher:
    """Return hashes of which there are so many different ones; the partition hash is the key's."""

    def hashes(keys: Sequence[Plain]) -> Hashes:
        numbers = [hash(key) for key in keys]
        lookup = [number % groups - groups // 2 for number in numbers]
        partition = [(number * 2654435761 + 97) % 2**32 - 2**31 for number in numbers]
        return Hashes(np.array(lookup, np.int64), np.array(partition, np.int32))

    return hashes
