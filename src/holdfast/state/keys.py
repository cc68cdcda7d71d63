"""A batch of keys: typed columns, the two hashes that came with them, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state import hashing
from holdfast.state.columns import (
    Batch,
    Columns,
    Int32s,
    Int64s,
    conform,
    declared_batch,
    gather,
    normalized,
)
from holdfast.state.schema import HOLDFAST_HASHES, Layout, TableSchema
from holdfast.state.sorting import argsort, is_sorted


@dataclass(frozen=True)
class Hashes:
    """The two hashes of every key of a batch, as Spark computes them.

    `lookup` is `xxhash64(keys)`, by which state is found; `partition` is `hash(keys)`, whose
    `pmod` with the number of partitions says where a key lives.
    """

    lookup: Int64s
    partition: Int32s

    @classmethod
    def of(cls, lookup: Any, partition: Any) -> Self:
        """Take the hashes from Arrow columns, NumPy arrays or lists."""
        return cls(_hashes(lookup, np.int64, "look-up"), _hashes(partition, np.int32, "partition"))

    @classmethod
    def own(cls, columns: Columns) -> Self:
        """Hash normalized key columns without Spark."""
        lookup = hashing.lookup_hashes(columns)
        return cls(lookup, hashing.partition_hashes(lookup))

    def __len__(self) -> int:
        return len(self.lookup)


@dataclass(frozen=True)
class Keys:
    """Keys of one table, ready to be looked up: make them with `Keys.of`."""

    columns: Columns
    codes: Int64s
    partition_hashes: Int32s
    hashes: str = ""
    """Who computed the hashes, of keys that a caller made."""

    @classmethod
    def of(cls, schema: TableSchema, batch: Batch, hashes: Hashes | None = None) -> Self:
        """Check a batch of keys against a table whose code is the hash of the whole key.

        Without `hashes` the table must have been declared with Holdfast's own.
        """
        if schema.layout is not Layout.HASH:
            raise StateMismatch(
                f"Table {schema.name} is sorted by {schema.layout.value}, not by its key's hash.",
                hint="Reach it through the list, map, timer or window state that owns it.",
            )
        columns = key_columns(schema, batch)
        checked = hashes_for(schema, columns, hashes)
        return cls(columns, checked.lookup, checked.partition, schema.hashes)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def order(self) -> Int64s | None:
        """The positions of the keys by ascending code; `None` if they are in order already."""
        return None if is_sorted(self.codes) else argsort(self.codes)

    @cached_property
    def sorted(self) -> Keys:
        """The same keys by ascending code; look-ups and writes of one batch share the work."""
        return self if self.order is None else self.take(self.order)

    def take(self, at: Int64s) -> Keys:
        """Return the keys at some positions."""
        return Keys(
            tuple(gather(column, at) for column in self.columns),
            self.codes.take(at),
            self.partition_hashes.take(at),
            self.hashes,
        )

    def batch(self, schema: TableSchema) -> pa.RecordBatch:
        """Return the key columns in their declared types."""
        return declared_batch(self.columns, schema.key)


def key_columns(schema: TableSchema, batch: Batch) -> Columns:
    """Return the key columns of a batch, checked and normalized."""
    columns = conform(batch, schema.key, table=schema.name, role="key")
    return tuple(normalized(column) for column in columns)


def hashes_for(schema: TableSchema, columns: Columns, hashes: Hashes | None) -> Hashes:
    """Return the hashes of key columns: those given, or Holdfast's own if the table has them."""
    if hashes is None:
        if schema.hashes != HOLDFAST_HASHES:
            raise StateMismatch(
                f"Table {schema.name} is hashed by {schema.hashes}, and keys came without hashes.",
                hint="Bring both hashes with the keys, or declare the table with "
                f"hashes={HOLDFAST_HASHES!r}.",
            )
        return Hashes.own(columns)
    if not isinstance(hashes, Hashes):
        raise StateMismatch(
            f"Table {schema.name}: hashes cannot be a {type(hashes).__name__}.",
            hint="Make them with Hashes.of(lookup, partition).",
        )
    if len(hashes.lookup) != len(columns[0]) or len(hashes.partition) != len(columns[0]):
        raise StateMismatch(
            f"Table {schema.name}: {len(columns[0])} keys came with {len(hashes.lookup)} look-up "
            f"and {len(hashes.partition)} partition hashes.",
            hint="Bring one of each with every key.",
        )
    return hashes


def _hashes(given: Any, dtype: type[np.generic], what: str) -> Any:
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        if given.null_count:
            raise StateMismatch(
                f"{given.null_count} {what} hashes are null.",
                hint="Spark's hash of a null key is a number; hash the key columns themselves.",
            )
        given = given.to_numpy()
    # Copied, because the caller may reuse its memory before the state is written.
    array = np.array(given) if isinstance(given, np.ndarray) else np.asarray(given)
    if isinstance(given, list) and (array.dtype == np.int64 or not given):
        # A list has no type of its own: its numbers must be such hashes.
        fits = array.astype(dtype)
        array = fits if (fits == array).all() else array
    if array.ndim != 1:
        raise StateMismatch(
            f"The {what} hashes have {array.ndim} dimensions.", hint="Bring one for every key."
        )
    if array.dtype != dtype:
        raise StateMismatch(
            f"The {what} hashes are of type {array.dtype}, not {np.dtype(dtype)}.",
            hint="Spark's xxhash64() gives 64-bit integers, its hash() 32-bit ones.",
        )
    return np.ascontiguousarray(array, dtype)
