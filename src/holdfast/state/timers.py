"""Timers: keys that want to be called at a time.

The table is sorted by time, so that finding what is due reads what is due and nothing else.
Setting a timer that is set already, or cancelling one that is not, changes nothing and reads
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state.codes import FIRST, time_codes, time_range
from holdfast.state.columns import Batch, Int64s
from holdfast.state.keys import Hashes, Keys
from holdfast.state.owners import Owners
from holdfast.state.rows import Ranges, Rows
from holdfast.state.schema import SPARK_HASHES, Layout, TableSchema
from holdfast.state.transaction import Transaction

DUE: Final = "__due_us"
"""The key column that holds the time, in microseconds since 1970."""

_LAST_US: Final = 2**63 - 1

LOOKUP_HASH: Final = "__lookup_hash"
"""The value column that holds the owner's hash, by which its state is found when it is due."""


@dataclass(frozen=True)
class Due:
    """Timers that have come due."""

    owners: Owners
    due_us: Int64s

    def __len__(self) -> int:
        return len(self.due_us)


class Timers:
    """The timers of one operator partition."""

    def __init__(self, transaction: Transaction, name: str) -> None:
        self._table = transaction.table(name)
        self.schema = self._table.schema
        self.key = pa.schema(list(self.schema.key)[:-1])
        if self.schema.key.names[-1] != DUE or self.schema.value.names != [LOOKUP_HASH]:
            raise StateMismatch(
                f"Table {name!r} was not declared as a table of timers.",
                hint="Declare it with Timers.schema_of.",
            )

    @staticmethod
    def schema_of(name: str, key: pa.Schema, *, hashes: str = SPARK_HASHES) -> TableSchema:
        """Declare the table of timers."""
        columns = pa.schema([*key, pa.field(DUE, pa.int64(), nullable=False)])
        value = pa.schema([pa.field(LOOKUP_HASH, pa.int64(), nullable=False)])
        return TableSchema(name, columns, value, layout=Layout.TIME, hashes=hashes)

    def owners(self, batch: Batch, hashes: Hashes | None = None) -> Owners:
        """Check a batch of keys once, to use it in several calls."""
        return Owners.of(self.key, batch, hashes, self.schema)

    def set(self, owners: Owners, due_us: Int64s) -> None:
        """Set a timer for each key; one key may have several, at different times."""
        self._table.put(self._keys(owners, due_us), {LOOKUP_HASH: owners.hashes.lookup})

    def cancel(self, owners: Owners, due_us: Int64s) -> None:
        """Remove timers."""
        self._table.delete(self._keys(owners, due_us))

    def due(self, until_us: int) -> Iterator[Due]:
        """Yield the timers up to a time, inclusive, by the millisecond; they stay set."""
        for rows in self._due(until_us):
            yield self._as_due(rows)

    def fire(self, until_us: int) -> Iterator[Due]:
        """Yield the timers up to a time, inclusive, by the millisecond, and remove them."""
        for rows in self._due(until_us):
            self._table.delete(rows.as_keys())
            yield self._as_due(rows)

    def _due(self, until_us: int) -> Iterator[Rows]:
        _, last = time_range(0, until_us // 1000)
        for rows in self._table.rows(Ranges.one(FIRST, last)):
            # The code knows milliseconds.
            due = rows.where(np.asarray(rows.keys[-1]) <= until_us)
            if len(due):
                yield due

    @staticmethod
    def _as_due(rows: Rows) -> Due:
        lookup = np.asarray(rows.values[0])
        return Due(
            Owners(rows.keys[:-1], Hashes(lookup, rows.partition_hashes)), np.asarray(rows.keys[-1])
        )

    def _keys(self, owners: Owners, due_us: Int64s) -> Keys:
        given = np.array(due_us)  # a copy: the caller may reuse its memory
        if len(given) and (given.dtype.kind not in "iu" or given.max() > _LAST_US):
            raise StateMismatch(
                f"Table {self.schema.name}: times of type {given.dtype} are no timers.",
                hint="Give microseconds since 1970 as 64-bit integers.",
            )
        times = given.astype(np.int64)
        owners.require_one_each(len(times), "times", self.schema.name)
        codes = time_codes(times // 1000, owners.hashes.lookup)
        return owners.keys((pa.array(times),), codes)
