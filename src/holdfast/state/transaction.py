"""A transaction: everything one epoch reads and writes, then one checkpoint.

    OPEN  ->  COMMITTED    the epoch counts once its snapshot is kept
          ->  ABORTED      nothing of it counts
          ->  FAILED       the commit met an error; reopen the store at its last snapshot

Reads see the transaction's own writes. Time stands still within it: `now_ms` is given when it
begins, so that the same rows over the same state always give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa

from holdfast.errors import StateClosed, StateMismatch
from holdfast.state.cache import Cache
from holdfast.state.columns import Int32s, Int64s
from holdfast.state.contract import Backend
from holdfast.state.keys import Keys
from holdfast.state.rows import Hits, Ranges, Rows, merged
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Snapshot
from holdfast.state.tables import Table
from holdfast.state.ttl import TTL, Restart, unexpired

_NUMBER_BITS: Final = 32
"""An epoch can number this many bits' worth of things."""


class TransactionState(StrEnum):
    """How far a transaction has come."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FAILED = "failed"


class Transaction:
    """The reads and writes of one epoch; made by `Store.begin`."""

    def __init__(
        self,
        backend: Backend,
        cache: Cache,
        ttl: Mapping[str, TTL],
        *,
        epoch: int,
        now_ms: int,
        number: int,
        ended: Callable[[Transaction, Snapshot | None], None],
    ) -> None:
        self.epoch = epoch
        self.now_ms = now_ms
        self.number = number
        """Its place among the transactions of its store: who follows them sees a missed one."""
        self.state = TransactionState.OPEN
        self._backend = backend
        self._cache = cache
        self._ttl = ttl
        self._ended = ended
        self._handed_over = False
        """Whether the backend has writes of this transaction already."""
        self._sequence = 0

    def table(self, name: str) -> Table:
        """Return a table of the operator, for reading and writing."""
        schema = self._backend.tables.get(name)
        if schema is None:
            raise StateMismatch(
                f"There is no table {name!r}.",
                hint=f"The tables are {', '.join(sorted(self._backend.tables))}.",
            )
        return Table(self, schema)

    def commit(self) -> Snapshot:
        """Hand everything to the backend, checkpoint it, and return what it consists of."""
        self._require_open()
        try:
            self._sweep()
            self._hand_over()
            expired = {name: ttl.expired_before_ms(self.now_ms) for name, ttl in self._ttl.items()}
            snapshot = self._backend.checkpoint(self.epoch, expired_before_ms=expired)
        except BaseException:
            self._end(TransactionState.FAILED, None)
            raise
        self._end(TransactionState.COMMITTED, snapshot)
        return snapshot

    def abort(self) -> None:
        """Forget everything this transaction wrote. Aborting an ended one does nothing."""
        if self.state is TransactionState.OPEN:
            self._end(TransactionState.ABORTED, None)

    @property
    def must_reopen(self) -> bool:
        """Whether the backend holds writes that will never be committed."""
        spoilt = self.state is TransactionState.ABORTED and self._handed_over
        return spoilt or self.state is TransactionState.FAILED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    # What tables use.

    def read(self, schema: TableSchema, keys: Keys) -> Hits:
        """Return the live rows of some keys, this transaction's own writes included."""
        self._require_open()
        self._require_own(schema, keys.partition_hashes)
        hits = self._find(schema, keys)
        ttl = self._ttl.get(schema.name)
        if ttl is None or hits.stamps_ms is None:
            return hits.alive()
        return self._with_ttl(schema, keys, hits.alive(), ttl)

    def write(self, schema: TableSchema, rows: Rows) -> None:
        """Remember rows; deletions are rows too."""
        self._require_open()
        self._require_own(schema, rows.partition_hashes)
        self._cache.put(schema.name, rows)
        if self._cache.is_full:
            self._hand_over()

    def _require_own(self, schema: TableSchema, partition_hashes: Int32s) -> None:
        owned = self._backend.partition.owns(partition_hashes)
        if not owned.all():
            raise StateMismatch(
                f"Table {schema.name}: {int((~owned).sum())} of {len(owned)} keys do not belong "
                f"to partition {self._backend.partition}.",
                hint="Split the rows by pmod(hash(keys), partitions), as Spark's shuffle does.",
            )

    def rows(self, schema: TableSchema, ranges: Ranges) -> Iterator[Rows]:
        """Yield the live rows of some ranges of codes, in order, own writes included."""
        self._require_open()
        own = self._cache.changes(schema.name, ranges)
        ttl = self._ttl.get(schema.name)
        before_ms = None if ttl is None else ttl.expired_before_ms(self.now_ms)
        done = 0
        for piece in self._backend.scan(schema.name, ranges):
            upto = int(np.searchsorted(own.codes, piece.codes[-1], "right"))
            yield from _live(merged([piece, own.slice(done, upto)]), before_ms)
            done = upto
        yield from _live(own.slice(done, len(own)), before_ms)

    def stamps(self, schema: TableSchema, rows: int) -> Int64s | None:
        """Return the stamps of rows written now, if the table has stamps."""
        return np.full(rows, self.now_ms, np.int64) if schema.stamped else None

    def next_numbers(self, count: int) -> Int64s:
        """Return numbers that grow within the epoch and from epoch to epoch."""
        first = (self.epoch << _NUMBER_BITS) + self._sequence
        self._sequence += count
        return np.arange(first, first + count, dtype=np.int64)

    def _find(self, schema: TableSchema, keys: Keys) -> Hits:
        table = schema.name
        if not self._cache.knows(table):
            hits = self._backend.get(table, keys)
            self._remember(schema, keys, hits)
            return hits
        known = self._cache.find(table, keys)
        missed = np.ones(len(keys), np.bool_)
        missed[known.at] = False
        if not missed.any():
            return known
        # In the order of their codes, so that they need no sorting again.
        at = np.flatnonzero(missed) if keys.order is None else keys.order[missed[keys.order]]
        asked = keys.take(at)
        hits = self._backend.get(table, asked)
        self._remember(schema, asked, hits)
        return known.plus(replace(hits, at=at.take(hits.at)))

    def _remember(self, schema: TableSchema, asked: Keys, hits: Hits) -> None:
        if self._backend.caches_reads:
            self._cache.remember(schema.name, hits.as_rows(asked))

    def _with_ttl(self, schema: TableSchema, keys: Keys, hits: Hits, ttl: TTL) -> Hits:
        assert hits.stamps_ms is not None
        alive = np.asarray(hits.stamps_ms >= ttl.expired_before_ms(self.now_ms), np.bool_)
        if not alive.all():
            self.write(schema, self.deletions(schema, keys.take(np.unique(hits.at[~alive]))))
            hits = hits.where(alive)
        if ttl.restart is Restart.ON_READ_WRITE and len(hits):
            touched = keys.take(hits.at)
            stamps = self.stamps(schema, len(touched))
            self.write(schema, Rows.of(touched, hits.values, stamps_ms=stamps))
        return hits

    def deletions(self, schema: TableSchema, keys: Keys) -> Rows:
        """Return rows that delete some keys."""
        values = tuple(pa.nulls(len(keys), stored) for stored in schema.stored_value)
        dead = np.ones(len(keys), np.bool_)
        return Rows.of(keys, values, dead=dead, stamps_ms=self.stamps(schema, len(keys)))

    def _sweep(self) -> None:
        for name, ttl in self._ttl.items():
            ranges = ttl.swept_range(self.epoch)
            if ranges is None:
                continue
            schema = self._backend.tables[name]
            before_ms = ttl.expired_before_ms(self.now_ms)
            for piece in self._backend.scan(name, ranges):
                self._sweep_piece(schema, piece, before_ms)

    def _sweep_piece(self, schema: TableSchema, piece: Rows, before_ms: int) -> None:
        if piece.stamps_ms is None:
            return
        old = np.flatnonzero(piece.stamps_ms < before_ms)
        if not len(old):
            return
        keys = piece.take(old).as_keys()
        # What this transaction touched is not old any more, whatever the backend says. What it
        # only read is: a cached row that the backend has as well carries the same old stamp.
        cached = self._cache.find(schema.name, keys)
        spared = np.zeros(len(keys), np.bool_)
        if cached.stamps_ms is not None:
            spared[cached.at] = cached.stamps_ms >= before_ms
        if cached.dead is not None:
            spared[cached.at[cached.dead]] = True
        self.write(schema, self.deletions(schema, keys.take(np.flatnonzero(~spared))))

    def _hand_over(self) -> None:
        dirty = self._cache.take_dirty()
        if dirty:
            self._handed_over = True
            try:
                self._backend.write(dirty)
            except BaseException:
                # The cache has let go of the rows: to commit the rest would lose them.
                self._end(TransactionState.FAILED, None)
                raise

    def _require_open(self) -> None:
        if self.state is not TransactionState.OPEN:
            raise StateClosed(
                f"The transaction of epoch {self.epoch} is {self.state.value}.",
                hint="Begin another one.",
            )

    def _end(self, state: TransactionState, snapshot: Snapshot | None) -> None:
        if self.state is TransactionState.OPEN:
            self.state = state
            self._ended(self, snapshot)


def _live(rows: Rows, before_ms: int | None) -> Iterator[Rows]:
    live = unexpired(rows.alive(), before_ms)
    if len(live):
        yield live
