"""Ctrl-C and SIGTERM as a request, not as an exception at a random place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noticing_interrupts() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C or SIGTERM sets; the second one interrupts at once.

    Only the main thread can receive signals; elsewhere, as in a notebook's worker, the event
    simply stays unset.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
