"""Sorting codes, and finding in sorted codes the rows that a newer row replaces."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.state.columns import Bools, Columns, Int64s, as_bits, equal, gather


def argsort(codes: Int64s) -> Int64s:
    """Return the stable order of codes.

    Codes are mostly hashes: one radix pass over their upper 16 bits leaves runs so short that
    the merge sort behind it hardly moves anything. Three times faster than `np.argsort`.
    """
    coarse = np.argsort((codes >> 48).astype(np.int16), kind="stable")
    fine = np.argsort(codes.take(coarse), kind="stable")
    return np.asarray(coarse.take(fine), np.int64)


def is_sorted(codes: Int64s) -> bool:
    """Say whether codes are in order already."""
    return bool((codes[1:] >= codes[:-1]).all())


def replaced(codes: Int64s, keys: Columns, order: Int64s | None = None) -> Bools | None:
    """Say which rows of a sorted sequence are followed by another row of the same key.

    `codes` are in order already; so are `keys`, or `order` says where in them each row is. Among
    equal codes the older comes first. `None` means that no row is replaced.
    """
    same_code = codes[1:] == codes[:-1]
    left = np.flatnonzero(same_code)
    if not len(left):
        return None
    order = np.arange(len(codes)) if order is None else order
    same_key = equal(keys, order.take(left), keys, order.take(left + 1))
    drop = np.zeros(len(codes), np.bool_)
    drop[left] = same_key
    if not same_key.all():
        # Different keys under one code: the same key may return further on in its group.
        group = np.cumsum(np.concatenate([[True], ~same_code]))
        mixed = np.unique(group[left[~same_key]])
        members = np.flatnonzero(np.isin(group, mixed))
        _mark_replaced(group, keys, order, members, drop)
    return drop


def _mark_replaced(
    group: Int64s, keys: Columns, order: Int64s, members: Int64s, drop: Bools
) -> None:
    """Mark the replaced rows among `members`, whose groups have several keys."""
    numbers = identify(group.take(members), keys, order.take(members))
    by_key = np.argsort(numbers, kind="stable")  # the older first, as they are
    same = numbers.take(by_key[1:]) == numbers.take(by_key[:-1])
    drop[members.take(by_key[:-1][same])] = True


def identify(codes: Int64s, keys: Columns, at: Int64s) -> Int64s:
    """Number the rows at some positions so that equal code and equal key is equal number."""
    columns = {"": pa.array(codes)}
    for number, column in enumerate(keys):
        columns[str(number)] = _sortable(gather(column, at))
    table = pa.table(columns)
    order = np.asarray(
        pc.sort_indices(table, sort_keys=[(name, "ascending") for name in columns]), np.int64
    )
    here, before = order[1:], order[:-1]
    new = codes.take(here) != codes.take(before)
    new |= ~equal(keys, at.take(here), keys, at.take(before))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.concatenate([[0], np.cumsum(new)])
    return numbers


def _sortable(column: pa.Array) -> pa.Array:
    """Return a column in which equal values, whatever they are, lie together when sorted."""
    bits = as_bits(column)
    if bits is not None:
        return pa.array(bits)
    if pt.is_fixed_size_binary(column.type):
        return column.cast(pa.large_binary())
    if pt.is_float16(column.type):
        return column.view(pa.uint16())
    return column
