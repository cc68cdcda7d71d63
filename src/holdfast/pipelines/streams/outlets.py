"""One sink of a pipeline: what it has, what waits for it, when it is tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from holdfast.config.sinks import SinkConfig
from holdfast.errors import HoldfastError, Interrupted, SinkRefused
from holdfast.failpoints import reach
from holdfast.model import SinkPosition, SpoolEntry, Token
from holdfast.spark.sinks.contract import Delivery, Sink
from holdfast.spark.streaming.spooling import Spools

KEPT_DROPS: Final = 20
"""Dropped batches that are listed by their token; older ones are only counted."""
DRAIN_SECONDS: Final = 2.0
"""How long an epoch is held up by batches that waited for a sink that is back."""


Told = Callable[[Token, str, str], None]
"""Called with a roll-back, the name of a sink, and what it did about it."""


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
        self, sink: Sink, config: SinkConfig, position: SinkPosition | None, spools: Spools
    ) -> None:
        self.sink = sink
        self.config = config
        self.position = position or SinkPosition(sink.guarantee, None)
        self._spools = spools
        self._delivered_spool: list[SpoolEntry] = []
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
        return bool(self.position.spool) or self._untold is not None

    @property
    def resting(self) -> bool:
        """Whether it failed a moment ago and is not to be tried yet."""
        return time.monotonic() < self._try_again_at

    @property
    def spooled_bytes(self) -> int:
        """What waits for it."""
        return sum(entry.bytes for entry in self.position.spool)

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
                receipt = self.sink.deliver(delivery)
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
        while self.position.spool:
            if time.monotonic() > end:
                return False
            entry = self.position.spool[0]
            if self._untold is not None and entry.token.follows(self._untold[0]):
                self._tell()
            self.sink.deliver(self._spools.delivery(self.name, entry))
            self._worked()
            reach("stream.drained", self.name)
            self._delivered_spool.append(entry)
            self.position = replace(
                self.position, delivered=entry.token, spool=self.position.spool[1:]
            )
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
        return self.spooled_bytes < self.config.spool.max_bytes

    def spool(self, delivery: Delivery, rows: int | None) -> None:
        """Let a batch wait for the sink."""
        kept = tuple(e for e in self.position.spool if e.token != delivery.token)
        entry = self._spools.keep(self.name, delivery, rows)
        reach("stream.spooled", self.name)
        self.position = replace(self.position, spool=(*kept, entry))

    def drop(self, token: Token) -> None:
        """Make the sink miss a batch, and remember that it did."""
        self.position = replace(
            self.position,
            delivered=token if not self.position.spool else self.position.delivered,
            dropped=(*self.position.dropped, token)[-KEPT_DROPS:],
            dropped_count=self.position.dropped_count + 1,
        )

    def clean(self) -> None:
        """Remove what was delivered from the spool, once that has been committed."""
        for entry in self._delivered_spool:
            self._spools.forget(entry)
        self._delivered_spool.clear()

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
