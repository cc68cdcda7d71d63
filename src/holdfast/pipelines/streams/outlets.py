"""One sink of a pipeline: what it has, what waits for it, when it is tried again."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from holdfast.config.sinks import SinkConfig
from holdfast.errors import HoldfastError, Interrupted, SinkRefused
from holdfast.failpoints import reach
from holdfast.model import SinkPosition, Token, Waiting
from holdfast.spark.sinks.contract import Delivery, Sink
from holdfast.spark.streaming.spooling import Spools, gone

KEPT_DROPS: Final = 20
"""Dropped batches that are listed by their token; older ones are only counted."""
DRAIN_SECONDS: Final = 2.0
"""How long an epoch is held up by batches that waited for a sink that is back."""


Told = Callable[[Token, str, str], None]
"""Called with a roll-back, the name of a sink, and what it did about it."""


Remember = Callable[[str, SinkPosition], None]
"""Makes the position of a sink durable."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How far a sink got with a batch."""

    delivered: bool
    error: HoldfastError | None = None
    rows: int | None = None


class Outlet:
    """A sink with its own contiguous position.

    Batches go to it in order: as long as older ones wait in its spool, a new one waits behind
    them.
    """

    def __init__(
        self,
        sink: Sink,
        config: SinkConfig,
        position: SinkPosition | None,
        spools: Spools,
        remember: Remember,
    ) -> None:
        self.sink = sink
        self.config = config
        self.position = position or SinkPosition(sink.guarantee, None)
        self._spools = spools
        self._remember = remember
        self._spool = deque(spools.load(sink.name, position))
        self._spooled_bytes = sum(entry.bytes for entry in self._spool)
        expected = self.position.waiting.batches if self.position.waiting is not None else 0
        self._lost_batches = max(0, expected - len(self._spool))
        self._failures = 0
        self._try_again_at = 0.0
        self._untold: tuple[Token, Told] | None = None
        self.error: HoldfastError | None = None
        """Why it failed the last time it was tried; `None` once it works."""

    def must_roll_back(self, to: Token, told: Told) -> None:
        """Tell the sink of a roll-back before anything else, as soon as it can be reached."""
        self._untold = (to, told)

    @property
    def name(self) -> str:
        """The sink's name."""
        return self.sink.name

    @property
    def has_work(self) -> bool:
        """Whether something waits to be done between two epochs."""
        return bool(self._spool or self._lost_batches) or self._untold is not None

    @property
    def resting(self) -> bool:
        """Whether it failed a moment ago and is not to be tried yet."""
        return time.monotonic() < self._try_again_at

    def take(self, delivery: Delivery, *, patient: bool, closing: threading.Event) -> Taken:
        """Deliver what waits, then the batch, trying again as configured.

        An impatient caller does not try a sink that failed a moment ago.
        """
        if self.position.delivered == delivery.token:
            return Taken(True)
        if not patient and self.resting:
            return Taken(False)
        retry = self.config.retry
        for attempt in range(1, retry.attempts + 1):
            try:
                if not self.drain(DRAIN_SECONDS):
                    return Taken(False)
                receipt = self.sink.deliver(replace(delivery, after=self._after()))
            except Interrupted:
                raise
            except HoldfastError as error:
                delay = self._failed(error)
                if isinstance(error, SinkRefused) or attempt == retry.attempts:
                    return Taken(False, error)
                if closing.wait(delay):
                    return Taken(False, error)
            else:
                self._worked()
                reach("stream.delivered", self.name)
                self.position = replace(
                    self.position, delivered=delivery.token, guarantee=self.sink.guarantee
                )
                return Taken(True, rows=receipt.rows)
        raise AssertionError("at least one attempt is made")

    def drain(self, seconds: float) -> bool:
        """Deliver what waits in the spool, oldest first; whether nothing is left.

        A sink that has not heard of a roll-back yet hears of it after the batches from before it.
        """
        end = time.monotonic() + seconds
        if self._lost_batches:
            # Nothing is delivered out of order.
            raise gone(self.name, f"{self._spools.location}/{self.name}")
        while self._spool:
            if time.monotonic() > end:
                return False
            entry = self._spool[0]
            if self._untold is not None and entry.token.follows(self._untold[0]):
                self._tell()
            waited = self._spools.delivery(self.name, entry)
            self.sink.deliver(replace(waited, after=self._after()))
            self._worked()
            reach("stream.drained", self.name)
            self._spool.popleft()
            self._spooled_bytes -= entry.bytes
            self.position = replace(self.position, delivered=entry.token, waiting=self._waiting())
            # Each on its own: killed now, the sink is offered at most its last batch again.
            self._remember(self.name, self.position)
            self._spools.forget(entry)
        self._tell()
        return True

    def _tell(self) -> None:
        if self._untold is not None:
            to, told = self._untold
            told(to, self.name, self.sink.roll_back(to))
            self._untold = None

    def try_to_drain(self, seconds: float) -> None:
        """Drain between two epochs; a failure is remembered, not raised."""
        try:
            self.drain(seconds)
        except Interrupted:
            raise
        except HoldfastError as error:
            self._failed(error)

    def has_room(self) -> bool:
        """Whether the spool may grow; its last batch may take it past the limit."""
        return self._spooled_bytes < self.config.spool.max_bytes

    def spool(self, delivery: Delivery, rows: int | None) -> None:
        """Let a batch wait for the sink."""
        entry = self._spools.keep(self.name, delivery, rows)
        reach("stream.spooled", self.name)
        self._spool.append(entry)
        self._spooled_bytes += entry.bytes
        self.position = replace(self.position, waiting=self._waiting())

    def drop(self, token: Token) -> None:
        """Make the sink miss a batch, and remember that it did."""
        self.position = replace(
            self.position,
            delivered=self.position.delivered if self.position.waiting else token,
            dropped=(*self.position.dropped, token)[-KEPT_DROPS:],
            dropped_count=self.position.dropped_count + 1,
        )

    def _after(self) -> Token | None:
        """The last batch it surely has: one it was made to miss does not count."""
        return None if self.position.dropped_count else self.position.delivered

    def _waiting(self) -> Waiting | None:
        if not self._spool:
            return None
        first, last = self._spool[0], self._spool[-1]
        count = self._lost_batches + len(self._spool)
        before = self.position.waiting
        if self._lost_batches and before is not None:
            # What is lost still counts, until it is put back.
            return replace(before, batches=count, bytes=self._spooled_bytes, last=last.token)
        return Waiting(count, self._spooled_bytes, first.token, last.token, first.spooled_at)

    def _failed(self, error: HoldfastError) -> float:
        self.error = error
        self._failures += 1
        retry = self.config.retry
        delay = min(
            retry.first_delay.total_seconds() * 2.0 ** min(self._failures - 1, 30),
            retry.max_delay.total_seconds(),
        )
        self._try_again_at = time.monotonic() + delay
        return delay

    def _worked(self) -> None:
        self.error = None
        self._failures = 0
        self._try_again_at = 0.0

    def rest(self) -> float:
        """How long until it is tried again."""
        return max(0.0, self._try_again_at - time.monotonic())
