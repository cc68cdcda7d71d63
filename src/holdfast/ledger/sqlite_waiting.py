"""Waiting for another process that has an SQLite ledger, and saying which one it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.ledger.processes import describe, holder_of_lock
from holdfast.ledger.sqlite_errors import is_busy
from holdfast.ledger.waiting import Deadline, locked

T = TypeVar("T")

_WRITER_LOCK_OFFSET = 120
"""The byte of the -shm file that a writer locks; part of SQLite's file format."""


def wait(location: str, path: Path, deadline: Deadline, attempt: Callable[[], T]) -> T:
    """Attempt something until no other process is in its way, else raise `LedgerLocked`."""
    done: list[T] = []

    def once() -> bool:
        try:
            done.append(attempt())
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        return bool(done)

    if not deadline.poll(once):
        raise locked(location, _holder(path), deadline)
    return done[0]


def _holder(path: Path) -> str:
    pid = _locker(Path(f"{path}-shm"), _WRITER_LOCK_OFFSET) or _locker(path, None)
    return "another process" if pid is None else describe(pid)


def _locker(path: Path, offset: int | None) -> int | None:
    try:
        return holder_of_lock(path.stat().st_ino, offset=offset)
    except OSError:
        return None
