"""Finding codes in a sorted page.

A page that is searched again and again earns a directory: hashes are uniform, so the upper bits
of a code say almost exactly where it is, and a look-up costs one or two memory accesses instead
of twenty. It is derived, kept in memory only, four to eight bytes a row.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from holdfast.state.columns import Int32s, Int64s

_EARNED_AT: Final = 0.05
"""Searches for this part of a page's rows pay for its directory."""

_MIN_ROWS: Final = 4096
"""A smaller page is in the processor's cache anyway."""

_MAX_IN_SLOT: Final = 64
"""Codes crowded more than this are not hashes: timers and entries stay with binary search."""


class Finder:
    """The searches of one page, which become faster once there have been enough of them."""

    def __init__(self, codes: Int64s) -> None:
        self._codes = codes
        self._first, self._last = int(codes[0]), int(codes[-1])
        self._searched = 0
        self._starts: Int32s | None = None
        self._shift = np.uint64(0)
        self._crowded = len(codes) < _MIN_ROWS

    def places(self, wanted: Int64s) -> tuple[Int64s, Int64s]:
        """Return which of the wanted codes, in ascending order, are there, and the row of each.

        Of several rows with one code it is the first.
        """
        low = int(np.searchsorted(wanted, self._first, "left"))
        high = int(np.searchsorted(wanted, self._last, "right"))
        inside = wanted[low:high]
        self._searched += len(inside)
        if self._starts is None and not self._crowded:
            self._consider_directory()
        found, place = self._search(inside) if self._starts is None else self._direct(inside)
        return (found + low if low else found), place

    def _search(self, wanted: Int64s) -> tuple[Int64s, Int64s]:
        place = np.searchsorted(self._codes, wanted, "left")
        found = np.flatnonzero(self._codes.take(place) == wanted)
        return found, place.take(found)

    def _direct(self, wanted: Int64s) -> tuple[Int64s, Int64s]:
        assert self._starts is not None
        slot = self._slots(wanted)
        begin, end = self._starts.take(slot), self._starts.take(slot + 1)
        left = np.flatnonzero(begin < end)
        place, end, wanted = begin.take(left).astype(np.int64), end.take(left), wanted.take(left)
        found, places = [], []
        while len(left):
            here = self._codes.take(place)
            match = here == wanted
            found.append(left[match])
            places.append(place[match])
            place += 1
            on = np.flatnonzero((here < wanted) & (place < end))
            left, place = left.take(on), place.take(on)
            end, wanted = end.take(on), wanted.take(on)
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(found), np.concatenate(places)

    def _slots(self, codes: Int64s) -> Int64s:
        distance = (codes - np.int64(self._first)).view(np.uint64)
        return np.asarray(distance >> self._shift).view(np.int64)

    def _consider_directory(self) -> None:
        rows = len(self._codes)
        if self._searched < rows * _EARNED_AT:
            return
        span = self._last - self._first
        bits = (rows - 1).bit_length()
        self._shift = np.uint64(max(span.bit_length() - bits, 0))
        slots = self._slots(self._codes)
        counts = np.bincount(slots, minlength=int(slots[-1]) + 2)
        if counts.max() > _MAX_IN_SLOT:
            self._crowded = True
            return
        ends = np.cumsum(counts, dtype=np.int32)
        self._starts = np.concatenate([np.zeros(1, np.int32), ends])
