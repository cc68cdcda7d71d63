"""The SQLite ledger's file: one table, and numbers in the header that say what it is.

application_id  0x484F4C44 ("HOLD")
user_version    the ledger's format
records         one row per version of a record; `value` is null for a deletion
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from holdfast.clock import isoformat
from holdfast.errors import LedgerError
from holdfast.ledger.contract import FORMAT_VERSION, Record
from holdfast.ledger.files import sync_directory
from holdfast.ledger.sqlite_errors import not_a_ledger

APPLICATION_ID: Final = 0x484F4C44

_TABLES = """
CREATE TABLE records (
    namespace  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    created_at TEXT    NOT NULL,
    value      BLOB,
    PRIMARY KEY (namespace, key, version)
) STRICT
"""

Row = tuple[str, str, int, str, bytes | None]


def connect(path: Path, location: str) -> sqlite3.Connection:
    """Open an existing ledger; every wait is the caller's, so that it can be interrupted."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=0,
        isolation_level=None,
        # A connection serves one transaction at a time, but not always of the same thread.
        check_same_thread=False,
    )
    try:
        _check_identity(connection, location, path)
        connection.execute("PRAGMA journal_mode = WAL")  # a recovered copy may lack it
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def begin(connection: sqlite3.Connection, statement: str) -> int:
    """Begin a transaction, fix the moment it sees by reading something, and say the format."""
    connection.execute(statement)
    try:
        return get_format(connection)
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def create(path: Path) -> None:
    """Make an empty ledger appear at once and whole; harmless if one has appeared meanwhile.

    It is built under another name and then linked: a process killed in between leaves no half
    of a file, and of two processes that create the same ledger one wins.
    """
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(_TABLES)
            set_format(connection, FORMAT_VERSION)
            connection.execute("COMMIT")
        with suppress(FileExistsError):
            os.link(draft, path)
        sync_directory(path.parent)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            leftover.unlink(missing_ok=True)


def _check_identity(connection: sqlite3.Connection, location: str, path: Path) -> None:
    """Refuse a database that is somebody else's."""
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    if found == APPLICATION_ID:
        return
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema LIMIT 3")]
    if "records" in tables or not tables:
        raise not_a_ledger(location, path, "it does not say that it is a Holdfast ledger")
    raise LedgerError(
        f"The file {location} is a database of another program (tables {', '.join(tables)}).",
        hint="Choose another path for the ledger.",
    )


def get_format(connection: sqlite3.Connection) -> int:
    """Return the format that the file says it has."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def set_format(connection: sqlite3.Connection, format_version: int) -> None:
    """Change the format that the file says it has, as part of the open transaction."""
    connection.execute(f"PRAGMA user_version = {format_version:d}")


def insert(connection: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Store versions of records."""
    connection.executemany(
        "INSERT INTO records (namespace, key, version, created_at, value) VALUES (?, ?, ?, ?, ?)",
        ((r.namespace, r.key, r.version, isoformat(r.created_at), r.value) for r in records),
    )


def to_record(row: Row) -> Record:
    """Read one row of the table."""
    namespace, key, version, created_at, value = row
    return Record(namespace, key, version, datetime.fromisoformat(created_at), value)


def every_record(connection: sqlite3.Connection) -> list[Record]:
    """Return every version of every record, in order."""
    rows = connection.execute(
        "SELECT namespace, key, version, created_at, value FROM records "
        "ORDER BY namespace, key, version"
    )
    return [to_record(row) for row in rows]
