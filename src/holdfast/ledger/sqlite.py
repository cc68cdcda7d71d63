"""A ledger in an SQLite file: the one to use unless there is a reason for another.

Write-ahead logging lets readers go on while somebody writes. `synchronous = FULL` makes a commit
survive a power cut. Its layout is in `sqlite_schema`.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from holdfast.clock import Clock, utc_now
from holdfast.errors import LedgerError
from holdfast.ledger import sqlite_schema as schema
from holdfast.ledger.contract import Record, VersionInfo
from holdfast.ledger.files import make_parents
from holdfast.ledger.formats import check_format
from holdfast.ledger.guarding import GuardedLedger, GuardedTransaction
from holdfast.ledger.sqlite_errors import not_a_ledger, sqlite_errors
from holdfast.ledger.sqlite_pool import ConnectionPool
from holdfast.ledger.sqlite_waiting import wait
from holdfast.ledger.waiting import Deadline, WriterTurn, writer_turn

_COLUMNS = "namespace, key, version, created_at, value"

# Goes from each key to the next one in the index, however many versions lie between them.
_LIVE_KEYS = """
WITH RECURSIVE present(key) AS (
    SELECT min(key) FROM records WHERE namespace = :namespace AND key >= :from
    UNION ALL
    SELECT (SELECT min(key) FROM records WHERE namespace = :namespace AND key > present.key)
    FROM present WHERE present.key IS NOT NULL
)
SELECT key FROM present
WHERE key IS NOT NULL AND (
    SELECT value IS NOT NULL FROM records
    WHERE namespace = :namespace AND key = present.key ORDER BY version DESC LIMIT 1
)
"""


class SqliteLedger(GuardedLedger):
    """A ledger in an SQLite file; created, with its directory, if it is not there."""

    def __init__(
        self, path: str | Path, *, timeout_s: float = 10.0, clock: Clock = utc_now
    ) -> None:
        super().__init__(str(path), timeout_s=timeout_s, clock=clock)
        self._path = Path(path).resolve()
        with sqlite_errors(self.location, self._path):
            make_parents(self._path)
            if not self._path.exists():
                schema.create(self._path)
            self._inode = self._current_inode()
        self._pool = ConnectionPool(lambda: schema.connect(self._path, self.location))
        self.reading().abort()  # so that a file that cannot be used is refused now

    def _writer_turn(self) -> WriterTurn:
        return writer_turn(self._path)

    def _begin(self, turn: WriterTurn | None, deadline: Deadline) -> GuardedTransaction:
        with sqlite_errors(self.location, self._path):
            if self._current_inode() != self._inode:
                raise LedgerError(
                    f"The ledger {self.location} was replaced by another file while it was open.",
                    hint="Start this process again to use the new one.",
                )
            connection = wait(self.location, self._path, deadline, self._pool.lend)
            try:
                begin = "BEGIN" if turn is None else "BEGIN IMMEDIATE"
                check_format(
                    self.location,
                    wait(
                        self.location,
                        self._path,
                        deadline,
                        lambda: schema.begin(connection, begin),
                    ),
                )
            except BaseException:
                self._pool.discard(connection)
                raise
        return _SqliteTransaction(self, turn, self._pool, connection, self._path)

    def _current_inode(self) -> int:
        stat = self._path.stat()
        if S_ISDIR(stat.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(self._path))
        if stat.st_size == 0:
            # SQLite would take an empty file for a new database, and everything would be done
            # again from the start.
            raise not_a_ledger(self.location, self._path, "the file is empty")
        return stat.st_ino

    def _close(self) -> None:
        self._pool.close()

    def _after_fork(self) -> None:
        self._pool.abandon()


class _SqliteTransaction(GuardedTransaction):
    """A transaction on a connection of its own."""

    def __init__(
        self,
        ledger: SqliteLedger,
        turn: WriterTurn | None,
        pool: ConnectionPool,
        connection: sqlite3.Connection,
        path: Path,
    ) -> None:
        super().__init__(ledger, turn)
        self._pool = pool
        self._connection = connection
        self._path = path

    def _read_newest(self, namespace: str, key: str) -> Record | None:
        rows = self._query(
            f"SELECT {_COLUMNS} FROM records WHERE namespace = ? AND key = ? "
            "ORDER BY version DESC LIMIT 1",
            (namespace, key),
        )
        return schema.to_record(rows[0]) if rows else None

    def _read_version(self, namespace: str, key: str, version: int) -> Record | None:
        rows = self._query(
            f"SELECT {_COLUMNS} FROM records WHERE namespace = ? AND key = ? AND version = ?",
            (namespace, key, version),
        )
        return schema.to_record(rows[0]) if rows else None

    def _newest_version(self, namespace: str, key: str) -> int:
        rows = self._query(
            "SELECT max(version) FROM records WHERE namespace = ? AND key = ?", (namespace, key)
        )
        return rows[0][0] or 0

    def _append(self, record: Record) -> None:
        with self._failing():
            schema.insert(self._connection, [record])

    def _versions(self, namespace: str, key: str) -> list[VersionInfo]:
        rows = self._query(
            "SELECT version, created_at, coalesce(length(value), 0), value IS NULL FROM records "
            "WHERE namespace = ? AND key = ? ORDER BY version DESC",
            (namespace, key),
        )
        return [
            VersionInfo(version, datetime.fromisoformat(created_at), size, bool(deleted))
            for version, created_at, size, deleted in rows
        ]

    def _keys(self, namespace: str, prefix: str) -> list[str]:
        with self._failing():
            cursor = self._connection.execute(_LIVE_KEYS, {"namespace": namespace, "from": prefix})
            # SQLite compares UTF-8 bytes, which is code-point order, so that the keys with the
            # prefix are the first ones.
            return [key for (key,) in takewhile(lambda row: row[0].startswith(prefix), cursor)]

    def _prune(self, namespace: str, key: str, keep: int) -> int:
        with self._failing():
            cursor = self._connection.execute(
                "DELETE FROM records WHERE namespace = :namespace AND key = :key AND version <= ("
                "SELECT version FROM records WHERE namespace = :namespace AND key = :key "
                "ORDER BY version DESC LIMIT 1 OFFSET :keep)",
                {"namespace": namespace, "key": key, "keep": keep},
            )
            return cursor.rowcount

    def _commit(self) -> None:
        with sqlite_errors(self._location, self._path):
            self._connection.execute("COMMIT")
        self._pool.take_back(self._connection)

    def _abort(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._pool.discard(self._connection)  # closing it rolls back as well
        else:
            self._pool.take_back(self._connection)

    def _query(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self._failing():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        # SQLite ends a transaction by itself after some errors. What came next would then be
        # committed piece by piece, so no error leaves the transaction open.
        try:
            with sqlite_errors(self._location, self._path):
                yield
        except BaseException:
            self._fail()
            raise
