"""Sessions that overlap or touch are one.

Everything is whole arrays: many keys, and chains of any length, at once.
"""

from __future__ import annotations

import numpy as np

from holdfast.state.columns import Int64s
from holdfast.state.windows.groups import Groups, begins_of


def merged_sessions(number: Int64s, start_us: Int64s, end_us: Int64s) -> Groups:
    """Group rows of the same key whose sessions overlap or touch, in chains of any length."""
    order = np.lexsort((start_us, number))
    number, start_us, end_us = (column.take(order) for column in (number, start_us, end_us))
    reached = _reached(number, end_us)
    begins = begins_of(number)
    begins[1:] |= start_us[1:] > reached[:-1]
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(begins) - 1
    last = np.append(np.flatnonzero(begins)[1:], len(order)) - 1
    return Groups(of_row, number[begins], start_us[begins], reached.take(last))


def _reached(number: Int64s, end_us: Int64s) -> Int64s:
    """Return the latest end so far among the rows of each key; rows of a key lie together."""
    # A later key outranks every end of an earlier one, so that one running maximum over ranks
    # serves all keys. Times themselves would overflow.
    by_end = np.argsort(end_us, kind="stable")
    rank = np.empty(len(end_us), np.int64)
    rank[by_end] = np.arange(len(end_us))
    highest = np.maximum.accumulate(number * len(end_us) + rank)
    return end_us.take(by_end.take(highest - number * len(end_us)))
