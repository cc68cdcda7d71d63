"""The backend: restoring, reading, writing and checkpointing a partition's database."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from xxhash import xxh3_64_hexdigest

from holdfast import failpoints
from holdfast.errors import StateFormatMismatch
from holdfast.state import files, rowcodec
from holdfast.state.backends.rocksdb.database import SST, Database, sst_files
from holdfast.state.backends.rocksdb.layout import RowLayout
from holdfast.state.backends.rocksdb.options import RocksDBOptions, rocksdict
from holdfast.state.contract import Backend
from holdfast.state.files import Directory
from holdfast.state.keys import Keys
from holdfast.state.rows import Hits, Ranges, Rows
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Partition, Snapshot, StateFile


class RocksDBBackend(Backend):
    """The tables of an operator partition in a RocksDB of their own."""

    name: ClassVar[str] = "rocksdb"
    caches_reads: ClassVar[bool] = True

    def __init__(
        self,
        directory: Directory,
        tables: Sequence[TableSchema],
        partition: Partition,
        *,
        attempt: str,
        options: RocksDBOptions | None = None,
    ) -> None:
        super().__init__(directory, tables, partition, attempt=attempt)
        self._options = options or RocksDBOptions()
        self._layouts: dict[str, RowLayout] = {}
        self._opened: Database | None = None
        rocksdict()  # missing, it should be missed before a batch was read

    @property
    def _database(self) -> Database:
        self.refuse_closed()
        if self._opened is None:
            self._opened = Database(self._work(), self.directory, self._options, ())
        return self._opened

    def _work(self, suffix: str = "") -> Path:
        local = self._options.local_dir
        if local is None:
            return self.directory.path / f"work-{self.attempt}{suffix}"
        # Operators share the local directory: the name says whose it is.
        operator = xxh3_64_hexdigest(os.fsencode(self.directory.path.resolve()))
        return Path(local) / f"work-{self.attempt}-{operator}{suffix}"

    def _layout(self, table: str) -> RowLayout:
        layout = self._layouts.get(table)
        if layout is None:
            used = [other.number for other in self._layouts.values()]
            layout = RowLayout(self.tables[table], max(used, default=-1) + 1)
            self._layouts[table] = layout
        return layout

    def restore(self, snapshot: Snapshot) -> None:
        """Open a snapshot's files under links of their own."""
        stored = _stored_layouts(snapshot)
        database = Database(self._work(), self.directory, self._options, snapshot.files)
        self._opened = database
        for table, layout in stored.items():
            declared = self.tables.get(table)
            if declared is None:
                database.drop(layout)
                continue
            self._layouts[table] = RowLayout(declared, layout.number)
            if declared.stamped != layout.schema.stamped:
                for rows in database.scan(layout, Ranges.everything()):
                    database.write([(self._layouts[table], rows)])

    def adopt(self, snapshot: Snapshot) -> None:
        """Copy the keys of this partition out of another split's snapshot."""
        stored = _stored_layouts(snapshot)
        other = Database(self._work("-adopt"), self.directory, self._options, snapshot.files)
        try:
            for table in self.tables.keys() & stored.keys():
                for rows in other.scan(stored[table], Ranges.everything()):
                    own = rows.where(self.partition.owns(rows.partition_hashes))
                    self._database.write([(self._layout(table), own)])
        finally:
            other.close()

    def get(self, table: str, keys: Keys) -> Hits:
        """Return the rows of some keys."""
        layout, order = self._layout(table), keys.order
        # In the order of the database, neighbours are found in the same block.
        sorted_keys = keys if order is None else keys.take(order)
        found = self._database.get(layout.keys(sorted_keys.codes, sorted_keys.columns))
        at = np.flatnonzero(np.fromiter(map(len, found), np.int64, len(found)))
        values = found if len(at) == len(found) else list(filter(None, found))
        _, stamps_ms, columns = layout.decode_values(values)
        return Hits(at if order is None else order.take(at), columns, None, stamps_ms)

    def write(self, changes: Mapping[str, Rows]) -> None:
        """Put and delete rows of several tables in one batch."""
        self._database.write([(self._layout(table), rows) for table, rows in changes.items()])

    def scan(self, table: str, ranges: Ranges) -> Iterator[Rows]:
        """Yield the rows whose codes are in some ranges, in the order of their codes."""
        # What came from another split was filtered when it was adopted.
        for rows in self._database.scan(self._layout(table), ranges):
            yield rows
            self.refuse_closed()

    def checkpoint(
        self, epoch: int, *, expired_before_ms: Mapping[str, int] | None = None
    ) -> Snapshot:
        """Flush, and link the files of the database into the directory of the epoch.

        Expired rows stay until somebody deletes them: RocksDB's compaction cannot be told
        about stamps from Python.
        """
        target = self._epoch_directory(epoch)
        self._database.checkpoint(target)
        failpoints.reach("state.create", target.name)
        made = [self._settle(path) for path in sorted(target.iterdir())]
        listed = sorted((file for file in made if file is not None), key=_reading_order)
        files.sync_directory(target)
        self.directory.sync()
        self._database.origins = sst_files(listed)
        numbers = {table: self._layout(table).number for table in self.tables}
        details = {"row_format": rowcodec.FORMAT, "table_numbers": numbers}
        return self.describe(epoch, listed, details)

    def _epoch_directory(self, epoch: int) -> Path:
        name = f"epoch-{epoch}_{self.attempt}"
        path, number = self.directory.path / name, 1
        while path.exists():  # a snapshot may name it: never write there again
            number += 1
            path = self.directory.path / f"{name}.{number}"
        return path

    def _settle(self, path: Path) -> StateFile | None:
        """Make one file of a new checkpoint durable, unless an older checkpoint has it."""
        older = self._database.origins.get(path.name)
        if older is not None and not (self.directory.path / older.name).exists():
            older = None  # nobody kept that checkpoint, and its files were cleared away
        role = _role_of(path.name)
        if older is not None or role is None:
            files.remove(path)
            return older
        files.sync_file(path)
        name = f"{path.parent.name}/{path.name}"
        return StateFile(name, path.stat().st_size, files.checksum(path), role=role)

    def close(self) -> None:
        """Close the database and remove its working directory."""
        self.closed = True
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _stored_layouts(snapshot: Snapshot) -> dict[str, RowLayout]:
    stored = snapshot.details.get("row_format")
    if stored != rowcodec.FORMAT:
        raise StateFormatMismatch(
            f"The rows of the snapshot of epoch {snapshot.epoch} have format {stored!r}; "
            f"this version reads format {rowcodec.FORMAT}.",
            hint="Open it with the version of Holdfast that wrote it.",
        )
    numbers = snapshot.details["table_numbers"]
    return {table.name: RowLayout(table, numbers[table.name]) for table in snapshot.tables}


def _role_of(name: str) -> str | None:
    """Return what a file of a checkpoint is for, or nothing if a database opens without it."""
    if name.endswith(".sst"):
        return SST
    if name == "CURRENT":
        return "current"
    return "manifest" if name.startswith("MANIFEST-") else None


def _reading_order(file: StateFile) -> tuple[int, str]:
    return ("current", "manifest", SST).index(file.role), file.name
