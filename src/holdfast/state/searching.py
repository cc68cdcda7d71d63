"""Finding codes in a sorted page.

A page that is searched again and again earns a directory: hashes are uniform, so the upper bits
of a code say almost exactly where it is, and a look-up costs one or two memory accesses instead
of twenty. A page that is asked for codes it mostly does not have, as every thin layer is, earns
a filter too: four slots a row, of one byte each, that says whether nothing, several codes, or
one code is there, and of the one its next seven bits. Both are derived, and kept in memory only:
up to eight bytes a row each.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holdfast.state.columns import Int32s, Int64s

Bytes: TypeAlias = npt.NDArray[np.uint8]

_EARNED_AT: Final = 0.05
"""Searches for this part of a page's rows pay for its directory."""

_FILTERED_BELOW: Final = 0.2
"""If a smaller part of the codes searched so far was there, a filter pays."""

_FILTER_BITS: Final = 2
"""The slots of the filter are this many bits finer than those of the directory."""

_MIN_ROWS: Final = 4096
"""A smaller page is in the processor's cache anyway."""

_MAX_IN_SLOT: Final = 64
"""Codes crowded more than this are not hashes: timers and entries stay with binary search."""


_PRINT_BITS: Final = 7
"""A code that is alone in its slot of the filter leaves so many bits of itself there, plus one."""

_SEVERAL: Final = 255
"""What a slot of the filter says if it has more than one code."""

_SIGN: Final = 1 << 63


def slot_of(code: int, shift: int) -> int:
    """Return a code's upper bits as a number that is not negative."""
    return (code + _SIGN) >> shift


class Codes:
    """Codes to look for, whose upper bits are worked out once for all pages of one size."""

    def __init__(self, codes: Int64s) -> None:
        self.codes = codes
        self._start = 0
        self._slots: dict[int, Int64s] = {}
        self._prints: dict[int, Bytes] = {}
        self._whole = self

    def __len__(self) -> int:
        return len(self.codes)

    def slice(self, start: int, stop: int) -> Codes:
        """Return a part of the codes, which shares what was worked out."""
        part = Codes(self.codes[start:stop])
        part._start = self._start + start
        part._slots, part._prints, part._whole = self._slots, self._prints, self._whole
        return part

    def slots(self, shift: int) -> Int64s:
        """Return the upper bits of the codes."""
        known = self._slots.get(shift)
        if known is None:
            unsigned = self._whole.codes.view(np.uint64) ^ np.uint64(_SIGN)
            known = np.asarray(unsigned >> np.uint64(shift)).view(np.int64)
            self._slots[shift] = known
        return known[self._start : self._start + len(self.codes)]

    def prints(self, shift: int) -> Bytes:
        """Return, of each code, the bits below its upper ones, plus one: never 0, never 255."""
        known = self._prints.get(shift)
        if known is None:
            lower = self._whole.codes.view(np.uint64) >> np.uint64(shift - _PRINT_BITS)
            known = (lower & np.uint64((1 << _PRINT_BITS) - 1)).astype(np.uint8) + np.uint8(1)
            self._prints[shift] = known
        return known[self._start : self._start + len(self.codes)]


class Finder:
    """The searches of one page, which become faster once there have been enough of them."""

    def __init__(self, codes: Int64s) -> None:
        self._codes = codes
        self._first, self._last = int(codes[0]), int(codes[-1])
        self._asked = self._answered = self._there = 0
        self._starts: Int32s | None = None
        self._filter: Bytes | None = None
        span = self._last - self._first
        coarse = max(span.bit_length() - (len(codes) - 1).bit_length(), 0)
        fine = max(coarse - _FILTER_BITS, 0)
        # Codes as dense as that are not hashes, and their slots would not fit into 64 bits.
        self._crowded = len(codes) < _MIN_ROWS or fine < _PRINT_BITS
        self._shift = fine
        self._step = coarse - fine
        """By how many bits a slot of the directory is coarser than one of the filter."""
        first, last = (slot_of(code, fine) for code in (self._first, self._last))
        # A page of almost all codes needs no subtraction, and subtracting takes its time.
        self._offset = 0 if first <= last - first else first >> self._step << self._step

    def places(self, wanted: Codes) -> tuple[Int64s, Int64s]:
        """Return which of the wanted codes, in ascending order, are there, and the row of each.

        Of several rows with one code it is the first.
        """
        low = int(np.searchsorted(wanted.codes, self._first, "left"))
        high = int(np.searchsorted(wanted.codes, self._last, "right"))
        inside = wanted.slice(low, high)
        self._asked += len(inside)
        if self._starts is None and not self._crowded:
            self._consider_directory()
        direct = self._starts is not None
        found, place = self._direct(inside) if direct else self._search(inside.codes)
        self._answered, self._there = self._asked, self._there + len(found)
        return (found + low if low else found), place

    def _search(self, wanted: Int64s) -> tuple[Int64s, Int64s]:
        place = np.searchsorted(self._codes, wanted, "left")
        found = np.flatnonzero(self._codes.take(place) == wanted)
        return found, place.take(found)

    def _direct(self, inside: Codes) -> tuple[Int64s, Int64s]:
        assert self._starts is not None
        self._consider_filter()
        if self._filter is None:
            return self._walk(self._starts, self._slots(inside, self._step), inside.codes)
        fine = self._slots(inside)
        there = self._filter.take(fine)
        maybe = np.flatnonzero((there == inside.prints(self._shift)) | (there == _SEVERAL))
        coarse = fine.take(maybe) >> self._step
        found, place = self._walk(self._starts, coarse, inside.codes.take(maybe))
        return maybe.take(found), place

    def _walk(self, starts: Int32s, slot: Int64s, wanted: Int64s) -> tuple[Int64s, Int64s]:
        """Look at the rows of each slot from its first to its last, for all slots at once."""
        begin, end = starts.take(slot), starts.take(slot + 1)
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

    def _slots(self, codes: Codes, step: int = 0) -> Int64s:
        slots = codes.slots(self._shift + step)
        return slots - (self._offset >> step) if self._offset else slots

    def _consider_directory(self) -> None:
        if self._asked < len(self._codes) * _EARNED_AT:
            return
        slots = self._slots(Codes(self._codes), self._step)
        counts = np.bincount(slots, minlength=int(slots[-1]) + 2)
        if counts.max() > _MAX_IN_SLOT:
            self._crowded = True
            return
        ends = np.cumsum(counts, dtype=np.int32)
        self._starts = np.concatenate([np.zeros(1, np.int32), ends])

    def _consider_filter(self) -> None:
        """Have a filter as long as it pays: a page that is found to be hit often gives it back."""
        if self._there >= self._answered * _FILTERED_BELOW:
            self._filter = None
        elif self._filter is None:
            own = Codes(self._codes)
            slots = self._slots(own)
            self._filter = np.zeros(int(slots[-1]) + 1, np.uint8)
            self._filter[slots] = own.prints(self._shift)
            self._filter[slots[1:][slots[1:] == slots[:-1]]] = _SEVERAL
