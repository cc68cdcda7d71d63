"""Steps 3 and 4 of an epoch: deliver to every sink, side by side, and decide.

A sink that the commit has to wait for is tried until it works; the process waits with it, and
says so. One that it need not wait for gets the batch later, from its spool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError, SinkRefused, Undelivered
from holdfast.pipelines.streams.outlets import Outlet, Taken
from holdfast.pipelines.streams.policy import Policy
from holdfast.spark.sinks.contract import Delivery

Waiting = Callable[[Mapping[str, HoldfastError], float], None]
"""Told what the epoch waits for, sink by sink, and for how many seconds."""
Blame = Callable[[], None]
"""Raises if the rows themselves cannot be computed, so that no sink is blamed for it."""


@dataclass
class Delivered:
    """How a batch fared with the sinks."""

    rows: int | None = None
    acknowledged: set[str] = field(default_factory=set)
    errors: dict[str, HoldfastError] = field(default_factory=dict)


class Deliveries:
    """Delivers batches to the sinks of one pipeline under its commit policy."""

    def __init__(
        self,
        outlets: Sequence[Outlet],
        policy: Policy,
        *,
        closing: threading.Event,
        waiting: Waiting,
    ) -> None:
        self.outlets = tuple(outlets)
        self._policy = policy
        self._closing = closing
        self._waiting = waiting
        self._pool = ThreadPoolExecutor(
            max_workers=max(1, len(self.outlets)), thread_name_prefix="holdfast-sink"
        )

    def deliver(self, delivery: Delivery, rows: int | None, blame: Blame) -> Delivered:
        """Return once the policy is satisfied and every other sink has the batch in its spool.

        Raises `Undelivered` if that did not happen before the pipeline was to stop, and
        `SinkRefused` if a sink that is waited for will never take the batch as it is.
        """
        done = Delivered(rows)
        while True:
            missing = [o for o in self.outlets if o.name not in done.acknowledged]
            self._attempt(missing, delivery, done)
            if done.errors:
                blame()
            held = self._holding_back(done)
            if not held:
                break
            self._refuse(held, done.errors)
            self._wait(held, done.errors)
        self._put_off(delivery, done)
        return done

    @property
    def errors(self) -> dict[str, HoldfastError]:
        """Why sinks failed the last time they were tried."""
        return {o.name: o.error for o in self.outlets if o.error is not None}

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown()

    def _attempt(self, outlets: Sequence[Outlet], delivery: Delivery, done: Delivered) -> None:
        needed = self._policy.holding_back(done.acknowledged)

        def take(outlet: Outlet) -> Taken:
            return outlet.take(delivery, patient=outlet.name in needed, closing=self._closing)

        # One sink needs no second thread.
        results = map(take, outlets) if len(outlets) == 1 else self._pool.map(take, outlets)
        for outlet, taken in zip(outlets, list(results), strict=True):
            if taken.delivered:
                done.acknowledged.add(outlet.name)
                done.errors.pop(outlet.name, None)
                done.rows = done.rows if taken.rows is None else taken.rows
            elif taken.error is not None:
                done.errors[outlet.name] = taken.error

    def _holding_back(self, done: Delivered) -> list[Outlet]:
        """The sinks the commit has to wait for: by the policy, or because a spool is full."""
        names = self._policy.holding_back(done.acknowledged)
        satisfied = self._policy.satisfied_by(done.acknowledged)
        held = [o for o in self.outlets if o.name in names and not satisfied]
        if held:
            return held
        return [
            outlet
            for outlet in self.outlets
            if outlet.name not in done.acknowledged
            and outlet.config.on_failure == "spool"
            and outlet.config.spool.when_full == "wait"
            and not outlet.has_room()
        ]

    def _refuse(self, held: Sequence[Outlet], errors: Mapping[str, HoldfastError]) -> None:
        for outlet in held:
            error = errors.get(outlet.name)
            if isinstance(error, SinkRefused):
                raise error

    def _wait(self, held: Sequence[Outlet], errors: Mapping[str, HoldfastError]) -> None:
        seconds = min(outlet.rest() for outlet in held)
        said = {outlet.name: errors[outlet.name] for outlet in held if outlet.name in errors}
        self._waiting(said, seconds)
        if self._closing.wait(seconds):
            names = ", ".join(outlet.name for outlet in held)
            raise Undelivered(
                f"The batch in flight could not be delivered to {names}.",
                hint="It is delivered first when the pipeline is started again.",
            )

    def _put_off(self, delivery: Delivery, done: Delivered) -> None:
        """Spool, or drop, for the sinks that are not waited for."""
        for outlet in self.outlets:
            if outlet.name in done.acknowledged:
                continue
            if outlet.config.on_failure == "drop" or not outlet.has_room():
                outlet.drop(delivery.token)
            else:
                outlet.spool(delivery, done.rows)
