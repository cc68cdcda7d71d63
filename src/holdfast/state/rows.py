"""Rows of a table, column by column: what layers hold and backends exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from holdfast.state import codes as code_layouts
from holdfast.state.columns import (
    Bools,
    Columns,
    Int32s,
    Int64s,
    concatenate,
    empty,
    gather,
    gather_optional,
    size_bytes,
)
from holdfast.state.keys import Keys
from holdfast.state.schema import TableSchema
from holdfast.state.searching import Finder
from holdfast.state.sorting import replaced


@dataclass(frozen=True)
class Rows:
    """Rows in ascending order of their codes, each key at most once."""

    codes: Int64s
    partition_hashes: Int32s
    keys: Columns
    values: Columns
    """Of a dead row: null or anything, never looked at."""
    dead: Bools | None = None
    """Which rows say that their key was deleted; `None` is none of them."""
    stamps_ms: Int64s | None = None
    """When each row was last touched; `None` in tables without stamps."""

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def none(cls, schema: TableSchema) -> Self:
        """Return no rows of a table."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            empty(schema.stored_key),
            empty(schema.stored_value),
            stamps_ms=np.empty(0, np.int64) if schema.stamped else None,
        )

    @classmethod
    def of(
        cls,
        keys: Keys,
        values: Columns,
        *,
        dead: Bools | None = None,
        stamps_ms: Int64s | None = None,
    ) -> Self:
        """Sort a batch of keys and values; of a key that comes twice the last one stays."""
        order, ordered = keys.order, keys.sorted
        if order is not None:
            values = tuple(gather(column, order) for column in values)
            dead = None if dead is None else dead.take(order)
            stamps_ms = None if stamps_ms is None else stamps_ms.take(order)
        rows = cls(
            ordered.codes, ordered.partition_hashes, ordered.columns, values, dead, stamps_ms
        )
        drop = replaced(ordered.codes, ordered.columns)
        return rows if drop is None else rows.where(~drop)

    @cached_property
    def finder(self) -> Finder:
        """What finds codes among the rows; it learns from being asked."""
        return Finder(self.codes)

    @cached_property
    def size_bytes(self) -> int:
        """About how much memory the rows take."""
        stamps = 0 if self.stamps_ms is None else self.stamps_ms.nbytes
        dead = 0 if self.dead is None else self.dead.nbytes
        return self.codes.nbytes * 3 // 2 + stamps + dead + size_bytes([*self.keys, *self.values])

    def take(self, at: Int64s) -> Self:
        """Return the rows at some positions, in the order of the positions."""
        return type(self)(
            self.codes.take(at),
            self.partition_hashes.take(at),
            tuple(gather(column, at) for column in self.keys),
            tuple(gather(column, at) for column in self.values),
            None if self.dead is None else self.dead.take(at),
            None if self.stamps_ms is None else self.stamps_ms.take(at),
        )

    def slice(self, start: int, stop: int) -> Self:
        """Return the rows from `start` up to, not including, `stop`, without a copy."""
        if start == 0 and stop == len(self):
            return self
        length = stop - start
        return type(self)(
            self.codes[start:stop],
            self.partition_hashes[start:stop],
            tuple(column.slice(start, length) for column in self.keys),
            tuple(column.slice(start, length) for column in self.values),
            None if self.dead is None else self.dead[start:stop],
            None if self.stamps_ms is None else self.stamps_ms[start:stop],
        )

    def where(self, keep: Bools) -> Self:
        """Return the rows for which `keep` is true."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def alive(self) -> Self:
        """Return the rows that are not deletions."""
        if self.dead is None:
            return self
        rows = self.where(~self.dead)
        return type(self)(
            rows.codes, rows.partition_hashes, rows.keys, rows.values, None, rows.stamps_ms
        )

    def as_keys(self) -> Keys:
        """Return the keys of the rows."""
        return Keys(self.keys, self.codes, self.partition_hashes)


@dataclass(frozen=True)
class Hits:
    """What a look-up found: for some of the keys that were asked for, one row each."""

    at: Int64s
    """The positions of the found keys in the batch that was asked for, in no order."""
    values: Columns
    dead: Bools | None
    stamps_ms: Int64s | None

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def none(cls, schema: TableSchema) -> Self:
        """Return that nothing was found."""
        rows = Rows.none(schema)
        return cls(np.empty(0, np.int64), rows.values, None, rows.stamps_ms)

    def take(self, at: Int64s) -> Self:
        """Return some of the hits."""
        return type(self)(
            self.at.take(at),
            tuple(gather(column, at) for column in self.values),
            None if self.dead is None else self.dead.take(at),
            None if self.stamps_ms is None else self.stamps_ms.take(at),
        )

    def where(self, keep: Bools) -> Self:
        """Return the hits for which `keep` is true."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def alive(self) -> Self:
        """Return the hits that are not deletions."""
        if self.dead is None:
            return self
        hits = self.where(~self.dead)
        return type(self)(hits.at, hits.values, None, hits.stamps_ms)

    def plus(self, other: Hits) -> Hits:
        """Return the hits of two look-ups that found different keys."""
        if not len(self) or not len(other):
            return self if len(self) else other
        pair = (self, other)
        return Hits(
            np.concatenate([hits.at for hits in pair]),
            tuple(concatenate(both) for both in zip(self.values, other.values, strict=True)),
            joined_flags(pair),
            joined_stamps(pair),
        )

    def as_rows(self, keys: Keys) -> Rows:
        """Return what was found out about all keys as rows: of an absent one, a deletion."""
        place = np.full(len(keys), -1, np.int64)
        place[self.at] = np.arange(len(self))
        stamps = None
        if self.stamps_ms is not None:
            stamps = np.zeros(len(keys), np.int64)
            stamps[self.at] = self.stamps_ms
        values = tuple(gather_optional(column, place) for column in self.values)
        return Rows.of(keys, values, dead=place < 0, stamps_ms=stamps)


@dataclass(frozen=True)
class Ranges:
    """Ranges of codes, ascending and apart, both ends inclusive."""

    first: Int64s
    last: Int64s

    @classmethod
    def everything(cls) -> Self:
        """Return the range that every code is in."""
        return cls.one(code_layouts.FIRST, code_layouts.LAST)

    @classmethod
    def one(cls, first: int, last: int) -> Self:
        """Return a single range."""
        return cls(np.array([first], np.int64), np.array([last], np.int64))

    @classmethod
    def of(cls, first: Int64s, last: Int64s) -> Self:
        """Return ranges given in any order; equal ones count once."""
        lows, at = np.unique(first, return_index=True)
        return cls(lows, last.take(at))

    def __len__(self) -> int:
        return len(self.first)


def joined(parts: Sequence[Rows]) -> Rows:
    """Put rows behind one another; the caller sees to it that they stay in order."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.partition_hashes for part in parts]),
        tuple(concatenate(columns) for columns in zip(*(part.keys for part in parts), strict=True)),
        tuple(
            concatenate(columns) for columns in zip(*(part.values for part in parts), strict=True)
        ),
        joined_flags(parts),
        joined_stamps(parts),
    )


def joined_flags(parts: Sequence[Rows] | Sequence[Hits]) -> Bools | None:
    """Join flags of which some are none at all."""
    if all(part.dead is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.bool_) if part.dead is None else part.dead for part in parts]
    )


def joined_stamps(parts: Sequence[Rows] | Sequence[Hits]) -> Int64s | None:
    """Join stamps; a table has them everywhere or nowhere."""
    stamps = [part.stamps_ms for part in parts if part.stamps_ms is not None]
    return np.concatenate(stamps) if stamps else None


def merged(layers: Sequence[Rows]) -> Rows:
    """Merge rows given oldest first: of every key its newest row, deletions included."""
    filled = [layer for layer in layers if len(layer)]
    if len(filled) <= 1:
        return filled[0] if filled else layers[-1]
    together = joined(filled)
    # Sorted parts behind one another: a merge sort finds them and takes linear time.
    order = np.argsort(together.codes, kind="stable")
    drop = replaced(together.codes.take(order), together.keys, order)
    return together.take(order if drop is None else order[~drop])
