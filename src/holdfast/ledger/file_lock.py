"""A lock between processes on a file that says who holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from holdfast.ledger.processes import this_process
from holdfast.ledger.waiting import Deadline, locked

_HOLDER_LIMIT_BYTES = 4096


class FileLock:
    """An exclusive `flock` on a sidecar file; the system drops it when its holder dies.

    The file stays when the lock is let go: removing it would let two processes hold a lock each,
    one on the removed file and one on its successor.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, location: str, deadline: Deadline) -> None:
        """Wait for the lock, or raise `LedgerLocked` naming its holder."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not deadline.poll(lambda: _try(descriptor)):
                raise locked(location, _holder(descriptor), deadline)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{this_process()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def let_go(self) -> None:
        """Free the lock; harmless if it is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            # A child forked meanwhile shares the lock: closing alone would leave it with the child.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    def forget(self) -> None:
        """Drop the descriptor in a forked child, leaving the lock to the parent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, _HOLDER_LIMIT_BYTES, 0).decode(errors="replace").strip()
    return text or "another process"
