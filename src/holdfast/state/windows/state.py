"""Windows of one operator partition: rows in, windows out once the watermark has passed them.

add     rows fall into windows           due at the window's end
fire    the watermark reached the end    lateness 0: gone; else due again at end + lateness
add     a late row changes it            due at its end again, which is past: fires again
fire    the watermark reached the end    gone, without a word
        plus the lateness
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from holdfast.errors import StateDamaged, StateMismatch
from holdfast.state.codes import FIRST, LAST
from holdfast.state.columns import (
    Batch,
    Bools,
    Columns,
    Int64s,
    as_declared,
    concatenate,
    conform,
    gather,
)
from holdfast.state.keys import Hashes
from holdfast.state.owners import Owners
from holdfast.state.rows import Rows, joined
from holdfast.state.schema import SPARK_HASHES, TableSchema
from holdfast.state.transaction import Transaction
from holdfast.state.windows.groups import Groups, begins_of, distinct, equal_windows
from holdfast.state.windows.memory import WindowMemory
from holdfast.state.windows.merging import Merge, checked_merge
from holdfast.state.windows.pending import Due, Entries, Pending
from holdfast.state.windows.results import Added, Stored, Windows
from holdfast.state.windows.sessions import merged_sessions
from holdfast.state.windows.specs import WindowSpec, checked_times
from holdfast.state.windows.tables import DUE_SUFFIX, flags, schemas_of, times, window_keys


class WindowState:
    """The windows of one operator partition, within one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        name: str,
        spec: WindowSpec,
        merge: Merge,
        *,
        lateness_us: int = 0,
        memory: WindowMemory | None = None,
    ) -> None:
        if lateness_us < 0:
            raise StateMismatch(
                f"Windows cannot stay open for {lateness_us} us.",
                hint="Give a lateness of 0 us or more.",
            )
        self.spec = spec
        self.lateness_us = lateness_us
        self.memory = WindowMemory() if memory is None else memory
        self._merge = merge
        self._table = transaction.table(name)
        self._pending = Pending(transaction, name + DUE_SUFFIX, self.memory)
        self.schema = self._table.schema
        self.key = pa.schema(list(self.schema.key)[:-2])
        self.value = pa.schema(list(self.schema.value)[:-2])

    @staticmethod
    def schemas_of(
        name: str, key: pa.Schema, value: pa.Schema, *, hashes: str = SPARK_HASHES
    ) -> tuple[TableSchema, TableSchema]:
        """Declare the tables of windows that hold `value` for every `key`."""
        return schemas_of(name, key, value, hashes=hashes)

    def owners(self, batch: Batch, hashes: Hashes | None = None) -> Owners:
        """Check a batch of keys once, to use it in several calls."""
        return Owners.of(self.key, batch, hashes, self.schema)

    def add(
        self,
        owners: Owners,
        start_us: Int64s,
        end_us: Int64s,
        partials: Batch,
        watermark_us: int,
    ) -> Added:
        """Add rows to the windows they were assigned to; of sessions, merge those that meet.

        `partials` are the value columns of the rows, raw or already reduced in part.

        A row is late if its own window, before any merging, was over and out of lateness at
        the watermark. Windows that are closed for good take part in nothing any more, fired or
        not, so that it does not matter whether `fire` is called before or after.
        """
        start, end = checked_times(start_us), checked_times(end_us)
        values = conform(partials, self.value, table=self.schema.name, role="value")
        self._check_lengths(len(owners), start, end, values)
        closed = self._closed(self.memory.advance(watermark_us))
        late = np.asarray(end <= closed, np.bool_)
        kept = np.flatnonzero(~late)
        if not len(kept):
            nothing = self._windows(owners.take(kept), kept, kept, tuple(c[:0] for c in values))
            return Added(late, nothing, np.empty(0, np.bool_), nothing)
        if late.any():
            owners, start, end = owners.take(kept), start.take(kept), end.take(kept)
            values = tuple(gather(column, kept) for column in values)
        keys = distinct(owners)
        owners = owners.take(keys.first)
        stored, groups = self._grouped(owners, keys.number, start, end, closed)
        return Added(late, *self._change(owners, groups, stored, values))

    def fire(self, watermark_us: int) -> Iterator[Windows]:
        """Yield the windows that end at the watermark or before and have something to fire.

        Each piece is settled before it is given out: a window without lateness is removed. Rows
        may be added in between: what they make due comes later in the same loop. A loop that is
        broken off leaves the rest to the next one.
        """
        return self._fire(self.memory.advance(watermark_us))

    def flush(self) -> Iterator[Windows]:
        """Yield everything that has not fired, and leave no window behind: the stream has ended.

        The watermark stays where it was: should the stream go on after all, later rows make
        windows of their own.
        """
        return self._fire(LAST)

    # Adding.

    def _closed(self, watermark_us: int) -> int:
        """Return the end up to which windows are closed for good."""
        return max(int(watermark_us) - self.lateness_us, FIRST)

    def _check_lengths(self, rows: int, start: Int64s, end: Int64s, values: Columns) -> None:
        lengths = {len(start), len(end), *(len(column) for column in values)}
        if lengths != {rows}:
            raise StateMismatch(
                f"Table {self.schema.name}: {rows} keys came with {len(start)} starts, "
                f"{len(end)} ends and {len(values[0]) if values else 'no'} values.",
                hint="Bring one window and one value with every key.",
            )

    def _grouped(
        self, owners: Owners, number: Int64s, start_us: Int64s, end_us: Int64s, closed: int
    ) -> tuple[Stored, Groups]:
        """Return the stored windows that rows may fall into, and the groups of both together."""
        if not self.spec.merges:
            return self._with_stored(owners, equal_windows(number, start_us, end_us))
        stored = self._open_sessions(owners, closed)
        groups = merged_sessions(
            np.concatenate([stored.number, number]),
            np.concatenate([stored.start_us, start_us]),
            np.concatenate([stored.end_us, end_us]),
        )
        return stored, groups.joined_from(len(stored))

    def _open_sessions(self, owners: Owners, closed: int) -> Stored:
        found, number = [Rows.none(self.schema)], [np.empty(0, np.int64)]
        for rows in self._table.rows(owners.entry_ranges):
            of_owner = owners.of_entries(rows)
            mine = (of_owner >= 0) & (times(rows.keys[-1]) > closed)
            found.append(rows.where(mine))
            number.append(of_owner[mine])
        rows = joined(found)
        stored = Stored(
            np.concatenate(number),
            times(rows.keys[-2]),
            times(rows.keys[-1]),
            times(rows.values[-2]),
            flags(rows.values[-1]),
            rows.values[:-2],
        )
        # Merged in the order of time, which collected and first or last values show.
        return stored.take(np.lexsort((stored.start_us, stored.number)))

    def _with_stored(self, owners: Owners, groups: Groups) -> tuple[Stored, Groups]:
        keys = window_keys(owners.take(groups.number), groups.start_us, groups.end_us)
        lookup = self._table.get(keys)
        at = np.flatnonzero(lookup.found)
        values = tuple(gather(column, at) for column in lookup.values.columns)
        stored = Stored(
            groups.number.take(at),
            groups.start_us.take(at),
            groups.end_us.take(at),
            times(values[-2]),
            flags(values[-1]),
            conform(
                dict(zip(self.value.names, values, strict=False)),
                self.value,
                table=self.schema.name,
                role="value",
            ),
        )
        of_row = np.concatenate([at, groups.of_row])
        return stored, Groups(of_row, groups.number, groups.start_us, groups.end_us)

    def _change(
        self, owners: Owners, groups: Groups, stored: Stored, values: Columns
    ) -> tuple[Windows, Bools, Windows]:
        rows = tuple(
            concatenate([one, other]) for one, other in zip(stored.values, values, strict=True)
        )
        # Merging comes first: if it fails, nothing has been written.
        windows = self._windows(
            owners.take(groups.number), groups.start_us, groups.end_us, self._merged(rows, groups)
        )
        group = groups.of_row[: len(stored)]
        same = stored.start_us == groups.start_us.take(group, mode="clip")
        same &= (stored.end_us == groups.end_us.take(group, mode="clip")) & (group >= 0)
        known, fired = np.zeros(len(groups), np.bool_), np.zeros(len(groups), np.bool_)
        known[group[same]] = True
        fired[group[same]] = stored.fired[same]
        due = windows.end_us.copy()
        due[group[same]] = stored.due_us[same]
        waiting = due > windows.end_us
        self._put(windows, windows.end_us, fired)
        absorbed = stored.take(np.flatnonzero((group >= 0) & ~same))
        self._forget(owners, absorbed)
        self._pending.delete(windows.entries(np.flatnonzero(waiting), due))
        self._pending.put(windows.entries(np.flatnonzero(waiting | ~known), windows.end_us))
        gone = absorbed.take(np.flatnonzero(absorbed.fired))
        whose = owners.take(gone.number)
        return windows, fired, self._windows(whose, gone.start_us, gone.end_us, gone.values)

    def _merged(self, rows: Columns, groups: Groups) -> Columns:
        order = np.argsort(groups.of_row, kind="stable")
        order = order[int((groups.of_row < 0).sum()) :]
        starts = np.flatnonzero(begins_of(groups.of_row.take(order)))
        merged = self._merge(self._declared(tuple(gather(row, order) for row in rows)), starts)
        return checked_merge(merged, len(groups), self.value, table=self.schema.name)

    def _forget(self, owners: Owners, stored: Stored) -> None:
        """Delete stored windows with their entries."""
        if len(stored):
            whose = owners.take(stored.number)
            self._table.delete(window_keys(whose, stored.start_us, stored.end_us))
            self._pending.delete(Entries(whose, stored.start_us, stored.end_us, stored.due_us))

    # Firing.

    def _fire(self, watermark_us: int) -> Iterator[Windows]:
        closed = self._closed(watermark_us) if watermark_us < LAST else LAST
        for due in self._pending.due(watermark_us):
            windows = self._settle(due, closed)
            if len(windows):
                yield windows

    def _settle(self, due: Due, closed: int) -> Windows:
        entries = due.entries
        windows = self._unfired(entries)
        self._pending.settle(due)
        gone = np.flatnonzero((entries.due_us > entries.end_us) | (entries.end_us <= closed))
        if len(gone):
            keys = window_keys(
                entries.owners.take(gone), entries.start_us.take(gone), entries.end_us.take(gone)
            )
            self._table.delete(keys)
        stay = np.flatnonzero(windows.end_us > closed)
        if len(stay):
            waiting = windows.take(stay)
            removed_us = _later(waiting.end_us, self.lateness_us)
            self._put(waiting, removed_us, np.ones(len(stay), np.bool_))
            self._pending.put(waiting.entries(np.arange(len(stay)), removed_us))
        return windows

    def _unfired(self, entries: Entries) -> Windows:
        at = np.flatnonzero(entries.due_us == entries.end_us)
        owners, start, end = entries.owners.take(at), entries.start_us[at], entries.end_us[at]
        lookup = self._table.get(window_keys(owners, start, end))
        if not lookup.found.all():
            raise StateDamaged(
                f"Table {self.schema.name} lacks {int((~lookup.found).sum())} of {len(at)} "
                "windows that are due.",
                hint="Open the last checkpoint again. Windows end by the watermark: give their "
                "tables no TTL.",
            )
        return Windows(owners, start, end, self._declared(tuple(lookup.values.columns[:-2])))

    # Rows and columns.

    def _put(self, windows: Windows, due_us: Int64s, fired: Bools) -> None:
        keys = window_keys(windows.owners, windows.start_us, windows.end_us)
        columns = [*windows.values.columns, pa.array(due_us), pa.array(fired)]
        self._table.put(keys, dict(zip(self.schema.value.names, columns, strict=True)))

    def _windows(
        self, owners: Owners, start_us: Int64s, end_us: Int64s, values: Columns
    ) -> Windows:
        return Windows(owners, start_us, end_us, self._declared(values))

    def _declared(self, columns: Columns) -> pa.RecordBatch:
        arrays = [
            as_declared(column, field) for column, field in zip(columns, self.value, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.value)


def _later(times_us: Int64s, by_us: int) -> Int64s:
    """Return times moved on, those that would overflow to the end of time."""
    by_us = min(by_us, LAST)
    return np.minimum(times_us, LAST - by_us) + by_us
