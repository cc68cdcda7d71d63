"""The write-behind cache: what a transaction wrote, and what it is worth remembering.

Reads and writes happen in memory; the backend is asked for the misses of a whole batch at once
and handed the dirty rows of all tables in one write. The cache is bounded: above its limit it
hands its dirty rows over early and forgets the oldest clean ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from holdfast.state.compaction import merge_from
from holdfast.state.keys import Keys
from holdfast.state.layers import Layer, find, scan
from holdfast.state.rows import Hits, Ranges, Rows, merged
from holdfast.state.schema import TableSchema


class _Stack:
    """Layers of one table in memory, merged as their number grows."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.layers: list[Layer] = []
        self.bytes = 0

    def push(self, rows: Rows) -> None:
        self._set([*self.rows, rows])
        start = merge_from([len(layer) for layer in self.rows])
        if start is not None:
            self._set([*self.rows[:start], merged(self.rows[start:])])

    def drop_oldest(self) -> None:
        self._set(self.rows[1:])

    def _set(self, rows: Sequence[Rows]) -> None:
        self.rows = list(rows)
        self.layers = [Layer.in_memory(layer) for layer in self.rows]
        self.bytes = sum(layer.size_bytes for layer in self.rows)


class Cache:
    """Rows in memory, in front of a backend."""

    def __init__(
        self, tables: Mapping[str, TableSchema], limit_bytes: int, *, keep_clean: bool
    ) -> None:
        self._tables = tables
        self._limit_bytes = limit_bytes
        self._keep_clean = keep_clean
        self._dirty: dict[str, _Stack] = defaultdict(_Stack)
        self._clean: dict[str, _Stack] = defaultdict(_Stack)

    @property
    def is_full(self) -> bool:
        """Whether the dirty rows have to be handed to the backend now."""
        return self.dirty_bytes > self._limit_bytes

    @property
    def dirty_bytes(self) -> int:
        """About how much memory the dirty rows take."""
        return sum(stack.bytes for stack in self._dirty.values())

    @property
    def bytes(self) -> int:
        """About how much memory everything cached takes."""
        return self.dirty_bytes + sum(stack.bytes for stack in self._clean.values())

    def knows(self, table: str) -> bool:
        """Say whether anything of a table is cached."""
        return bool(self._dirty[table].rows or self._clean[table].rows)

    def find(self, table: str, keys: Keys) -> Hits:
        """Look keys up; a hit may be a deletion, and then the backend need not be asked."""
        layers = [*self._clean[table].layers, *self._dirty[table].layers]
        return find(self._tables[table], layers, keys)

    def changes(self, table: str, ranges: Ranges) -> Rows:
        """Return the dirty rows whose codes are in some ranges, deletions included."""
        schema = self._tables[table]
        pieces = list(scan(schema, self._dirty[table].layers, ranges))
        return merged(pieces) if pieces else Rows.none(schema)

    def put(self, table: str, rows: Rows) -> None:
        """Remember rows that the backend does not have yet."""
        if len(rows):
            self._dirty[table].push(rows)

    def remember(self, table: str, rows: Rows) -> None:
        """Remember rows that the backend has: what was read, deletions for what was absent."""
        if self._keep_clean and len(rows):
            self._clean[table].push(rows)
            self._shrink()

    def take_dirty(self) -> dict[str, Rows]:
        """Return the dirty rows of all tables, which are clean from now on."""
        dirty = {name: merged(stack.rows) for name, stack in self._dirty.items() if stack.rows}
        self._dirty.clear()
        for name, rows in dirty.items():
            self.remember(name, rows)
        return dirty

    def forget(self) -> None:
        """Drop everything, dirty rows included."""
        self._dirty.clear()
        self._clean.clear()

    def _shrink(self) -> None:
        while self.bytes > self._limit_bytes:
            largest = max(self._clean.values(), key=lambda stack: stack.bytes, default=None)
            if largest is None or not largest.rows:
                return
            largest.drop_oldest()
