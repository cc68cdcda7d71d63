"""Holdfast's own hashes of keys, for tools and tests that run without Spark.

Inside a Spark pipeline both hashes come from the JVM with the keys, and nothing here is used
for them. A table remembers which of the two hashed its keys (`TableSchema.hashes`).

    null                              one constant
    boolean, integers, dates, times   splitmix64 of the value as 64 bits
    float                             splitmix64 of the bits of the normalized value as float64
    decimal                           the two 64-bit halves, mixed
    text, binary                      xxh3_64 of the bytes
    several columns                   mixed from the left, beginning with a seed
    partition hash                    the upper 32 bits of the look-up hash mixed once more
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
from xxhash import xxh3_64_intdigest

from holdfast.state.columns import Columns, Int32s, Int64s

UInt64s = npt.NDArray[np.uint64]

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0x2545F4914F6CDD1D)


def splitmix64(values: UInt64s) -> UInt64s:
    """Scatter 64-bit values: a bijection whose every output bit depends on every input bit."""
    mixed = values + _SEED
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


def mix(left: UInt64s, right: UInt64s) -> UInt64s:
    """Combine two hashes into one that depends on their order."""
    return splitmix64(left ^ splitmix64(right))


def lookup_hashes(columns: Columns) -> Int64s:
    """Hash the rows of some normalized key columns."""
    rows = len(columns[0])
    hashes = np.full(rows, _SEED, np.uint64)
    for column in columns:
        hashes = mix(hashes, _hash_column(column))
    return hashes.view(np.int64)


def partition_hashes(hashes: Int64s) -> Int32s:
    """Derive from look-up hashes the ones that decide the partition."""
    return (splitmix64(hashes.view(np.uint64)) >> np.uint64(32)).astype(np.uint32).view(np.int32)


def _hash_column(column: pa.Array) -> UInt64s:
    hashes = _hash_values(column)
    if column.null_count:
        hashes = np.where(np.asarray(column.is_null()), _NULL, hashes)
    return hashes


def _hash_values(column: pa.Array) -> UInt64s:
    kind = column.type
    if pt.is_decimal(kind):
        halves = _buffer(column, np.uint64, 2)
        return mix(halves[0::2], halves[1::2])
    if pt.is_floating(kind):
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        return splitmix64(values.view(np.uint64))
    if pt.is_boolean(kind):
        return splitmix64(np.asarray(column.fill_null(False)).astype(np.uint64))
    if pt.is_integer(kind) or pt.is_temporal(kind):
        width = kind.bit_width // 8
        signed = not pt.is_unsigned_integer(kind)
        values = _buffer(column, np.dtype(f"{'i' if signed else 'u'}{width}"), 1)
        return splitmix64(values.astype(np.int64 if signed else np.uint64).view(np.uint64))
    digests = (
        xxh3_64_intdigest(value or b"") for value in column.cast(pa.large_binary()).to_pylist()
    )
    return np.fromiter(digests, np.uint64, len(column))


def _buffer(column: pa.Array, dtype: npt.DTypeLike, words: int) -> npt.NDArray[np.uint64]:
    if len(column) == 0:
        return np.empty(0, dtype)
    whole = np.frombuffer(column.buffers()[1], dtype)
    return whole[column.offset * words : (column.offset + len(column)) * words]
