"""The conformance suite over every backend, each with and without a changelog."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import rocksdict

from holdfast.state import Snapshot, StateFile, Store, TableSchema, open_store
from holdfast.state.rowcodec import RowCodec
from holdfast.testing.state import Plain, StateConformance, Stored, plain


class _Everywhere(StateConformance):
    """Opens stores by the name of their backend and closes them in the end."""

    backend: ClassVar[str]
    changelog: ClassVar[bool] = False
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        self._stores: list[Store] = []
        yield
        for store in self._stores:
            store.close()

    def open(self, tables: Sequence[TableSchema], **options: Any) -> Store:
        store = open_store(
            self.place,
            tables,
            backend=self.backend,
            options=self.options,
            changelog=self.changelog,
            materialize_every=3,
            **options,
        )
        self._stores.append(store)
        return store

    def checkpointed(
        self, snapshot: Snapshot, files: Sequence[StateFile], table: str
    ) -> dict[Plain, Stored]:
        return self.stored_in_runs(snapshot, files, table)


class TestArrow(_Everywhere):
    """The arrow backend conforms; its back door is a reader of Arrow streams."""

    backend = "arrow"


class TestArrowChangelog(TestArrow):
    """The same with a changelog, whose segments are Arrow streams too."""

    changelog = True


class TestArrowSpilling(TestArrow):
    """The same with next to no memory for what is not checkpointed yet."""

    options: ClassVar[dict[str, Any]] = {"pending_bytes": 1000}


class TestHeap(_Everywhere):
    """The heap backend conforms; its back door is a reader of Arrow streams."""

    backend = "heap"
    writes_whole_tables = True


class TestHeapChangelog(TestHeap):
    """The same with a changelog, whose segments are Arrow streams too."""

    changelog = True
    writes_whole_tables = False


class TestRocksDB(_Everywhere):
    """The RocksDB backend conforms; its back door is a copy opened with rocksdict.

    Its rows are decoded with the backend's own `RowCodec`; the bytes themselves are fixed in
    `test_rocksdb.py` and `test_rowcodec.py`.
    """

    backend = "rocksdb"
    removes_expired_at_compaction = False

    def holds_rows(self, file: StateFile) -> bool:
        return file.role in ("sst", "changelog")

    def checkpointed(
        self, snapshot: Snapshot, files: Sequence[StateFile], table: str
    ) -> dict[Plain, Stored]:
        with tempfile.TemporaryDirectory() as copy:
            for file in files:
                shutil.copy(self.place / file.name, copy)
            return _database_rows(Path(copy), snapshot, table)


class TestRocksDBChangelog(TestRocksDB):
    """The same with a changelog, whose segments are Arrow streams."""

    changelog = True


def _database_rows(path: Path, snapshot: Snapshot, table: str) -> dict[Plain, Stored]:
    tables, details = {one.name: one for one in snapshot.tables}, snapshot.details
    if "base" in details:
        stored = [TableSchema.from_document(one) for one in details["base"]["tables"]]
        tables, details = {one.name: one for one in stored}, details["base"]["details"]
    if table not in tables:
        return {}
    schema, numbers = tables[table], details["table_numbers"]
    stamp = [("stamp", "<i8")] if schema.stamped else []
    key_codec = RowCodec(schema.stored_key, [("table", ">u2"), ("code", ">u8")])
    value_codec = RowCodec(schema.stored_value, [("partition", "<i4"), *stamp])
    options = rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(
        str(path), options, access_type=rocksdict.AccessType.read_only(False)
    )
    try:
        prefix = numbers[table].to_bytes(2, "big")
        pairs = [pair for pair in database.items() if pair[0].startswith(prefix)]
    finally:
        database.close()
    if not pairs:
        return {}
    _, key_columns = key_codec.decode([key for key, _ in pairs])
    head, value_columns = value_codec.decode([value for _, value in pairs])
    keys = zip(*(column.to_pylist() for column in key_columns), strict=True)
    values = zip(*(column.to_pylist() for column in value_columns), strict=True)
    stamps = head.get("stamp", np.full(len(pairs), -1))
    return {
        plain(key): Stored(plain(value), int(hash_), int(when) if schema.stamped else None)
        for key, value, hash_, when in zip(keys, values, head["partition"], stamps, strict=True)
    }
