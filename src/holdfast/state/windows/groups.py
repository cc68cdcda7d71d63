"""Which rows fall together: rows of one key, and rows of one window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from holdfast.state.columns import Bools, Columns, Int64s, equal
from holdfast.state.owners import Owners
from holdfast.state.sorting import argsort


@dataclass(frozen=True)
class Distinct:
    """The different keys of a batch, numbered from 0."""

    number: Int64s
    """The number of the key of every row."""
    first: Int64s
    """The position of the first row of every key."""


@dataclass(frozen=True)
class Groups:
    """Windows, and which rows fall into which."""

    of_row: Int64s
    """The window of every row; -1 is none of them."""
    number: Int64s
    """The number of the key of every window."""
    start_us: Int64s
    end_us: Int64s

    def __len__(self) -> int:
        return len(self.number)

    def joined_from(self, row: int) -> Groups:
        """Leave out the windows that have no row at or after a position."""
        touched = np.zeros(len(self), np.bool_)
        touched[self.of_row[row:]] = True
        renumbered = np.where(touched, np.cumsum(touched) - 1, -1)
        return Groups(
            renumbered.take(self.of_row),
            self.number[touched],
            self.start_us[touched],
            self.end_us[touched],
        )


def distinct(owners: Owners) -> Distinct:
    """Number the keys of a batch."""
    hashes = owners.hashes.lookup
    order = argsort(hashes)
    begins = begins_of(hashes.take(order))
    again = np.flatnonzero(~begins)
    if not equal(owners.columns, order.take(again - 1), owners.columns, order.take(again)).all():
        # Different keys under one hash: tell them apart by their values.
        exact = _exact(owners.columns)
        order = np.lexsort((exact, hashes))
        begins = begins_of(hashes.take(order)) | begins_of(exact.take(order))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    return Distinct(number, order[begins])


def equal_windows(number: Int64s, start_us: Int64s, end_us: Int64s) -> Groups:
    """Group rows that have the same key and the same window."""
    order = np.lexsort((end_us, start_us, number))
    sorted_ = [column.take(order) for column in (number, start_us, end_us)]
    begins = begins_of(sorted_[0]) | begins_of(sorted_[1]) | begins_of(sorted_[2])
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(begins) - 1
    return Groups(of_row, sorted_[0][begins], sorted_[1][begins], sorted_[2][begins])


def begins_of(values: Int64s) -> Bools:
    """Say which values of a sequence differ from the one before."""
    begins = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins


def _exact(columns: Columns) -> Int64s:
    kind = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = _codes(column)
        _, kind = np.unique(kind * (codes.max() + 1) + codes, return_inverse=True)
    return np.asarray(kind, np.int64)


def _codes(column: pa.Array) -> Int64s:
    if pt.is_floating(column.type):
        # By bits: a NaN is a key like any other.
        column = column.view(pa.from_numpy_dtype(np.dtype(f"u{column.type.bit_width // 8}")))
    return np.asarray(column.dictionary_encode("encode").indices, np.int64)
