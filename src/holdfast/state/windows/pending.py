"""The pending index: which windows are due when.

The index is a table sorted by time, part of every checkpoint. Its front is also held in memory,
up to `max_pending_windows` entries: everything before a horizon. What is due before the horizon
is found without touching the backend; what lies beyond it is read when the watermark gets
there. Whether entries have spilled is where the horizon is, so there is nothing to restore: a
memory that knows nothing has its horizon at the beginning of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state.codes import FIRST, LAST, TIME_HASH_BITS, time_range
from holdfast.state.columns import Int64s
from holdfast.state.keys import Hashes
from holdfast.state.owners import Owners
from holdfast.state.rows import Ranges, Rows, joined, merged
from holdfast.state.schema import TableSchema
from holdfast.state.transaction import Transaction, TransactionState
from holdfast.state.windows.tables import due_keys, times

DEFAULT_MAX_PENDING: Final = 100_000

_EVERYTHING: Final = LAST + 1
"""The horizon beyond which there is nothing."""

_FIRST_STEP: Final = 1000 << TIME_HASH_BITS
"""The codes of one second: how far to read ahead before anything is known."""

_WIDER: Final = 4
"""How much further to read ahead each time until enough was found."""


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


@dataclass(frozen=True)
class Entries:
    """Windows with the times they are due, as the index knows them."""

    owners: Owners
    start_us: Int64s
    end_us: Int64s
    due_us: Int64s

    def __len__(self) -> int:
        return len(self.due_us)


class WindowMemory:
    """What an operator partition keeps in memory of its windows, from epoch to epoch.

    Make one for each opened `Store` and hand it to every `WindowState` on it. It follows the
    store's transactions: what one of them changed counts if that one committed, and otherwise
    the memory begins anew, knowing nothing, which costs one short scan when the next windows
    are due. `watermark_us` is the watermark of the checkpoint that the store was opened at.
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
        spilled = self.horizon < _EVERYTHING
        return PendingCounts(held, spilled, self.scans, self.rows_due, self.rows_ahead)

    def follow(self, transaction: Transaction, schema: TableSchema) -> None:
        """Go on with a transaction, from what the one before it left."""
        if self._schema is not None and schema.name != self._schema.name:
            raise StateMismatch(
                f"The memory of table {self._schema.name} cannot serve table {schema.name}.",
                hint="Make one WindowMemory for each window operator.",
            )
        if transaction is not self._transaction:
            before = self._transaction
            if before is not None and before.state is TransactionState.COMMITTED:
                self._committed_watermark_us = self.watermark_us
            else:
                self.watermark_us = self._committed_watermark_us
                self._forget()
        # Declarations are made anew with every opened store: this one may be at another
        # checkpoint, or under another number of partitions.
        if schema is not self._schema:
            self._forget()
        self._transaction, self._schema = transaction, schema

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
        known = changes
        if self.horizon < _EVERYTHING:
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

    @property
    def _rows(self) -> Rows:
        if self._held is None:
            assert self._schema is not None
            self._held = Rows.none(self._schema)
        return self._held

    def _forget(self) -> None:
        self._held = None
        self.horizon = FIRST


class Pending:
    """The pending index within one transaction."""

    def __init__(self, transaction: Transaction, name: str, memory: WindowMemory) -> None:
        self._transaction = transaction
        self._table = transaction.table(name)
        self._memory = memory
        memory.follow(transaction, self._table.schema)

    def put(self, entries: Entries) -> None:
        """Add entries."""
        keys = due_keys(entries.owners, entries.start_us, entries.end_us, entries.due_us)
        self._write(Rows.of(keys, (pa.array(entries.owners.hashes.lookup),)))

    def delete(self, entries: Entries) -> None:
        """Remove entries."""
        keys = due_keys(entries.owners, entries.start_us, entries.end_us, entries.due_us)
        self._write(self._transaction.deletions(self._table.schema, keys))

    def due(self, until_us: int) -> Iterator[Entries]:
        """Yield the entries up to a time, inclusive; whoever asks deletes them before going on."""
        first, last = time_range(until_us // 1000, until_us // 1000)
        memory = self._memory
        yield from _due(memory.held_until(last), until_us)
        horizon = memory.horizon
        if last < horizon:
            return
        memory.scans += 1
        for rows in self._table.rows(Ranges.one(horizon, last)):
            memory.rows_due += len(rows)
            yield from _due(rows, until_us)
        # What was due is gone. The last millisecond may have more, and is read again.
        if first > horizon:
            memory.learn(self._nothing, first)
        advanced = memory.horizon - horizon if horizon > FIRST else 0
        self._read_ahead(max(advanced, _FIRST_STEP))

    def _read_ahead(self, step: int) -> None:
        """Fill the memory, further and further ahead, until it is half full or time ends."""
        memory = self._memory
        while memory.horizon < _EVERYTHING:
            last = min(memory.horizon + step - 1, LAST)
            if not self._read_until(last):
                return
            step *= _WIDER

    def _read_until(self, last: int) -> bool:
        memory = self._memory
        memory.scans += 1
        for rows in self._table.rows(Ranges.one(memory.horizon, last)):
            memory.rows_ahead += len(rows)
            if not memory.learn(rows, int(rows.codes[-1]) + 1):
                return False
        return memory.learn(self._nothing, last + 1)

    @property
    def _nothing(self) -> Rows:
        return Rows.none(self._table.schema)

    def _write(self, changes: Rows) -> None:
        if len(changes):
            self._transaction.write(self._table.schema, changes)
            self._memory.apply(changes)


def _due(rows: Rows, until_us: int) -> Iterator[Entries]:
    # The code knows milliseconds.
    due = rows.where(times(rows.keys[-1]) <= until_us)
    if len(due):
        start, end, at = (times(column) for column in due.keys[-3:])
        lookup = times(due.values[0])
        yield Entries(Owners(due.keys[:-3], Hashes(lookup, due.partition_hashes)), start, end, at)
