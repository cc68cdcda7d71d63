"""What is held in memory of the pending index: its front, up to a horizon.

Every entry below the horizon is held, and nothing is known of the others. A memory that knows
nothing has its horizon at the beginning of time, so there is nothing to restore.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from holdfast.errors import StateMismatch
from holdfast.state.codes import FIRST, LAST
from holdfast.state.rows import Rows, joined, merged
from holdfast.state.schema import TableSchema
from holdfast.state.transaction import Transaction, TransactionState

DEFAULT_MAX_PENDING: Final = 100_000

EVERYTHING: Final = LAST + 1
"""The horizon beyond which there is nothing."""

_WRITES: Final[WeakKeyDictionary[Transaction, Counter[str]]] = WeakKeyDictionary()
"""How often a transaction has written to each pending index, through whichever memory."""


@dataclass(frozen=True)
class PendingCounts:
    """What the pending index holds and has done."""

    held: int
    """Entries in memory."""
    spilled: bool
    """Whether there may be entries that are only in the backend."""
    scans: int
    """Range scans of the backend since the memory was made."""
    rows_due: int
    """Rows that those scans read because they were due."""
    rows_ahead: int
    """Rows that they read ahead."""


class WindowMemory:
    """What an operator partition keeps in memory of its windows, from epoch to epoch.

    Make one for each opened `Store` and hand it to every `WindowState` on it. It follows the
    store's transactions one after another. If one of them did not commit, or the memory was not
    there, it begins anew, knowing nothing, which costs one short scan when the next windows are
    due. `watermark_us` is the watermark of the checkpoint that the store was opened at.
    """

    def __init__(
        self,
        max_pending_windows: int = DEFAULT_MAX_PENDING,
        *,
        watermark_us: int = FIRST,
    ) -> None:
        if max_pending_windows < 1:
            raise StateMismatch(
                f"A pending index of {max_pending_windows} windows cannot hold the next one.",
                hint="Set max_pending_windows to 1 or more.",
            )
        self.max_pending_windows = max_pending_windows
        self.watermark_us = watermark_us
        """The highest watermark seen; a lower one counts as this one."""
        self._committed_watermark_us = watermark_us
        self._transaction: Transaction | None = None
        self._schema: TableSchema | None = None
        self._writes_seen = 0
        self._held: Rows | None = None
        self.horizon = FIRST
        """The first code that is not known: every entry below it is held."""
        self.scans = 0
        self.rows_due = 0
        self.rows_ahead = 0

    @property
    def counts(self) -> PendingCounts:
        """What is held, and what was read from the backend so far."""
        held = 0 if self._held is None else len(self._held)
        spilled = self.horizon < EVERYTHING
        return PendingCounts(held, spilled, self.scans, self.rows_due, self.rows_ahead)

    def follow(self, transaction: Transaction, schema: TableSchema) -> None:
        """Go on with a transaction, from what the one before it left, or with the same one.

        What was written in the meantime, and not through this memory, is noticed.
        """
        if self._schema is not None and schema.name != self._schema.name:
            raise StateMismatch(
                f"The memory of table {self._schema.name} cannot serve table {schema.name}.",
                hint="Make one WindowMemory for each window operator.",
            )
        before = self._transaction
        if before is not None:
            self._catch_up()
        if transaction is not before:
            self._writes_seen = 0
            if before is not None and before.state is TransactionState.COMMITTED:
                self._committed_watermark_us = self.watermark_us
                # What a transaction in between wrote is not known here.
                if transaction.number != before.number + 1:
                    self._forget()
            else:
                self.watermark_us = self._committed_watermark_us
                self._forget()
        # Declarations are made anew with every opened store: this one may be at another
        # checkpoint, or under another number of partitions.
        if schema is not self._schema:
            self._forget()
        self._transaction, self._schema = transaction, schema
        self._catch_up()

    def advance(self, watermark_us: int) -> int:
        """Take note of a watermark, and return the one that counts."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        return self.watermark_us

    def held_until(self, last: int) -> Rows:
        """Return the held entries up to a code, inclusive."""
        held = self._rows
        return held.slice(0, int(np.searchsorted(held.codes, last, "right")))

    def apply(self, changes: Rows) -> None:
        """Follow what was written to the table, deletions included."""
        self._writes[self._table] += 1
        self._writes_seen += 1
        known = changes
        if self.horizon < EVERYTHING:
            known = changes.slice(0, int(np.searchsorted(changes.codes, self.horizon, "left")))
        if len(known):
            # Only as far back as the changes reach: what fires is at the front, and then the
            # rest is not copied.
            cut = int(np.searchsorted(self._rows.codes, known.codes[-1], "right"))
            front = merged([self._rows.slice(0, cut), known]).alive()
            rest = self._rows.slice(cut, len(self._rows))
            self._hold(joined([part for part in (front, rest) if len(part)] or [front]))

    def learn(self, rows: Rows, horizon: int) -> bool:
        """Take in the entries from the horizon up to another; say whether there is room left."""
        self.horizon = horizon
        # One more than there is room for says where the horizon has to stay.
        rows = rows.slice(0, min(len(rows), self.max_pending_windows - len(self._rows) + 1))
        self._hold(joined([self._rows, rows]) if len(rows) else self._rows)
        return self.horizon == horizon and len(self._rows) * 2 < self.max_pending_windows

    def _hold(self, rows: Rows) -> None:
        if len(rows) > self.max_pending_windows:
            self.horizon = int(rows.codes[self.max_pending_windows])
            keep = int(np.searchsorted(rows.codes, self.horizon, "left"))
            # A copy: a slice would keep all of it in memory.
            rows = rows.take(np.arange(keep))
        self._held = rows

    def _catch_up(self) -> None:
        """Begin anew if the index was written to through another memory."""
        writes = self._writes[self._table]
        if writes != self._writes_seen:
            self._forget()
            self._writes_seen = writes

    @property
    def _writes(self) -> Counter[str]:
        assert self._transaction is not None
        return _WRITES.setdefault(self._transaction, Counter())

    @property
    def _table(self) -> str:
        assert self._schema is not None
        return self._schema.name

    @property
    def _rows(self) -> Rows:
        if self._held is None:
            assert self._schema is not None
            self._held = Rows.none(self._schema)
        return self._held

    def _forget(self) -> None:
        self._held = None
        self.horizon = FIRST
