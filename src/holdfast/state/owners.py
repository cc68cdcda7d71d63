"""Keys that own several rows: the entries of a map, the elements of a list, timers, windows.

Such a table's key is the owner's key and something more. Its partition is the owner's, so that
everything of a key lives, and moves, together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state.codes import entry_range
from holdfast.state.columns import Batch, Columns, Int64s, declared_batch, equal, gather
from holdfast.state.keys import Hashes, Keys, hashes_for, key_columns
from holdfast.state.rows import Ranges, Rows
from holdfast.state.schema import TableSchema
from holdfast.state.sorting import argsort


@dataclass(frozen=True)
class Owners:
    """A batch of owners: the user's key columns with the two hashes of each key."""

    columns: Columns
    hashes: Hashes

    @classmethod
    def of(cls, key: pa.Schema, batch: Batch, hashes: Hashes | None, table: TableSchema) -> Self:
        """Check a batch of the user's keys against the key columns of the owner."""
        declared = TableSchema(table.name, key, pa.schema([]), hashes=table.hashes)
        columns = key_columns(declared, batch)
        return cls(columns, hashes_for(declared, columns, hashes))

    def __len__(self) -> int:
        return len(self.hashes)

    def require_one_each(self, given: int, what: str, table: str) -> None:
        """Raise unless there are as many of something as there are owners."""
        if given != len(self):
            raise StateMismatch(
                f"Table {table}: {len(self)} keys came with {given} {what}.",
                hint="Bring one with every key.",
            )

    def take(self, at: Int64s) -> Owners:
        """Return the owners at some positions."""
        return Owners(
            tuple(gather(column, at) for column in self.columns),
            Hashes(self.hashes.lookup.take(at), self.hashes.partition.take(at)),
        )

    def keys(self, more: Columns, codes: Int64s) -> Keys:
        """Return the keys of rows that belong to these owners, one row each."""
        return Keys((*self.columns, *more), codes, self.hashes.partition)

    def batch(self, key: pa.Schema) -> pa.RecordBatch:
        """Return the key columns in their declared types."""
        return declared_batch(self.columns, key)

    @cached_property
    def entry_ranges(self) -> Ranges:
        """The codes that entries of these owners can have in a table of entries."""
        return Ranges.of(*entry_range(self.hashes.lookup))

    @cached_property
    def _prefixes(self) -> tuple[Int64s, Int64s]:
        first, _ = entry_range(self.hashes.lookup)
        order = argsort(first)
        return first.take(order), order

    def of_entries(self, rows: Rows) -> Int64s:
        """Say to which owner each row of a table of entries belongs; -1 is to none of them.

        Keys that are not asked for can share the prefix of one that is.
        """
        prefixes, order = self._prefixes
        wanted, _ = entry_range(rows.codes)
        result = np.full(len(rows), -1, np.int64)
        place = np.searchsorted(prefixes, wanted, "left")
        open_ = np.arange(len(rows))
        own = len(self.columns)
        while len(open_):
            place_inside = place < len(prefixes)
            open_, place = open_[place_inside], place[place_inside]
            same_prefix = prefixes.take(place) == wanted.take(open_)
            open_, place = open_[same_prefix], place[same_prefix]
            owner = order.take(place)
            same = equal(rows.keys[:own], open_, self.columns, owner)
            result[open_[same]] = owner[same]
            open_, place = open_[~same], place[~same] + 1
        return result
