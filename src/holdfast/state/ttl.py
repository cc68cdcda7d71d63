"""Time to live: when an entry's clock restarts, and when it is over.

Two settings, apart: `restart` says what restarts the clock of an entry, `sweep_epochs` how
eagerly the dead are looked for. However late an expired entry is removed, it is never returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from holdfast.errors import StateMismatch
from holdfast.state.codes import FIRST, LAST
from holdfast.state.rows import Ranges, Rows


class Restart(StrEnum):
    """What restarts the clock of an entry."""

    ON_WRITE = "on_write"
    ON_READ_WRITE = "on_read_write"


@dataclass(frozen=True, slots=True)
class TTL:
    """How long an entry lives after it was last touched.

    An entry touched at `t` is gone at `t + ttl_ms`. It is removed when it is read, when the
    backend rewrites the file it is in, and by a sweep that visits the whole table once in
    `sweep_epochs` epochs; 0 turns the sweep off.
    """

    ttl_ms: int
    restart: Restart = Restart.ON_WRITE
    sweep_epochs: int = 64

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "restart", Restart(self.restart))
        except ValueError:
            raise StateMismatch(
                f"The clock of an entry cannot restart {self.restart!r}.",
                hint=f"Give {' or '.join(repr(one.value) for one in Restart)}.",
            ) from None
        whole = type(self.ttl_ms) is int and type(self.sweep_epochs) is int
        if not whole or self.ttl_ms <= 0 or self.sweep_epochs < 0:
            raise StateMismatch(
                f"A TTL of {self.ttl_ms} ms swept in {self.sweep_epochs} epochs makes no sense.",
                hint="Give whole numbers: at least 1 ms, and 0 or more epochs.",
            )

    def expired_before_ms(self, now_ms: int) -> int:
        """Return the stamp below which an entry is gone at `now_ms`."""
        return now_ms - self.ttl_ms + 1

    def swept_range(self, epoch: int) -> Ranges | None:
        """Return the codes to sweep in an epoch, if any.

        Derived from the epoch alone, so that there is nothing to remember or to restore.
        """
        if not self.sweep_epochs:
            return None
        turn, width = epoch % self.sweep_epochs, 2**64 // self.sweep_epochs
        first = FIRST + turn * width
        last = LAST if turn == self.sweep_epochs - 1 else first + width - 1
        return Ranges.one(first, last)


def unexpired(rows: Rows, before_ms: int | None) -> Rows:
    """Return the rows that were touched at `before_ms` or later."""
    if before_ms is None or rows.stamps_ms is None:
        return rows
    return rows.where(np.asarray(rows.stamps_ms >= before_ms, np.bool_))
