"""Ctrl-C and SIGTERM as a request, not as an exception at a random place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_asked_before = threading.Event()
"""Somebody asked before the work began, in whatever the process did then."""


@contextmanager
def interrupting_at_once() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end what is going on, until work begins that notices them.

    An exception raised from a signal is lost if it meets a clean-up that Python runs on its own.
    That it was asked for is therefore remembered for `noticing_interrupts`. Outside the main
    thread there are no signals to handle.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        _asked_before.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked_before.set()
    raise KeyboardInterrupt


@contextmanager
def noticing_interrupts() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C or SIGTERM sets; the second one interrupts at once.

    Only the main thread can receive signals; elsewhere, as in a notebook's worker, the event
    simply stays unset.
    """
    asked = threading.Event()
    if _asked_before.is_set():
        asked.set()
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
