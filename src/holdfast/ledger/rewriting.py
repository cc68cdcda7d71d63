"""Exclusive access to everything a ledger file of any format holds, to replace it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from holdfast.ledger import sqlite_schema as schema
from holdfast.ledger.contract import Record
from holdfast.ledger.file_errors import file_errors
from holdfast.ledger.files import sync_directory
from holdfast.ledger.json_document import Document
from holdfast.ledger.json_file import lock_of, read_document, write_document
from holdfast.ledger.opening import is_json
from holdfast.ledger.sqlite_errors import sqlite_errors
from holdfast.ledger.sqlite_waiting import wait
from holdfast.ledger.waiting import Deadline, writer_turn


class Rewriting(Protocol):
    """A ledger file that nobody else can write until this is over."""

    format: int

    def records(self) -> list[Record]:
        """Return every version of every record."""

    def copy_to(self, path: Path) -> None:
        """Save the file as it is."""

    def replace(self, records: Iterable[Record], format_version: int) -> None:
        """Store these versions instead, in one atomic change."""


@contextmanager
def rewriting(location: str | Path, timeout_s: float) -> Iterator[Rewriting]:
    """Keep every other writer out of a ledger file for the length of a block."""
    path, deadline = Path(location).resolve(), Deadline(timeout_s)
    turn = writer_turn(path)
    turn.take(str(location), deadline)
    try:
        opening = _json if is_json(path) else _sqlite
        with opening(str(location), path, deadline) as opened:
            yield opened
    finally:
        turn.give_back()


@contextmanager
def _json(location: str, path: Path, deadline: Deadline) -> Iterator[Rewriting]:
    lock = lock_of(path)
    with file_errors(location):
        lock.take(location, deadline)
        try:
            with path.open("rb") as file:
                document = read_document(file.fileno(), location)
            yield _JsonRewriting(location, path, document)
        finally:
            lock.let_go()


class _JsonRewriting:
    def __init__(self, location: str, path: Path, document: Document) -> None:
        self.format = document.format
        self._location = location
        self._path = path
        self._document = document

    def records(self) -> list[Record]:
        return list(self._document.book(self._location))

    def copy_to(self, path: Path) -> None:
        shutil.copy2(self._path, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        sync_directory(path.parent)

    def replace(self, records: Iterable[Record], format_version: int) -> None:
        os.close(write_document(self._path, records, format_version))


@contextmanager
def _sqlite(location: str, path: Path, deadline: Deadline) -> Iterator[Rewriting]:
    with (
        sqlite_errors(location, path),
        closing(wait(location, path, deadline, lambda: schema.connect(path, location))) as own,
    ):
        found = wait(location, path, deadline, lambda: schema.begin(own, "BEGIN IMMEDIATE"))
        try:
            yield _SqliteRewriting(location, path, own, found)
        finally:
            if own.in_transaction:
                own.execute("ROLLBACK")


class _SqliteRewriting:
    def __init__(
        self, location: str, path: Path, connection: sqlite3.Connection, found: int
    ) -> None:
        self.format = found
        self._location = location
        self._path = path
        self._connection = connection

    def records(self) -> list[Record]:
        return schema.every_record(self._connection)

    def copy_to(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        # Not through the writing connection: SQLite copies only outside a transaction.
        with closing(schema.connect(self._path, self._location)) as reader:
            reader.execute("VACUUM INTO ?", (str(path),))
        sync_directory(path.parent)

    def replace(self, records: Iterable[Record], format_version: int) -> None:
        self._connection.execute("DELETE FROM records")
        schema.insert(self._connection, records)
        schema.set_format(self._connection, format_version)
        self._connection.execute("COMMIT")
