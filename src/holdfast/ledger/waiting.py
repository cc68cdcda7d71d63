"""Waiting for a turn: between the threads of this process, and for another process."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

from holdfast.errors import LedgerError, LedgerLocked
from holdfast.ledger.processes import this_process

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.02


class Deadline:
    """A moment after which waiting ends."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds until the moment, never negative."""
        return max(0.0, self._end - time.monotonic())

    def poll(self, attempt: Callable[[], bool]) -> bool:
        """Try until `attempt` succeeds or time is up; say whether it succeeded.

        Polling keeps Ctrl-C working, which a wait inside a C library does not. The pauses are
        random so that two processes do not stay in step.
        """
        pause = _FIRST_PAUSE_S
        while not attempt():
            left = self.left_s
            if left <= 0:
                return False
            time.sleep(min(left, pause * random.uniform(0.5, 1)))
            pause = min(_LONGEST_PAUSE_S, pause * 2)
        return True


class WriterTurn:
    """Lets one thread of this process write a ledger at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: threading.Thread | None = None

    def take(self, location: str, deadline: Deadline) -> None:
        """Wait for the turn; a thread that already has it is refused at once."""
        current = threading.current_thread()
        if self._holder is current:
            raise LedgerError(
                f"This thread is already writing to the ledger {location}.",
                hint="Use the open transaction, or end it before another is begun.",
            )
        if not self._lock.acquire(timeout=deadline.left_s):
            holder = self._holder
            name = f"thread {holder.name} of " if holder is not None else ""
            raise locked(location, f"{name}this {this_process()}", deadline)
        self._holder = current

    def give_back(self) -> None:
        """Let the next writer in; any thread may do it."""
        self._holder = None
        self._lock.release()


_turns: WeakValueDictionary[str, WriterTurn] = WeakValueDictionary()
_turns_lock = threading.Lock()


def writer_turn(path: Path) -> WriterTurn:
    """Return the turn that every handle of this process on one file shares."""
    with _turns_lock:
        turn = _turns.get(str(path))
        if turn is None:
            turn = _turns[str(path)] = WriterTurn()
        return turn


def _forget_turns() -> None:
    # A forked child has only the forking thread: a turn of another one would never come back.
    global _turns, _turns_lock  # noqa: PLW0603  (the fork hook has nothing else to hold them)
    _turns = WeakValueDictionary()
    _turns_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_turns)


def locked(location: str, holder: str, deadline: Deadline) -> LedgerLocked:
    """Build the error that names who is in the way."""
    return LedgerLocked(
        f"The ledger {location} is being written by {holder}; waited {deadline.timeout_s:g} s.",
        hint="Wait for it to finish, or end it if it hangs, and try again.",
    )
