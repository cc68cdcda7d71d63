"""List and map state: one element, one entry, one row, so that a change costs what it changes.

Value state needs nothing of this: it is a table (`Transaction.table`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state import hashing
from holdfast.state.codes import entry_codes
from holdfast.state.columns import (
    Batch,
    Columns,
    Int64s,
    as_declared,
    conform,
    declared_batch,
    gather,
    normalized,
)
from holdfast.state.keys import Hashes, Keys
from holdfast.state.owners import Owners
from holdfast.state.rows import Rows, joined
from holdfast.state.schema import SPARK_HASHES, Layout, TableSchema
from holdfast.state.tables import Lookup
from holdfast.state.transaction import Transaction

NUMBER: Final = "__number"
"""The key column that orders the elements of a list."""

ENTRY: Final = "__entry"
"""The key column that holds the key of a map's entry."""


@dataclass(frozen=True)
class Entries:
    """Rows that belong to owners: whose each is, and what it holds."""

    owner: Int64s
    """The position of the owner in the batch that was asked for."""
    entry: pa.Array
    """The map's key, or the element's number in the list."""
    values: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.owner)


class _OwnedTable:
    """What lists and maps share: entries under an owner's key."""

    _column: ClassVar[str]
    """The key column that tells the entries of an owner apart."""

    def __init__(self, transaction: Transaction, name: str) -> None:
        self._transaction = transaction
        self._table = transaction.table(name)
        self.schema = self._table.schema
        self._key = pa.schema(list(self.schema.key)[:-1])
        self._entry: pa.Field = list(self.schema.key)[-1]
        if self._entry.name != self._column:
            raise StateMismatch(
                f"Table {name!r} was not declared as the table of a {type(self).__name__}.",
                hint=f"Declare it with {type(self).__name__}.schema_of.",
            )

    def owners(self, batch: Batch, hashes: Hashes | None = None) -> Owners:
        """Check a batch of keys once, to use it in several calls."""
        return Owners.of(self._key, batch, hashes, self.schema)

    def items(self, owners: Owners) -> Entries:
        """Return every entry of some keys, by the position of the key in the batch.

        The entries of a key that comes twice are given under one of its positions.
        """
        found = list(self._owned(owners))
        rows = joined([rows for rows, _ in found]) if found else Rows.none(self.schema)
        owner = np.concatenate([owner for _, owner in found]) if found else np.empty(0, np.int64)
        return self._entries(rows, owner)

    def clear(self, owners: Owners) -> None:
        """Remove every entry of some keys."""
        for rows, _ in list(self._owned(owners)):
            self._table.delete(rows.as_keys())

    def _owned(self, owners: Owners) -> Iterator[tuple[Rows, Int64s]]:
        for rows in self._table.rows(owners.entry_ranges):
            owner = owners.of_entries(rows)
            mine = owner >= 0
            if mine.any():
                yield rows.where(mine), owner[mine]

    def _entries(self, rows: Rows, owner: Int64s) -> Entries:
        entry = rows.keys[-1]
        order = np.lexsort((np.arange(len(owner)), owner))
        if self._entry.name == NUMBER:
            order = np.lexsort((np.asarray(entry), owner))
        values = declared_batch(
            [gather(column, order) for column in rows.values], self.schema.value
        )
        return Entries(owner.take(order), as_declared(gather(entry, order), self._entry), values)


class MapState(_OwnedTable):
    """A map under every key; one entry of it is one row."""

    _column = ENTRY

    @staticmethod
    def schema_of(
        name: str,
        key: pa.Schema,
        entry: pa.DataType,
        value: pa.Schema,
        *,
        hashes: str = SPARK_HASHES,
    ) -> TableSchema:
        """Declare the table of a map."""
        columns = pa.schema([*key, pa.field(ENTRY, entry)])
        return TableSchema(name, columns, value, layout=Layout.ENTRY, hashes=hashes)

    def get(self, owners: Owners, entries: Batch | pa.Array) -> Lookup:
        """Return one entry of each key."""
        return self._table.get(self._keys(owners, entries))

    def put(self, owners: Owners, entries: Batch | pa.Array, values: Batch) -> None:
        """Store one entry of each key; a key may come several times, with different entries."""
        self._table.put(self._keys(owners, entries), values)

    def remove(self, owners: Owners, entries: Batch | pa.Array) -> None:
        """Remove one entry of each key."""
        self._table.delete(self._keys(owners, entries))

    def _keys(self, owners: Owners, entries: Batch | pa.Array) -> Keys:
        (column,) = conform(
            {ENTRY: entries}, pa.schema([self._entry]), table=self.schema.name, role="entry"
        )
        owners.require_one_each(len(column), "entries", self.schema.name)
        entry: Columns = (normalized(column),)
        codes = entry_codes(owners.hashes.lookup, hashing.lookup_hashes(entry))
        return owners.keys(entry, codes)


class ListState(_OwnedTable):
    """A list under every key; appending writes the new elements and reads nothing."""

    _column = NUMBER

    @staticmethod
    def schema_of(
        name: str, key: pa.Schema, value: pa.Schema, *, hashes: str = SPARK_HASHES
    ) -> TableSchema:
        """Declare the table of a list."""
        columns = pa.schema([*key, pa.field(NUMBER, pa.int64(), nullable=False)])
        return TableSchema(name, columns, value, layout=Layout.ENTRY, hashes=hashes)

    def append(self, owners: Owners, values: Batch) -> None:
        """Append one element to the list of each key; a key may come several times."""
        self._table.put_columns(*self._appended(owners, values))

    def _appended(self, owners: Owners, values: Batch) -> tuple[Keys, Columns]:
        columns = self._table.value_columns(values, len(owners))
        numbers = self._transaction.next_numbers(len(owners))
        codes = entry_codes(owners.hashes.lookup, numbers)
        return owners.keys((pa.array(numbers),), codes), columns

    def replace(self, owners: Owners, values: Batch) -> None:
        """Make the given elements the whole list of each key that comes."""
        keys, columns = self._appended(owners, values)
        self.clear(owners)
        self._table.put_columns(keys, columns)
