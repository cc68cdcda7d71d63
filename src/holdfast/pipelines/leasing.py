"""Holding a pipeline while work goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.errors import HoldfastError, LeaseLost
from holdfast.ledger.leases import TTL_SECONDS
from holdfast.ledger.records import Records
from holdfast.model import Lease
from holdfast.pipelines.identity import new_id


@contextmanager
def leased(records: Records, pipeline: str) -> Iterator[Lease]:
    """Hold a pipeline, with a new generation, or say who does."""
    lease = records.leases.acquire(pipeline, new_id())
    try:
        yield lease
    finally:
        records.leases.release(pipeline, lease)


@contextmanager
def heartbeat(
    records: Records, pipeline: str, lease: Lease, lost: Callable[[], None]
) -> Iterator[None]:
    """Renew a lease until the work ends; calls `lost` when somebody else has it."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(TTL_SECONDS / 3):
            try:
                records.leases.renew(pipeline, lease)
            except LeaseLost:
                lost()
                return
            except HoldfastError:
                # A busy ledger: two more beats follow before the lease runs out, and every
                # commit checks it anyway.
                continue

    thread = threading.Thread(target=beat, name="holdfast-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
