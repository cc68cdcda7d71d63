"""The `rocksdb` backend: a RocksDB for each operator partition.

All tables share one key space, told apart by a number in front of the key. Column families
would give every table memtables and files of its own: more files in every checkpoint, and a
checkpoint would still have to flush them all.

    key      2 bytes   number of the table, big-endian
             8 bytes   the code, big-endian, its sign bit flipped: bytes sort as codes do
             ...       the key columns, as in `rowcodec.py`
    value    4 bytes   partition hash, little-endian
             8 bytes   only in stamped tables: the stamp, little-endian
             ...       the value columns, as in `rowcodec.py`

On disk, in the directory of the operator:

    work-<attempt>/             the database as it runs; gone when the backend is closed
    work-<attempt>-adopt/       another split's snapshot while its keys are taken over
    epoch-<epoch>_<attempt>/    what a checkpoint added: CURRENT, MANIFEST-*, new *.sst

A checkpoint flushes the memtables and hard-links the files, whatever the size of the state. An
SST file never changes, so one that an older checkpoint has already goes on under the name it
has there. What a crash leaves behind is directories that no snapshot names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, islice
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from xxhash import xxh3_64_hexdigest

from holdfast import failpoints
from holdfast.errors import DiskFull, StateClosed, StateError, StateFormatMismatch
from holdfast.state import files, rowcodec
from holdfast.state.backends.rocksdb_options import (
    RocksDBOptions,
    database_options,
    rocksdict,
    write_options,
)
from holdfast.state.codes import FIRST
from holdfast.state.columns import Columns, Int64s
from holdfast.state.contract import Backend
from holdfast.state.files import Directory
from holdfast.state.keys import Keys
from holdfast.state.rowcodec import RowCodec
from holdfast.state.rows import Hits, Ranges, Rows
from holdfast.state.runs import NEVER_MS
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Partition, Snapshot, StateFile

PIECE_ROWS: Final = 1 << 16
"""Rows in a piece of a scan."""

_FEW_RANGES: Final = 16
"""Up to so many ranges each has an iterator of its own, which is faster on long ranges."""

_SST: Final = "sst"
"""The role of the files that hold the rows."""

_Pairs: TypeAlias = tuple[Sequence[bytes], Sequence[bytes]]
"""Keys and values of the database."""

_SIGN: Final = np.uint64(2**63)
_KEY_HEAD: Final = (("table", ">u2"), ("code", ">u8"))
_CODE_BYTES: Final = 10
_DATABASE_FILE: Final = re.compile(r"\d+\.sst|MANIFEST-\d+|CURRENT")
_FULL: Final = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
_UNLINKABLE: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}


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
        self._layouts: dict[str, _Layout] = {}
        self._kept: frozenset[str] = frozenset()
        """The names of the files of the last snapshot."""
        self._opened: _Database | None = None
        self._closed = False
        rocksdict()  # missing, it should be missed before a batch was read

    @property
    def _database(self) -> _Database:
        self._refuse_closed()
        if self._opened is None:
            self._opened = _Database(self._work(), self.directory, self._options, ())
        return self._opened

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StateClosed(
                f"The state of partition {self.partition} in {self.directory.path} was used "
                "after it had been closed.",
                hint="Open it again at its last checkpoint.",
            )

    def _work(self, suffix: str = "") -> Path:
        local = self._options.local_dir
        if local is None:
            return self.directory.path / f"work-{self.attempt}{suffix}"
        # Operators share the local directory: the name says whose it is.
        operator = xxh3_64_hexdigest(os.fsencode(self.directory.path.resolve()))
        return local / f"work-{self.attempt}-{operator}{suffix}"

    def _layout(self, table: str) -> _Layout:
        layout = self._layouts.get(table)
        if layout is None:
            used = [other.number for other in self._layouts.values()]
            layout = _Layout(self.tables[table], max(used, default=-1) + 1)
            self._layouts[table] = layout
        return layout

    def restore(self, snapshot: Snapshot) -> None:
        """Open a snapshot's files under links of their own."""
        stored = _stored_layouts(snapshot)
        database = _Database(self._work(), self.directory, self._options, snapshot.files)
        self._opened = database
        self._kept = frozenset(file.name for file in snapshot.files)
        for table, layout in stored.items():
            declared = self.tables.get(table)
            if declared is None:
                database.drop(layout)
                continue
            self._layouts[table] = _Layout(declared, layout.number)
            if declared.stamped != layout.schema.stamped:
                for rows in database.scan(layout, Ranges.everything()):
                    database.write([(self._layouts[table], rows)])

    def adopt(self, snapshot: Snapshot) -> None:
        """Copy the keys of this partition out of another split's snapshot."""
        stored = _stored_layouts(snapshot)
        other = _Database(self._work("-adopt"), self.directory, self._options, snapshot.files)
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
            self._refuse_closed()

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
        self._database.origins = _origins(listed)
        names = frozenset(file.name for file in listed)
        new, self._kept = names - self._kept, names
        tables = tuple(self.tables.values())
        numbers = {table: self._layout(table).number for table in self.tables}
        details = {"row_format": rowcodec.FORMAT, "table_numbers": numbers}
        return Snapshot(self.name, epoch, self.partition, tables, tuple(listed), new, details)

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
        role = _role(path.name)
        if older is not None or role is None:
            files.remove(path)
            return older
        files.sync_file(path)
        name = f"{path.parent.name}/{path.name}"
        return StateFile(name, path.stat().st_size, files.checksum(path), role=role)

    def close(self) -> None:
        """Close the database and remove its working directory."""
        self._closed = True
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class _Layout:
    """How rows of one table are keys and values of the database."""

    def __init__(self, schema: TableSchema, number: int) -> None:
        self.schema = schema
        self.number = number
        stamp = [("stamp", "<i8")] if schema.stamped else []
        self._keys = RowCodec(schema.stored_key, _KEY_HEAD)
        self._values = RowCodec(schema.stored_value, [("partition", "<i4"), *stamp])

    def keys(self, codes: Int64s, columns: Columns) -> list[bytes]:
        """Return the database's keys of some rows."""
        head = {"table": self.number, "code": codes.view(np.uint64) ^ _SIGN}
        return self._keys.encode(len(codes), columns, head)

    def values(self, rows: Rows) -> list[bytes]:
        """Return the database's values of some rows."""
        stamps = NEVER_MS if rows.stamps_ms is None else rows.stamps_ms
        head = {"partition": rows.partition_hashes, "stamp": stamps}
        return self._values.encode(len(rows), rows.values, head)

    def decode_values(self, values: Sequence[bytes]) -> tuple[Any, Int64s | None, Columns]:
        """Return partition hashes, stamps and value columns."""
        head, columns = self._values.decode(values)
        return head["partition"], head.get("stamp"), columns

    def rows(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Rows:
        """Return the rows that are stored under some keys."""
        head, key_columns = self._keys.decode(keys)
        codes = (head["code"].astype(np.uint64) ^ _SIGN).view(np.int64)
        partition_hashes, stamps_ms, value_columns = self.decode_values(values)
        return Rows(codes, partition_hashes, key_columns, value_columns, stamps_ms=stamps_ms)

    def bounds(self, ranges: Ranges) -> Iterator[tuple[bytes, bytes]]:
        """Yield the first key that can be in each range, and the first one behind it."""
        base = (self.number << 64) - FIRST
        for first, last in zip(ranges.first.tolist(), ranges.last.tolist(), strict=True):
            yield (
                (base + first).to_bytes(_CODE_BYTES, "big"),
                (base + last + 1).to_bytes(_CODE_BYTES, "big"),
            )


class _Database:
    """A RocksDB in a working directory that nobody else uses."""

    def __init__(
        self,
        path: Path,
        directory: Directory,
        options: RocksDBOptions,
        snapshot: Sequence[StateFile],
    ) -> None:
        self.path = path
        self.origins = _origins(snapshot)
        """The SST files of the last snapshot, by the names that RocksDB knows them under."""
        self._directory = directory
        self._rocks = rocksdict()
        self._database: Any = None
        self._lock: int | None = _claim(path)
        try:
            for file in snapshot:
                directory.verify(file)
                _bring(directory.path / file.name, path / _local(file), file.role)
            with self._translated("opened"):
                self._database = self._rocks.Rdict(str(path), database_options(options))
                self._database.set_write_options(write_options())
        except BaseException:
            self.close()
            raise

    def get(self, keys: list[bytes]) -> list[bytes]:
        """Return the value of every key, empty where there is none."""
        with self._translated("read"):
            values: list[bytes] = self._database.get(keys, default=b"")
        return values

    def write(self, changes: Sequence[tuple[_Layout, Rows]]) -> None:
        """Put and delete rows: all of it or nothing."""
        batch = self._rocks.WriteBatch(raw_mode=True)
        for layout, rows in changes:
            keys = layout.keys(rows.codes, rows.keys)
            if rows.dead is not None:
                deque(map(batch.delete, compress(keys, rows.dead.tolist())), maxlen=0)
                keys = list(compress(keys, (~rows.dead).tolist()))
            deque(map(batch.put, keys, layout.values(rows.alive())), maxlen=0)
        with self._translated("written"):
            self._database.write(batch)

    def scan(self, layout: _Layout, ranges: Ranges) -> Iterator[Rows]:
        """Yield the rows of some ranges, in pieces."""
        if len(ranges) > _FEW_RANGES:
            pieces = self._short_ranges(layout.bounds(ranges))
        else:
            bounds = layout.bounds(ranges)
            pieces = (piece for first, stop in bounds for piece in self._range(first, stop))
        with self._translated("read"):
            for keys, values in pieces:
                yield layout.rows(keys, values)

    def _range(self, first: bytes, stop: bytes) -> Iterator[_Pairs]:
        bounded = self._rocks.ReadOptions()
        bounded.set_iterate_upper_bound(stop)
        keys: list[bytes] = []
        values: list[bytes] = []
        more = True
        while more:
            # Two iterators of one moment take half the time of one that makes pairs.
            some_keys = self._database.keys(from_key=first, read_opt=bounded)
            some_values = self._database.values(from_key=first, read_opt=bounded)
            ahead = self._database.iter(bounded)
            ahead.seek(first)
            while piece := list(islice(some_keys, PIECE_ROWS)):
                keys += piece
                values += islice(some_values, len(piece))
                ahead.seek(keys[-1])
                ahead.next()
                if not (ahead.valid() and _same_code(ahead.key(), keys[-1])):
                    yield keys, values
                    keys, values = [], []
            # They simply end where a block cannot be read: only this iterator says so.
            ahead.status()
            more = ahead.valid()
            first = ahead.key() if more else first

    def _short_ranges(self, bounds: Iterator[tuple[bytes, bytes]]) -> Iterator[_Pairs]:
        place = self._database.iter()
        keys: list[bytes] = []
        values: list[bytes] = []
        for first, stop in bounds:
            place.seek(first)
            while place.valid():
                key = place.key()
                if key >= stop:
                    break
                if len(keys) >= PIECE_ROWS and not _same_code(key, keys[-1]):
                    yield keys, values
                    keys, values = [], []
                keys.append(key)
                values.append(place.value())
                place.next()
            else:
                place.status()
        if keys:
            yield keys, values

    def drop(self, layout: _Layout) -> None:
        """Delete all rows of a table."""
        with self._translated("written"):
            for first, stop in layout.bounds(Ranges.everything()):
                self._database.delete_range(first, stop)

    def checkpoint(self, target: Path) -> None:
        """Link everything written so far into a new directory."""
        with self._translated("checkpointed"):
            self._database.flush()
            self._rocks.Checkpoint(self._database).create_checkpoint(str(target))

    def close(self) -> None:
        """Close the database and remove the working directory."""
        if self._database is not None:
            # Closing flushes, and may fail to; what it flushes is removed anyway.
            with contextlib.suppress(Exception):
                self._database.close()
            self._database = None
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def _translated(self, done: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:  # RocksDB's errors have no type of their own
                raise
            raise self._error(str(error).strip().rstrip("."), done) from error

    def _error(self, reason: str, done: str) -> StateError | DiskFull:
        message = f"The RocksDB database {self.path} could not be {done}: {reason}."
        if any(text in reason for text in _FULL):
            return DiskFull(
                message,
                hint="Free some space; the previous checkpoint is intact and will be opened.",
            )
        if "Corruption" in reason:
            match = _DATABASE_FILE.search(reason)
            name = match[0] if match else ""
            origin = self.origins.get(name)
            path = self.path / name if origin is None else self._directory.path / origin.name
            return files.damaged(path, reason)
        return StateError(
            message, hint="See that the directory exists and that this user may write it."
        )


def _claim(path: Path) -> int:
    """Make an empty directory that is ours for as long as the returned file is open."""
    with files.translated(path, "created"):
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StateError(
                f"The working directory {path} is in use by another backend.",
                hint="Give every attempt a name of its own, or wait until the other is closed.",
            ) from None
        for stale in path.iterdir():  # left by a crash of the same attempt
            if stale.is_dir():
                shutil.rmtree(stale)
            else:
                stale.unlink()
    return lock


def _bring(source: Path, target: Path, role: str) -> None:
    """Give the database a file of a snapshot: linked if it never changes, or else copied."""
    if role == _SST:
        try:
            files.link(source, target)
            return
        except StateError as error:
            reason = error.__cause__
            if not isinstance(reason, OSError) or reason.errno not in _UNLINKABLE:
                raise
    with files.translated(target, "copied"):
        shutil.copyfile(source, target)
    failpoints.reach("state.write", target.name)


def _stored_layouts(snapshot: Snapshot) -> dict[str, _Layout]:
    stored = snapshot.details.get("row_format")
    if stored != rowcodec.FORMAT:
        raise StateFormatMismatch(
            f"The rows of the snapshot of epoch {snapshot.epoch} have format {stored!r}; "
            f"this version reads format {rowcodec.FORMAT}.",
            hint="Open it with the version of Holdfast that wrote it.",
        )
    numbers = snapshot.details["table_numbers"]
    return {table.name: _Layout(table, numbers[table.name]) for table in snapshot.tables}


def _role(name: str) -> str | None:
    """Return what a file of a checkpoint is for, or nothing if a database opens without it."""
    if name.endswith(".sst"):
        return _SST
    if name == "CURRENT":
        return "current"
    return "manifest" if name.startswith("MANIFEST-") else None


def _same_code(key: bytes, other: bytes) -> bool:
    return key[:_CODE_BYTES] == other[:_CODE_BYTES]


def _local(file: StateFile) -> str:
    """Return the name under which RocksDB knows a file."""
    return Path(file.name).name


def _origins(snapshot: Sequence[StateFile]) -> dict[str, StateFile]:
    return {_local(file): file for file in snapshot if file.role == _SST}


def _reading_order(file: StateFile) -> tuple[int, str]:
    return ("current", "manifest", _SST).index(file.role), file.name
