"""SQLite's errors, said as what happened to which ledger and what to do."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError, LedgerDamaged, LedgerError, LedgerLocked
from holdfast.ledger.file_errors import damaged, disk_full, from_os

_ALMOST_NOTHING_BYTES = 1 << 20


@contextmanager
def sqlite_errors(location: str, path: Path) -> Iterator[None]:
    """Turn every SQLite and system error of the block into a Holdfast error."""
    try:
        yield
    except sqlite3.Error as error:
        raise from_sqlite(location, path, error) from error
    except OverflowError as error:
        raise LedgerError(f"A value is too big for the ledger {location}.") from error
    except OSError as error:
        raise from_os(location, error) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether an error only means that another connection is at work."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def from_sqlite(location: str, path: Path, error: sqlite3.Error) -> HoldfastError:
    """Say an SQLite error as a Holdfast error."""
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerLocked(
                f"The ledger {location} is in use by another process.",
                hint="Wait for it to finish and try again.",
            )
        # Every statement is fixed, so a plain error means a file with other tables.
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
            return not_a_ledger(location, path, str(error))
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR as code if (
            code == sqlite3.SQLITE_FULL or _has_no_space(path)
        ):
            return disk_full(location)
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY:
            return _unusable(location, path, error)
        case sqlite3.SQLITE_TOOBIG:
            return LedgerError(f"A value is too big for the ledger {location}.")
        case _:
            return LedgerError(
                f"The ledger {location} cannot be used: {error}.",
                hint="Check the disk and the system's log.",
            )


def not_a_ledger(location: str, path: Path, what: str) -> LedgerDamaged:
    """Build the error for a file that SQLite cannot read as a ledger."""
    return damaged(
        location,
        what,
        "Restore a copy of the file, or save what is left of it with the sqlite3 shell of "
        f"sqlite.org: sqlite3 {path} .recover | sqlite3 recovered-{path.name}",
    )


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code; the rest of an extended one only adds detail."""
    return getattr(error, "sqlite_errorcode", -1) & 0xFF


def _has_no_space(path: Path) -> bool:
    # Out of space shows as an I/O error where SQLite maps a file into memory.
    try:
        return shutil.disk_usage(path.parent).free < _ALMOST_NOTHING_BYTES
    except OSError:
        return False


def _unusable(location: str, path: Path, error: sqlite3.Error) -> HoldfastError:
    # SQLite does not say why; the same is asked of the system, which does. The file itself is
    # not opened: closing it would drop the locks of this process's other connections.
    try:
        path.stat()
    except OSError as reason:
        return from_os(location, reason)
    for place in (path, path.parent):
        if not os.access(place, os.R_OK | os.W_OK, effective_ids=True):
            return LedgerError(
                f"The ledger {location} cannot be used: this user may not write {place}.",
                hint="Change its permissions, or put the ledger elsewhere.",
            )
    return LedgerError(
        f"The ledger {location} cannot be used: {error}.",
        hint="Check that its file system can be written and allows locks and shared memory.",
    )
