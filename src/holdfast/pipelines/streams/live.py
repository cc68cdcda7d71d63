"""Telling whoever looks what a running pipeline is doing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta

from holdfast.errors import HoldfastError
from holdfast.ledger.records import Records
from holdfast.model import Live, LiveState


class Board:
    """The pipeline's line in the ledger, written when something changes and not before."""

    def __init__(self, records: Records, pipeline: str, run_id: str) -> None:
        self._records = records
        self._pipeline = pipeline
        self._run_id = run_id
        self._shown: Live | None = None
        self._lock = threading.Lock()

    @property
    def state(self) -> LiveState | None:
        """What was shown last."""
        return None if self._shown is None else self._shown.state

    def show(
        self,
        state: LiveState,
        *,
        waiting: Mapping[str, HoldfastError] | None = None,
        seconds: float | None = None,
    ) -> None:
        """Say what the pipeline is doing now, and what for."""
        now = self._records.ledger.clock()
        said = {name: error.message for name, error in (waiting or {}).items()}
        with self._lock:
            shown = self._shown
            same = shown is not None and (shown.state, shown.waiting) == (state, said)
            if same and seconds is None:
                return
            live = Live(
                run_id=self._run_id,
                state=state,
                since=shown.since if same and shown is not None else now,
                waiting=said,
                retry_at=None if seconds is None else now + timedelta(seconds=seconds),
            )
            with self._records.ledger.writing() as change:
                self._records.live.put(change, self._pipeline, live)
                self._records.live.prune(change, self._pipeline, 1)
            self._shown = live
