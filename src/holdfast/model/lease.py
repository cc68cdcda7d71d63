"""Who runs a pipeline now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one pipeline, held by one process at a time.

    `generation` grows with every acquisition; every commit checks that it is still the newest,
    so a process that was paused and overtaken cannot write.
    """

    generation: int
    run_id: str
    host: str
    pid: int
    process_started: str
    """Tells a process from a later one that got the same pid."""
    renewed_at: datetime
    ttl_seconds: float
    released: bool = False
