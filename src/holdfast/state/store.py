"""The way in: the keyed state of one operator partition, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from uuid_utils import uuid7

from holdfast.errors import StateClosed, StateMismatch
from holdfast.state.backends.arrow import ArrowBackend
from holdfast.state.backends.heap import HeapBackend
from holdfast.state.cache import Cache
from holdfast.state.changelog import ChangelogBackend
from holdfast.state.contract import Backend
from holdfast.state.files import Directory
from holdfast.state.savepoint import load_savepoint, read_savepoint, write_part
from holdfast.state.schema import RESERVED, Layout, TableSchema
from holdfast.state.snapshot import Partition, Snapshot
from holdfast.state.transaction import Transaction
from holdfast.state.ttl import TTL

DEFAULT_CACHE_BYTES: Final = 256 * 2**20

_MAX_EPOCH: Final = 2**31 - 1
_MAX_NOW_MS: Final = 2**62


def _rocksdb(*place: Any, attempt: str, **options: Any) -> Backend:
    from holdfast.state.backends.rocksdb import RocksDBBackend, RocksDBOptions

    return RocksDBBackend(*place, attempt=attempt, options=RocksDBOptions(**options))


BACKENDS: Final[Mapping[str, Callable[..., Backend]]] = {
    "arrow": ArrowBackend,
    "heap": HeapBackend,
    "rocksdb": _rocksdb,
}


class Store:
    """Tables of keyed state, changed one transaction at a time; made by `open_store`."""

    def __init__(
        self,
        backend: Backend,
        *,
        epoch: int,
        ttl: Mapping[str, TTL],
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.backend = backend
        self.epoch = epoch
        """The last committed epoch; -1 before the first."""
        self._ttl = ttl
        self._cache = Cache(backend.tables, cache_bytes, keep_clean=backend.caches_reads)
        self._current: Transaction | None = None
        self._why_closed = ""
        self._numbers = count()

    def begin(self, epoch: int, *, now_ms: int) -> Transaction:
        """Begin the transaction of an epoch; `now_ms` is its time for everything with a TTL."""
        self._require_idle()
        _require_integer("epoch", epoch, _MAX_EPOCH)
        _require_integer("now_ms", now_ms, _MAX_NOW_MS)
        if epoch <= self.epoch:
            raise StateMismatch(
                f"Epoch {epoch} cannot follow epoch {self.epoch}."
                if self.epoch >= 0
                else f"Epoch {epoch} cannot be the first.",
                hint="Open the state at an older snapshot to do an epoch again. Epochs begin at 0.",
            )
        self._current = Transaction(
            self.backend,
            self._cache,
            self._ttl,
            epoch=epoch,
            now_ms=now_ms,
            number=next(self._numbers),
            ended=self._ended,
        )
        return self._current

    def _require_idle(self) -> None:
        if self._why_closed:
            raise StateClosed(
                f"The state of partition {self.backend.partition} {self._why_closed}.",
                hint="Open it again at its last snapshot.",
            )
        if self._current is not None:
            raise StateClosed(
                f"The transaction of epoch {self._current.epoch} is still open.",
                hint="Commit or abort it first.",
            )

    def _ended(self, transaction: Transaction, snapshot: Snapshot | None) -> None:
        self._current = None
        if snapshot is not None:
            self.epoch = snapshot.epoch
            return
        self._cache.forget()
        if transaction.must_reopen:
            self._why_closed = (
                f"has writes of epoch {transaction.epoch}, which {transaction.state.value}"
            )
            self.backend.close()

    def write_savepoint(self, directory: str | Path) -> Snapshot:
        """Write this partition's part of a savepoint: the state of the last committed epoch."""
        self._require_idle()
        return write_part(self.backend, directory, epoch=self.epoch)

    def close(self) -> None:
        """Let go of files and memory; an open transaction is aborted."""
        if self._current is not None:
            self._current.abort()
        self._cache.forget()
        self._why_closed = self._why_closed or "was closed"
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _require_integer(name: str, value: object, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -largest <= value <= largest:
        raise StateMismatch(
            f"{name} cannot be {value!r}.", hint=f"Give an integer of at most {largest}."
        )


def open_store(
    directory: str | Path | Directory,
    tables: Sequence[TableSchema],
    *,
    snapshots: Sequence[Snapshot] = (),
    partition: Partition | None = None,
    backend: str | Callable[..., Backend] = "arrow",
    options: Mapping[str, Any] | None = None,
    changelog: bool = False,
    materialize_every: int = 64,
    ttl: Mapping[str, TTL] | None = None,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    savepoint: str | Path | None = None,
    attempt: str = "",
    drop: Sequence[str] = (),
) -> Store:
    """Open the state of one operator partition at a checkpoint, at a savepoint, or empty.

    `snapshots` are those that the partitions committed at one epoch, under any number of
    partitions. `attempt` becomes part of file names; without one it is drawn at random. A table
    named in `drop` is left out if it is stored and not declared any more. `backend` is the name of
    one, or makes one: a class that implements `Backend`, for example.
    """
    if savepoint is not None and snapshots:
        raise StateMismatch(
            "State cannot be opened at a checkpoint and at a savepoint.", hint="Give one of them."
        )
    parts = snapshots if savepoint is None else read_savepoint(savepoint)
    opened = _make_backend(
        backend,
        directory if isinstance(directory, Directory) else Directory(Path(directory)),
        _with_stamps(tables, ttl or {}, parts),
        partition or Partition(),
        attempt=attempt or uuid7().hex[-12:],
        options=options or {},
    )
    if changelog:
        opened = ChangelogBackend(opened, materialize_every=materialize_every)
    try:
        if savepoint is None:
            opened.open(snapshots, drop=drop)
        else:
            load_savepoint(opened, savepoint, parts, drop=drop)
    except BaseException:
        opened.close()
        raise
    epoch = parts[0].epoch if parts else -1
    return Store(opened, epoch=epoch, ttl=ttl or {}, cache_bytes=cache_bytes)


def _make_backend(
    given: str | Callable[..., Backend],
    directory: Directory,
    tables: Sequence[TableSchema],
    partition: Partition,
    *,
    attempt: str,
    options: Mapping[str, Any],
) -> Backend:
    make = BACKENDS.get(given) if isinstance(given, str) else given
    if make is None:
        raise StateMismatch(
            f"There is no state backend {given!r}.",
            hint=f"The backends are {', '.join(sorted(BACKENDS))}.",
        )
    unknown = sorted(set(options) - _options_of(make))
    if unknown:
        raise StateMismatch(
            f"The state backend {given!r} has no option {unknown[0]!r}.",
            hint=f"It has {', '.join(sorted(_options_of(make))) or 'none'}.",
        )
    return make(directory, tables, partition, attempt=attempt, **options)


def _options_of(make: Callable[..., Backend]) -> set[str]:
    if make is _rocksdb:
        from holdfast.state.backends.rocksdb import RocksDBOptions

        return {one.name for one in fields(RocksDBOptions)}
    given = signature(make).parameters.values()
    return {one.name for one in given if one.kind is one.KEYWORD_ONLY} - {"attempt"}


def _with_stamps(
    tables: Sequence[TableSchema], ttl: Mapping[str, TTL], snapshots: Sequence[Snapshot]
) -> list[TableSchema]:
    _require_all("tables", tables, TableSchema)
    _require_all("snapshots", snapshots, Snapshot)
    _require_all("ttl", ttl.values(), TTL)
    unknown = sorted(set(ttl) - {table.name for table in tables})
    if unknown:
        raise StateMismatch(
            f"A TTL is given for table {unknown[0]!r}, which is not declared.",
            hint=f"The tables are {', '.join(table.name for table in tables)}.",
        )
    for table in tables:
        if table.name in ttl and table.layout is not Layout.HASH and _has_times(table):
            raise StateMismatch(
                f"Table {table.name!r} holds timers or windows, which take no TTL.",
                hint="They are removed when they are due.",
            )
    # A table that has stamps keeps them, so that a TTL that comes back finds them.
    stamped = {one.name for snapshot in snapshots for one in snapshot.tables if one.stamped}
    stamped |= set(ttl)
    return [replace(table, stamped=table.stamped or table.name in stamped) for table in tables]


def _require_all(name: str, given: Any, kind: type) -> None:
    if not isinstance(given, Collection) or not all(isinstance(one, kind) for one in given):
        raise StateMismatch(
            f"State cannot be opened with {name}={given!r}.",
            hint=f"Give a collection in which each is a {kind.__name__}.",
        )


def _has_times(table: TableSchema) -> bool:
    return any(name.endswith("_us") and name.startswith(RESERVED) for name in table.key.names)
