"""A table within a transaction: columns in, columns out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state.columns import (
    Batch,
    Bools,
    Columns,
    conform,
    declared_batch,
    gather_optional,
    size_bytes,
)
from holdfast.state.keys import Hashes, Keys
from holdfast.state.rows import Ranges, Rows
from holdfast.state.schema import TableSchema

if TYPE_CHECKING:
    from holdfast.state.transaction import Transaction


_REACH_BYTES: Final = 2**31 - 1


@dataclass(frozen=True)
class Lookup:
    """What a table knows of a batch of keys, in the order of the keys."""

    found: Bools
    values: pa.RecordBatch
    """The value columns; null where the key was not found."""

    def __len__(self) -> int:
        return len(self.found)


class Table:
    """One table within a transaction: columns in, columns out."""

    def __init__(self, transaction: Transaction, schema: TableSchema) -> None:
        self._transaction = transaction
        self.schema = schema

    def keys(self, batch: Batch, hashes: Hashes | None = None) -> Keys:
        """Check a batch of keys once, to use it in several calls."""
        return Keys.of(self.schema, batch, hashes)

    def get(self, keys: Keys) -> Lookup:
        """Return what is known of some keys, in their order."""
        self._require_keys(keys)
        hits = self._transaction.read(self.schema, keys)
        place = np.full(len(keys), -1, np.int64)
        place[hits.at] = np.arange(len(hits))
        values = [gather_optional(column, place) for column in hits.values]
        nullable = pa.schema([field.with_nullable(True) for field in self.schema.value])
        return Lookup(place >= 0, declared_batch(values, nullable))

    def put(self, keys: Keys, values: Batch) -> None:
        """Store values under keys; of a key that comes twice the last one stays."""
        self.put_columns(keys, self.value_columns(values, len(keys)))

    def put_columns(self, keys: Keys, columns: Columns) -> None:
        """Store value columns that were checked before."""
        self._require_keys(keys)
        stamps = self._transaction.stamps(self.schema, len(keys))
        self._transaction.write(self.schema, Rows.of(keys, columns, stamps_ms=stamps))

    def delete(self, keys: Keys) -> None:
        """Remove keys; absent ones are fine."""
        self._require_keys(keys)
        self._transaction.write(self.schema, self._transaction.deletions(self.schema, keys))

    def scan(self, ranges: Ranges | None = None) -> Iterator[pa.RecordBatch]:
        """Yield key and value columns in the order of the codes, a piece at a time."""
        for rows in self.rows(ranges):
            for piece in _arrays_of(rows):
                yield as_batch(self.schema, piece)

    def rows(self, ranges: Ranges | None = None) -> Iterator[Rows]:
        """Yield rows in the order of their codes, a piece at a time."""
        return self._transaction.rows(self.schema, ranges or Ranges.everything())

    def _require_keys(self, keys: Keys) -> None:
        if not isinstance(keys, Keys):
            raise StateMismatch(
                f"Table {self.schema.name}: keys cannot be a {type(keys).__name__}.",
                hint="Make them with table.keys(batch, hashes).",
            )
        if keys.hashes not in ("", self.schema.hashes):
            raise StateMismatch(
                f"Table {self.schema.name} is hashed by {self.schema.hashes}, and the keys by "
                f"{keys.hashes}.",
                hint="Make keys with the table they are used in.",
            )
        types = tuple(column.type for column in keys.columns)
        if types != self.schema.stored_key:
            raise StateMismatch(
                f"Table {self.schema.name}: the keys are those of another table, "
                f"of types {', '.join(map(str, types))}.",
                hint="Make keys with the table they are used in.",
            )

    def value_columns(self, values: Batch, rows: int) -> Columns:
        """Return the value columns of a batch, checked."""
        columns = conform(values, self.schema.value, table=self.schema.name, role="value")
        if columns and len(columns[0]) != rows:
            raise StateMismatch(
                f"Table {self.schema.name}: {rows} keys came with {len(columns[0])} values.",
                hint="Bring one value with every key.",
            )
        return columns


def _arrays_of(rows: Rows) -> Iterator[Rows]:
    """Cut rows so that 32-bit offsets, if the declared types have them, reach every value."""
    if len(rows) > 1 and size_bytes([*rows.keys, *rows.values]) > _REACH_BYTES:
        half = len(rows) // 2
        # Copied, because a slice still has all of the memory.
        yield from _arrays_of(rows.take(np.arange(half)))
        yield from _arrays_of(rows.take(np.arange(half, len(rows))))
    else:
        yield rows


def as_batch(schema: TableSchema, rows: Rows) -> pa.RecordBatch:
    """Return rows as their users know them: key columns, then value columns."""
    return declared_batch([*rows.keys, *rows.values], pa.schema([*schema.key, *schema.value]))
