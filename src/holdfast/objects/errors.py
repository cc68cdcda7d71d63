"""Errors of a checkpoint location, said as what happened to which file and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import DiskFull, ObjectError, ObjectExists, ObjectMissing

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LINKS: Final = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_HINTS: Final = {
    errno.EACCES: "Let this user read and write the checkpoint location, or name another one.",
    errno.EPERM: "Let this user read and write the checkpoint location, or name another one.",
    errno.EROFS: "Its file system is read-only: name a checkpoint location that can be written.",
    errno.ENOTDIR: "A part of its path is a file: name a location whose parents are directories.",
    errno.EEXIST: "A part of its path is a file: name a location whose parents are directories.",
    errno.EISDIR: "There is a directory of that name: move it away.",
    errno.EIO: "Check the disk and the system's log.",
    **dict.fromkeys(
        _NO_LINKS, "The file system has no hard links: put the checkpoint location on one that has."
    ),
}


@contextmanager
def translated(path: Path, done: str) -> Iterator[None]:
    """Turn an `OSError` of the block into a Holdfast error that names the file."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        message = f"The checkpoint file {path} could not be {done}: {reason}."
        if error.errno in _FULL:
            raise DiskFull(
                message,
                hint="Free some space or raise the quota, then run again: "
                "the last checkpoint is intact.",
            ) from error
        raise ObjectError(
            message,
            hint=_HINTS.get(
                error.errno or 0, "See that the checkpoint location exists and can be written."
            ),
        ) from error


def missing(place: str) -> ObjectMissing:
    """Return the error for a file that is not there."""
    return ObjectMissing(
        f"The checkpoint file {place} is missing.",
        hint="See what is left: holdfast checkpoint verify",
    )


def exists(place: str) -> ObjectExists:
    """Return the error for a key that is taken."""
    return ObjectExists(
        f"The checkpoint file {place} exists already, and files there are never written twice.",
        hint="Another process may be writing the same checkpoint: see holdfast status.",
    )
