"""The pending index: which windows are due when.

The index is a table sorted by time, part of every checkpoint. Its front is also held in memory,
up to `max_pending_windows` entries: everything before a horizon. What is due before the horizon
is found without touching the backend; what lies beyond it is read when the watermark gets
there. Whether entries have spilled is where the horizon is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from holdfast.state.codes import FIRST, LAST, TIME_HASH_BITS, time_range
from holdfast.state.columns import Int64s
from holdfast.state.keys import Hashes
from holdfast.state.owners import Owners
from holdfast.state.rows import Ranges, Rows
from holdfast.state.transaction import Transaction
from holdfast.state.windows.memory import EVERYTHING, WindowMemory
from holdfast.state.windows.tables import due_keys, times

_FIRST_STEP: Final = 1000 << TIME_HASH_BITS
"""The codes of one second: how far to read ahead before anything is known."""

_WIDER: Final = 4
"""How much further to read ahead each time until enough was found."""


@dataclass(frozen=True)
class Entries:
    """Windows with the times they are due, as the index knows them."""

    owners: Owners
    start_us: Int64s
    end_us: Int64s
    due_us: Int64s

    def __len__(self) -> int:
        return len(self.due_us)


@dataclass(frozen=True)
class Due:
    """Entries that are due, and what is known once they are gone."""

    entries: Entries
    rest: Rows | None = None
    """What else there is from the horizon up to `horizon`; `None` if that is not known."""
    horizon: int = FIRST


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

    def settle(self, due: Due) -> None:
        """Remove entries that are due, as soon as they are given out."""
        self.delete(due.entries)
        # Not earlier: entries that could not be removed have to be found again.
        if due.rest is not None:
            self._memory.learn(due.rest, due.horizon)

    def due(self, until_us: int) -> Iterator[Due]:
        """Yield the entries up to a time, inclusive; whoever asks settles each before going on.

        Anything may be written in between, and other entries given out: nothing that was read
        before a yield is relied on after it.
        """
        memory = self._memory
        first, last = time_range(until_us // 1000, until_us // 1000)
        began, has_read = memory.horizon, False
        while (due := self._next_due(until_us, last)) is not None:
            has_read |= due.rest is not None
            yield due
        if memory.horizon > last and not has_read:
            return
        # Nothing is due. The last millisecond may have something that is not, and is read again.
        if first > memory.horizon:
            memory.learn(self._nothing, first)
        advanced = memory.horizon - began if began > FIRST else 0
        self._read_ahead(max(advanced, _FIRST_STEP))

    def _next_due(self, until_us: int, last: int) -> Due | None:
        memory = self._memory
        memory.follow(self._transaction, self._table.schema)
        held = memory.held_until(last)
        due = held.where(times(held.keys[-1]) <= until_us)
        if len(due):
            return Due(_entries(due))
        if memory.horizon > last:
            return None
        memory.scans += 1
        follows = True
        for rows in self._table.rows(Ranges.one(memory.horizon, last)):
            memory.rows_due += len(rows)
            # The code knows milliseconds.
            is_due = times(rows.keys[-1]) <= until_us
            if is_due.any():
                entries = _entries(rows.where(is_due))
                if not follows:
                    return Due(entries)
                return Due(entries, rows.where(~is_due), int(rows.codes[-1]) + 1)
            follows = False
        return None

    def _read_ahead(self, step: int) -> None:
        """Fill the memory, further and further ahead, until it is half full or time ends."""
        memory = self._memory
        while memory.horizon < EVERYTHING:
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
            self._memory.follow(self._transaction, self._table.schema)
            self._transaction.write(self._table.schema, changes)
            self._memory.apply(changes)


def _entries(rows: Rows) -> Entries:
    start, end, due = (times(column) for column in rows.keys[-3:])
    lookup = times(rows.values[0])
    return Entries(Owners(rows.keys[:-3], Hashes(lookup, rows.partition_hashes)), start, end, due)
