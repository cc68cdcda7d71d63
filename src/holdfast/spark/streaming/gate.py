"""One at a time, until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import Interrupted


class Gate:
    """Lets the batch in flight finish and no further one begin.

    Work between two batches passes the same gate, so that it never meets one.
    """

    def __init__(self) -> None:
        self._inside = threading.Lock()
        self.closing = threading.Event()
        """Set as soon as somebody wants to stop; whoever waits inside should give up."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside, or raise `Interrupted` if the gate is closed."""
        with self._inside:
            if self.closing.is_set():
                raise Interrupted("The pipeline is stopping.")
            yield

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Be inside if nobody is and the gate is open; tells whether that is so."""
        free = not self.closing.is_set() and self._inside.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._inside.release()

    def close(self) -> None:
        """Let nobody in any more."""
        self.closing.set()

    def drained(self, seconds: float) -> bool:
        """Wait a little for whoever is inside; whether nobody is."""
        free = self._inside.acquire(timeout=seconds)
        if free:
            self._inside.release()
        return free
