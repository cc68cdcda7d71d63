"""A stack of sorted layers, newest on top: the log-structured heart of the engine.

A layer is a sequence of pages, each a sorted piece of a table that is loaded when something in
it is first needed. The pending writes of a transaction, the heap backend's table and the
memory-mapped runs of the arrow backend are all layers; look-ups, scans and merges are here,
once, for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from holdfast.state.columns import (
    Bools,
    Columns,
    Int64s,
    concatenate,
    equal,
    gather,
    spans,
)
from holdfast.state.keys import Keys
from holdfast.state.rows import Hits, Ranges, Rows, merged
from holdfast.state.schema import TableSchema
from holdfast.state.searching import Codes
from holdfast.state.sorting import identify

PAGE_ROWS: Final = 1 << 20
"""Rows in a page, and about as many in a piece of a scan or a merge: the unit of memory."""

_MAX_STEPS: Final = 8
"""Rows of one code that a look-up tries one after the other before it sorts them."""

_SHRINK_AT: Final = 0.25
"""A look-up forgets the keys it has found when they are more than this part of all."""

_FENCE_ROWS: Final = PAGE_ROWS // 4


@dataclass(frozen=True)
class Page:
    """A sorted piece of a layer, loaded when first needed."""

    first: int
    last: int
    rows: int
    load: Callable[[], Rows]


@dataclass(frozen=True)
class Layer:
    """Sorted pages that do not overlap; rows of equal code are never in two pages."""

    pages: tuple[Page, ...]
    firsts: Int64s = field(repr=False)

    @classmethod
    def of(cls, pages: Sequence[Page]) -> Layer:
        """Make a layer of its pages."""
        return cls(tuple(pages), np.array([page.first for page in pages], np.int64))

    @classmethod
    def in_memory(cls, rows: Rows) -> Layer:
        """Make a layer of rows that are in memory."""
        if not len(rows):
            return cls.of([])
        return cls.of([Page(int(rows.codes[0]), int(rows.codes[-1]), len(rows), lambda: rows)])

    def __len__(self) -> int:
        return sum(page.rows for page in self.pages)

    def between(self, first: int, last: int) -> Iterator[Page]:
        """Yield the pages that may hold a code of a range, both ends inclusive."""
        begin = max(int(np.searchsorted(self.firsts, first, "right")) - 1, 0)
        for page in self.pages[begin:]:
            if page.first > last:
                return
            if page.last >= first:
                yield page

    def slice(self, first: int, last: int) -> list[Rows]:
        """Return the rows of a range of codes, both ends inclusive, without a copy."""
        return [_cut(page.load(), first, last) for page in self.between(first, last)]


def _cut(rows: Rows, first: int, last: int) -> Rows:
    start = int(np.searchsorted(rows.codes, first, "left"))
    stop = int(np.searchsorted(rows.codes, last, "right"))
    return rows.slice(start, stop)


@dataclass
class _Search:
    """One look-up on its way down the stack: what is still wanted, what was found."""

    keys: Keys
    """By ascending code."""
    wanted: Int64s
    """Positions in `keys` not found yet, ascending."""
    codes: Int64s
    """Their codes."""
    found: Bools
    """Which of them have been found since, and are not wanted any more."""
    picks: list[tuple[Int64s, Rows, Int64s]] = field(default_factory=list)
    """Positions in `keys`, and the rows of a page they were found at."""
    _new: int = 0

    def __post_init__(self) -> None:
        self._shared = Codes(self.codes)

    @classmethod
    def of(cls, keys: Keys) -> _Search:
        """Begin to look for sorted keys."""
        return cls(keys, np.arange(len(keys)), keys.codes, np.zeros(len(keys), np.bool_))

    def visit(self, layer: Layer) -> None:
        """Look for the wanted keys in one layer, and want those that it has no more."""
        self._shrink()
        if not len(self.wanted) or not layer.pages:
            return
        bounds = np.searchsorted(self.codes, layer.firsts[1:], "left").tolist()
        for page, start, stop in zip(
            layer.pages, [0, *bounds], [*bounds, len(self.codes)], strict=True
        ):
            if start < stop:
                self._visit_page(page.load(), start, stop)

    def _shrink(self) -> None:
        """Leave out what was found, once that is so much that the copy pays."""
        if self._new > len(self.wanted) * _SHRINK_AT:
            left = np.flatnonzero(~self.found)
            self.wanted, self.codes = self.wanted.take(left), self.codes.take(left)
            self.found = np.zeros(len(left), np.bool_)
            self._shared = Codes(self.codes)
            self._new = 0

    def _visit_page(self, rows: Rows, start: int, stop: int) -> None:
        candidates, place = rows.finder.places(self._shared.slice(start, stop))
        if start:
            candidates = candidates + start
        if self._new:
            open_ = np.flatnonzero(~self.found.take(candidates))
            candidates, place = candidates.take(open_), place.take(open_)
        for _ in range(_MAX_STEPS):
            if not len(candidates):
                return
            same = equal(self.keys.columns, self.wanted.take(candidates), rows.keys, place)
            if same.all():
                self._pick(candidates, rows, place)
                return
            self._pick(candidates[same], rows, place[same])
            # Another key under the same code: the wanted one may be the next row.
            candidates, place = candidates[~same], place[~same] + 1
            inside = rows.codes.take(place, mode="clip") == self.codes.take(candidates)
            inside &= place < len(rows)
            candidates, place = candidates[inside], place[inside]
        if len(candidates):
            self._join(rows, candidates)

    def _pick(self, at: Int64s, rows: Rows, place: Int64s) -> None:
        if len(at):
            self.found[at] = True
            self._new += len(at)
            self.picks.append((self.wanted.take(at), rows, place))

    def _join(self, rows: Rows, crowded: Int64s) -> None:
        """Find keys among many rows of one code: by sorting both, not row by row."""
        codes, at = self.codes.take(crowded), self.wanted.take(crowded)
        distinct = np.unique(codes)
        here = spans(
            np.searchsorted(rows.codes, distinct, "left"),
            np.searchsorted(rows.codes, distinct, "right"),
        )
        keys = tuple(
            concatenate([gather(mine, at), gather(theirs, here)])
            for mine, theirs in zip(self.keys.columns, rows.keys, strict=True)
        )
        numbers = identify(
            np.concatenate([codes, rows.codes.take(here)]), keys, np.arange(len(at) + len(here))
        )
        asked, there = numbers[: len(at)], numbers[len(at) :]
        order = np.argsort(there)
        place = np.searchsorted(there, asked, sorter=order)
        row = order.take(place, mode="clip")
        hit = np.flatnonzero(there.take(row) == asked)
        self._pick(crowded.take(hit), rows, here.take(row.take(hit)))

    def hits(self, schema: TableSchema) -> Hits:
        """Gather what was found."""
        if not self.picks:
            return Hits.none(schema)
        dead = None
        if any(rows.dead is not None for _, rows, _ in self.picks):
            dead = np.concatenate(
                [
                    np.zeros(len(place), np.bool_) if rows.dead is None else rows.dead.take(place)
                    for _, rows, place in self.picks
                ]
            )
        stamps = [
            rows.stamps_ms.take(place)
            for _, rows, place in self.picks
            if rows.stamps_ms is not None
        ]
        values: Columns = tuple(
            concatenate([gather(rows.values[number], place) for _, rows, place in self.picks])
            for number in range(len(schema.stored_value))
        )
        return Hits(
            np.concatenate([at for at, _, _ in self.picks]),
            values,
            dead,
            np.concatenate(stamps) if stamps else None,
        )


def find(schema: TableSchema, layers: Sequence[Layer], keys: Keys) -> Hits:
    """Look keys up in layers given oldest first; the newest row of a key counts."""
    search = _Search.of(keys.sorted)
    for layer in reversed(layers):
        search.visit(layer)
    hits = search.hits(schema)
    return hits if keys.order is None else replace(hits, at=keys.order.take(hits.at))


def scan(
    schema: TableSchema, layers: Sequence[Layer], ranges: Ranges, *, rows: int = PAGE_ROWS
) -> Iterator[Rows]:
    """Yield the newest row of every key whose code is in some ranges, deletions included.

    The pieces come in the order of the codes, each of about `rows` rows, so that a scan of a
    large state needs little memory.
    """
    if len(ranges) == 1:
        first, last = int(ranges.first[0]), int(ranges.last[0])
        for low, high in _pieces(layers, first, last, rows):
            parts = [part for layer in layers for part in layer.slice(low, high)]
            piece = merged(parts) if parts else Rows.none(schema)
            if len(piece):
                yield piece
    elif len(ranges):
        parts = [part for layer in layers for part in _in_ranges(layer, ranges)]
        piece = merged(parts) if parts else Rows.none(schema)
        if len(piece):
            yield piece


def _in_ranges(layer: Layer, ranges: Ranges) -> Iterator[Rows]:
    first, last = int(ranges.first[0]), int(ranges.last[-1])
    for page in layer.between(first, last):
        rows = page.load()
        start = np.searchsorted(rows.codes, ranges.first, "left")
        stop = np.searchsorted(rows.codes, ranges.last, "right")
        inside = spans(start, stop)
        if len(inside):
            yield rows.take(inside)


def _pieces(layers: Sequence[Layer], first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
    """Cut a range of codes so that every piece has about `rows` rows in all layers together."""
    step = min(_FENCE_ROWS, max(rows // 4, 1))
    fences = [
        page.load().codes[step::step]
        for layer in layers
        for page in layer.between(first, last)
        if page.rows > step
    ]
    if fences:
        every = np.sort(np.concatenate(fences))
        together = max(rows // step, 1)
        cuts = np.unique(every[together - 1 :: together])
        for cut in cuts[(cuts > first) & (cuts <= last)].tolist():
            yield first, cut - 1
            first = cut
    yield first, last
