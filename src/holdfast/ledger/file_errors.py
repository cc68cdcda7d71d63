"""Operating system errors, said as what happened to which file and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import DiskFull, HoldfastError, LedgerDamaged, LedgerError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_REASONS = {
    errno.EACCES: (
        "this user may not read or write it",
        "Change its permissions or its folder's, or put the ledger elsewhere.",
    ),
    errno.EPERM: (
        "this user may not read or write it",
        "Change its permissions or its folder's, or put the ledger elsewhere.",
    ),
    errno.EROFS: (
        "its file system is read-only",
        "Put the ledger where this user can write.",
    ),
    errno.EISDIR: (
        "it is a directory",
        "Name a file in it, for example ledger.db.",
    ),
    errno.ENOTDIR: (
        "a part of its path is a file, not a directory",
        "Name a path whose parents are directories.",
    ),
    errno.EEXIST: (
        "a part of its path is a file, not a directory",
        "Name a path whose parents are directories.",
    ),
    errno.ENOENT: (
        "it was removed while it was in use",
        "Put it back, or restore a copy, before the next run.",
    ),
}


@contextmanager
def file_errors(location: str) -> Iterator[None]:
    """Turn every `OSError` of the block into a Holdfast error about the ledger."""
    try:
        yield
    except OSError as error:
        raise from_os(location, error) from error


def from_os(location: str, error: OSError) -> HoldfastError:
    """Say an operating system error as a Holdfast error."""
    if error.errno in _FULL:
        return disk_full(location)
    known = _REASONS.get(error.errno or 0)
    if known is not None:
        return LedgerError(f"The ledger {location} cannot be used: {known[0]}.", hint=known[1])
    return LedgerError(
        f"The ledger {location} cannot be used: {error.strerror or error}.",
        hint="Check the disk and the system's log.",
    )


def disk_full(location: str) -> DiskFull:
    """Build the error for a ledger without space to write in."""
    return DiskFull(
        f"No space is left for the ledger {location}; the last change was not recorded.",
        hint="Free some space or raise the quota, then run again: nothing recorded is lost.",
    )


def damaged(location: str, what: str, hint: str) -> LedgerDamaged:
    """Build the error for a file that is there but is not a readable ledger."""
    return LedgerDamaged(f"The ledger {location} is damaged: {what}.", hint=hint)
