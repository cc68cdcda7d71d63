"""A running RocksDB: one working directory, bulk reads, one batch a write, scans in pieces."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from holdfast import failpoints
from holdfast.errors import DiskFull, StateError
from holdfast.state import files
from holdfast.state.backends.rocksdb.layout import RowLayout, same_code
from holdfast.state.backends.rocksdb.options import (
    RocksDBOptions,
    database_options,
    rocksdict,
    write_options,
)
from holdfast.state.files import Directory
from holdfast.state.rows import Ranges, Rows
from holdfast.state.snapshot import StateFile

PIECE_ROWS: Final = 1 << 16
"""Rows in a piece of a scan."""

SST: Final = "sst"
"""The role of the files that hold the rows."""

_FEW_RANGES: Final = 16
"""Up to so many ranges each has an iterator of its own, which is faster on long ranges."""

_Pairs: TypeAlias = tuple[Sequence[bytes], Sequence[bytes]]
"""Keys and values of the database."""

_DATABASE_FILE: Final = re.compile(r"\d+\.sst|MANIFEST-\d+|CURRENT")
_FULL: Final = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
_UNLINKABLE: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}


class Database:
    """A RocksDB in a working directory that nobody else uses."""

    def __init__(
        self,
        path: Path,
        directory: Directory,
        options: RocksDBOptions,
        snapshot: Sequence[StateFile],
    ) -> None:
        self.path = path
        self.origins = sst_files(snapshot)
        """The SST files of the last snapshot, by the names that RocksDB knows them under."""
        self._directory = directory
        self._rocks = rocksdict()
        self._database: Any = None
        self._lock: int | None = _claim(path)
        try:
            for file in snapshot:
                directory.verify(file)
                _bring(directory.path / file.name, path / local_name(file), file.role)
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

    def write(self, changes: Sequence[tuple[RowLayout, Rows]]) -> None:
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

    def scan(self, layout: RowLayout, ranges: Ranges) -> Iterator[Rows]:
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
                if not (ahead.valid() and same_code(ahead.key(), keys[-1])):
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
                if len(keys) >= PIECE_ROWS and not same_code(key, keys[-1]):
                    yield keys, values
                    keys, values = [], []
                keys.append(key)
                values.append(place.value())
                place.next()
            else:
                place.status()
        if keys:
            yield keys, values

    def drop(self, layout: RowLayout) -> None:
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
    if role == SST:
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


def local_name(file: StateFile) -> str:
    """Return the name under which RocksDB knows a file."""
    return Path(file.name).name


def sst_files(snapshot: Sequence[StateFile]) -> dict[str, StateFile]:
    return {local_name(file): file for file in snapshot if file.role == SST}
