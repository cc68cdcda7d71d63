"""A ledger in one JSON file that people can read and compare.

Every commit rewrites the file, so it suits small ledgers. Its layout is in `json_document`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.clock import Clock, utc_now
from holdfast.ledger.book import Book, BookTransaction
from holdfast.ledger.contract import FORMAT_VERSION, Record
from holdfast.ledger.file_errors import file_errors
from holdfast.ledger.file_lock import FileLock
from holdfast.ledger.files import make_parents, sync_directory
from holdfast.ledger.formats import check_format
from holdfast.ledger.guarding import GuardedLedger, GuardedTransaction
from holdfast.ledger.json_document import Document, decode, encode
from holdfast.ledger.waiting import Deadline, WriterTurn, writer_turn

_Identity = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A parsed file, with a descriptor of it that is kept open.

    While it is open no other file can get its inode number, so a file of another process that
    happens to agree in time and size is never taken for this one.
    """

    descriptor: int
    identity: _Identity
    book: Book


class JsonLedger(GuardedLedger):
    """A ledger in a JSON file; created, with its directory, if it is not there."""

    def __init__(
        self, path: str | Path, *, timeout_s: float = 10.0, clock: Clock = utc_now
    ) -> None:
        super().__init__(str(path), timeout_s=timeout_s, clock=clock)
        self._path = Path(path).resolve()
        self._lock = lock_of(self._path)
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        with file_errors(self.location):
            make_parents(self._path)
            if not self._path.exists():
                self._create()
            self._load()

    def _create(self) -> None:
        deadline = Deadline(self._timeout_s)
        turn = self._writer_turn()
        turn.take(self.location, deadline)
        try:
            self._lock.take(self.location, deadline)
            if not self._path.exists():
                os.close(write_document(self._path, (), FORMAT_VERSION))
        finally:
            self._lock.let_go()
            turn.give_back()

    def _writer_turn(self) -> WriterTurn:
        return writer_turn(self._path)

    def _begin(self, turn: WriterTurn | None, deadline: Deadline) -> GuardedTransaction:
        with file_errors(self.location):
            if turn is None:
                return BookTransaction(self, self._load(), None, publish=self._publish)
            self._lock.take(self.location, deadline)
            try:
                return BookTransaction(
                    self, self._load(), turn, publish=self._publish, let_go=self._lock.let_go
                )
            except BaseException:
                self._lock.let_go()
                raise

    def _load(self) -> Book:
        with self._loading:
            loaded = self._loaded
            if loaded is not None and _identity(self._path.stat()) == loaded.identity:
                return loaded.book
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                document = read_document(descriptor, self.location)
                check_format(self.location, document.format)
                book = document.book(self.location)
            except BaseException:
                os.close(descriptor)
                raise
            self._keep(descriptor, book)
            return book

    def _publish(self, book: Book) -> None:
        with file_errors(self.location):
            descriptor = write_document(self._path, book, FORMAT_VERSION)
            with self._loading:
                self._keep(descriptor, book)

    def _keep(self, descriptor: int, book: Book) -> None:
        previous = self._loaded
        self._loaded = _Loaded(descriptor, _identity(os.fstat(descriptor)), book)
        if previous is not None:
            os.close(previous.descriptor)

    def _close(self) -> None:
        with self._loading:
            loaded, self._loaded = self._loaded, None
            if loaded is not None:
                os.close(loaded.descriptor)

    def _after_fork(self) -> None:
        self._loading = threading.Lock()
        self._lock.forget()


def lock_of(path: Path) -> FileLock:
    """Return the lock that every writer of a JSON ledger takes."""
    return FileLock(path.with_name(f"{path.name}.lock"))


def read_document(descriptor: int, location: str) -> Document:
    """Read a whole document from an open file."""
    with open(descriptor, "rb", closefd=False) as file:
        return decode(file.read(), location)


def write_document(path: Path, records: Iterable[Record], format_version: int) -> int:
    """Replace the file by a new document, durably, and return a descriptor of it.

    The caller holds the lock, so the temporary file, if there is one, is a dead writer's.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(encode(records, format_version))
        with suppress(FileNotFoundError):
            os.fchmod(descriptor, path.stat().st_mode)
        os.fsync(descriptor)
        temporary.replace(path)
        sync_directory(path.parent)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
    return descriptor


def _identity(stat: os.stat_result) -> _Identity:
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
