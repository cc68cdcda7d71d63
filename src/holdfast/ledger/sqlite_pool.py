"""Connections to one SQLite file, lent to one transaction at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress

_KEPT = 4

_abandoned: list[sqlite3.Connection] = []
"""Connections of the process this one was forked from.

SQLite forbids a child even to close them; keeping them here keeps them from being collected.
"""


class ConnectionPool:
    """Lends connections and keeps a few open ones for the next transaction.

    Relies on list and set operations being atomic instead of taking a lock: a connection may
    come back from a finalizer, which can run in the middle of any of these methods.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._idle: list[sqlite3.Connection] = []
        self._all: set[sqlite3.Connection] = set()
        self._closed = False

    def lend(self) -> sqlite3.Connection:
        """Return a connection for one transaction."""
        with suppress(IndexError):
            return self._idle.pop()
        connection = self._connect()
        self._all.add(connection)
        return connection

    def take_back(self, connection: sqlite3.Connection) -> None:
        """Receive a connection whose transaction is over."""
        if self._closed or len(self._idle) >= _KEPT:
            self.discard(connection)
        else:
            self._idle.append(connection)

    def discard(self, connection: sqlite3.Connection) -> None:
        """Close a connection that should not be used again."""
        self._all.discard(connection)
        with suppress(sqlite3.Error):
            connection.close()

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        self._closed = True
        while self._idle:
            self.discard(self._idle.pop())

    def abandon(self) -> None:
        """Forget every connection, in a forked child, without touching one."""
        _abandoned.extend(self._all)
        self._idle = []
        self._all = set()
