"""What a running stream pipeline is doing this moment, for whoever looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

LiveState = Literal["starting", "running", "waiting_for_sink", "waiting_for_source", "stopping"]


@dataclass(frozen=True, slots=True)
class Live:
    """The state of a process; it only counts while that process holds the pipeline's lease."""

    run_id: str
    state: LiveState
    since: datetime
    waiting: dict[str, str] = field(default_factory=dict)
    """What is waited for, by sink, or `source`: the error in one sentence."""
    retry_at: datetime | None = None
