"""One writer per pipeline."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from holdfast.clock import describe_age
from holdfast.errors import LeaseLost, PipelineBusy
from holdfast.ledger.contract import Ledger, Transaction
from holdfast.ledger.typed import Collection
from holdfast.model import Lease

TTL_SECONDS: Final = 60.0
_LEASES: Final = Collection("leases", Lease)
_KEPT_VERSIONS = 20
_held_here: set[str] = set()
"""The runs of this process that hold a lease."""


class Leases:
    """Who may write for which pipeline."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def acquire(self, pipeline: str, run_id: str) -> Lease:
        """Take the right to write, with a new generation, or say who has it."""
        with self._ledger.writing() as change:
            current = _LEASES.get(change, pipeline)
            if current is not None and self.is_held(current):
                raise busy(pipeline, current, self._age(current))
            lease = Lease(
                generation=1 if current is None else current.generation + 1,
                run_id=run_id,
                host=_host(),
                pid=os.getpid(),
                process_started=_started(os.getpid()),
                renewed_at=self._ledger.clock(),
                ttl_seconds=TTL_SECONDS,
            )
            _LEASES.put(change, pipeline, lease)
            _LEASES.prune(change, pipeline, _KEPT_VERSIONS)
        _held_here.add(run_id)
        return lease

    def renew(self, pipeline: str, lease: Lease) -> None:
        """Say that the holder is alive; raises `LeaseLost` if it was overtaken."""
        with self._ledger.writing() as change:
            self.check(change, pipeline, lease.generation)
            _LEASES.put(change, pipeline, replace(lease, renewed_at=self._ledger.clock()))
            _LEASES.prune(change, pipeline, _KEPT_VERSIONS)

    def release(self, pipeline: str, lease: Lease) -> None:
        """Give the right back; harmless if somebody else has it by now."""
        # First of all: should the ledger fail now, this process knows that it is over.
        _held_here.discard(lease.run_id)
        with self._ledger.writing() as change:
            current = _LEASES.get(change, pipeline)
            if current is not None and current.generation == lease.generation:
                _LEASES.put(change, pipeline, replace(current, released=True))

    def check(self, change: Transaction, pipeline: str, generation: int) -> None:
        """Refuse to go on inside a transaction when a newer generation exists."""
        current = _LEASES.get(change, pipeline)
        found = 0 if current is None else current.generation
        if found != generation:
            raise LeaseLost(
                f"Pipeline {pipeline} was taken over by a newer run "
                f"(generation {found}, this one is {generation}).",
                hint="Nothing more was written by this run. Look at the newer one: holdfast status",
            )

    def raise_to(self, change: Transaction, pipeline: str, generation: int) -> int:
        """Let the next generation be past this one, and return the one that counts now.

        For a ledger that was lost while sinks still remember the generations it had given out.
        """
        current = _LEASES.get(change, pipeline)
        if current is not None and current.generation >= generation:
            return current.generation
        lease = Lease(
            generation=generation,
            run_id="",
            host=_host(),
            pid=os.getpid(),
            process_started=_started(os.getpid()),
            renewed_at=self._ledger.clock(),
            ttl_seconds=TTL_SECONDS,
            released=True,
        )
        _LEASES.put(change, pipeline, lease)
        _LEASES.prune(change, pipeline, _KEPT_VERSIONS)
        return generation

    def generation(self, view: Transaction, pipeline: str) -> int:
        """The newest generation that was given out; 0 before the first."""
        current = _LEASES.get(view, pipeline)
        return 0 if current is None else current.generation

    def holder(self, pipeline: str) -> Lease | None:
        """Who holds the pipeline now, if anyone does."""
        with self._ledger.reading() as view:
            current = _LEASES.get(view, pipeline)
        return current if current is not None and self.is_held(current) else None

    def refuse_if_held_in(self, view: Transaction, pipeline: str) -> None:
        """Raise `PipelineBusy` while a run is going on."""
        holder = _LEASES.get(view, pipeline)
        if holder is not None and self.is_held(holder):
            raise busy(pipeline, holder, self._age(holder))

    def is_held(self, lease: Lease) -> bool:
        """Whether the holder is still there.

        On this machine the process table knows. From elsewhere, silence for longer than the
        lease's time to live is taken for death; the generation makes that safe to get wrong.
        """
        if lease.released:
            return False
        if lease.host == _host() and lease.pid == os.getpid():
            return lease.run_id in _held_here
        if lease.host == _host():
            return _is_running(lease.pid, lease.process_started)
        return self._age(lease) < timedelta(seconds=lease.ttl_seconds)

    def _age(self, lease: Lease) -> timedelta:
        return self._ledger.clock() - lease.renewed_at


def busy(pipeline: str, holder: Lease, age: timedelta) -> PipelineBusy:
    """The error that names the run in the way."""
    host = holder.host.partition("/")[0]
    return PipelineBusy(
        f"Pipeline {pipeline} is being run by process {holder.pid} on {host} "
        f"(run {holder.run_id}, last sign of life {describe_age(age)} ago).",
        hint=f"Wait for it, or end it: kill {holder.pid}",
    )


def _host() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    # A restarted machine or container has the same name but none of the old processes.
    return f"{socket.gethostname()}/{boot.read_text().strip() if boot.exists() else ''}"


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _is_running(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _started(pid)
    return not (started and now) or started == now
