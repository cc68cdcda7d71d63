"""How long a source that is away is waited for."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from holdfast.config.stream import SourceRetry

ONCE: Final = timedelta(minutes=1)
"""How long a run that is to end by itself waits, if nothing else was configured."""


class Patience:
    """Grows from one failure to the next, and is over at some time."""

    def __init__(self, retry: SourceRetry, *, once: bool) -> None:
        self._retry = retry
        self._limit = retry.give_up_after or (ONCE if once else None)
        self._delay = 0.0
        self._since: float | None = None

    def restored(self) -> None:
        """The source worked: the next failure is a first one."""
        self._delay, self._since = 0.0, None

    def delay(self) -> float | None:
        """How long to wait after one more failure; `None` when that has gone on for too long."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if self._limit is not None and now - self._since >= self._limit.total_seconds():
            return None
        first, most = self._retry.first_delay, self._retry.max_delay
        self._delay = min(max(self._delay * 2, first.total_seconds()), most.total_seconds())
        return self._delay
