"""What every backend checks the same way: arguments, order of calls, turns, forks.

`GuardedLedger` and `GuardedTransaction` implement the contract and hand on to methods with a
leading underscore, which may then trust what they are given.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from weakref import WeakSet

from holdfast.clock import Clock, utc_now
from holdfast.errors import LedgerError
from holdfast.ledger.contract import Ledger, Record, Transaction, VersionInfo
from holdfast.ledger.waiting import Deadline, WriterTurn

_HIGHEST_VERSION = 2**63 - 1

_ledgers: WeakSet[GuardedLedger] = WeakSet()


class _State(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FAILED = "ended by an earlier error"


class GuardedTransaction(Transaction):
    """A transaction whose calls are checked before the backend sees them."""

    def __init__(self, ledger: GuardedLedger, turn: WriterTurn | None) -> None:
        super().__init__(ledger.clock)
        self._location = ledger.location
        self._turn = turn
        self._pid = os.getpid()
        self._state = _State.OPEN

    @property
    def writable(self) -> bool:
        """Whether this transaction may change anything."""
        return self._turn is not None

    def read(self, namespace: str, key: str, version: int | None = None) -> Record | None:
        """Return one version, the newest by default; `None` if there is none."""
        self._check_open()
        _check_names(namespace, key)
        if version is None:
            return self._read_newest(namespace, key)
        if not isinstance(version, int):
            raise TypeError(f"A version is an int, not {type(version).__name__}.")
        if not 1 <= version <= _HIGHEST_VERSION:
            return None
        return self._read_version(namespace, key, version)

    def append(self, namespace: str, key: str, value: bytes | None, created_at: datetime) -> Record:
        """Add the next version; `None` records a deletion."""
        self._check_writable()
        _check_names(namespace, key)
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"The value of {namespace}/{key} is {_kind(value)}, not bytes.")
        if created_at.tzinfo is None:
            raise LedgerError(
                f"{namespace}/{key} was given a time without a time zone.",
                hint="Make the ledger's clock return aware datetimes.",
            )
        newest = self._newest_version(namespace, key)
        record = Record(namespace, key, newest + 1, created_at.astimezone(UTC), value)
        self._append(record)
        return record

    def versions(self, namespace: str, key: str) -> list[VersionInfo]:
        """List every kept version, newest first."""
        self._check_open()
        _check_names(namespace, key)
        return self._versions(namespace, key)

    def keys(self, namespace: str, prefix: str = "") -> list[str]:
        """List the keys that start with `prefix` and are not deleted, in code-point order."""
        self._check_open()
        _check_name("namespace", namespace)
        if prefix != "":
            _check_name("prefix", prefix)
        return self._keys(namespace, prefix)

    def prune(self, namespace: str, key: str, keep: int) -> int:
        """Forget all but the newest `keep` versions and say how many went."""
        self._check_writable()
        _check_names(namespace, key)
        if keep < 0:
            raise LedgerError(f"Cannot keep {keep} versions of {namespace}/{key}.")
        return self._prune(namespace, key, keep)

    def commit(self) -> None:
        """Make every change durable and visible at once, and end the transaction."""
        self._check_open()
        try:
            self._commit()
        except BaseException:
            self._fail()
            raise
        self._end(_State.COMMITTED)

    def abort(self) -> None:
        """Drop every change and end the transaction; harmless if it has ended."""
        if self._state is _State.OPEN:
            try:
                if self._pid == os.getpid():
                    self._abort()
            finally:
                self._end(_State.ABORTED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Ended by hand inside the block: there is nothing left to do. One that an error ended
        # is not that: whoever swallowed the error must not take the changes for committed.
        if kind is None and self._state in (_State.COMMITTED, _State.ABORTED):
            return
        super().__exit__(kind, error, trace)

    def __del__(self) -> None:
        # A forgotten transaction would otherwise keep every other writer out for good.
        if getattr(self, "_state", None) is _State.OPEN:
            with suppress(Exception):
                self.abort()

    def _fail(self) -> None:
        """End the transaction because of an error that leaves its changes in doubt."""
        if self._state is _State.OPEN:
            try:
                with suppress(Exception):
                    self._abort()
            finally:
                self._end(_State.FAILED)

    def _end(self, state: _State) -> None:
        self._state = state
        if self._turn is not None and self._pid == os.getpid():
            self._turn.give_back()

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise LedgerError(
                f"This transaction on the ledger {self._location} is over: {self._state.value}.",
                hint="Begin another one.",
            )
        if self._pid != os.getpid():
            raise LedgerError(
                f"This transaction on the ledger {self._location} belongs to process "
                f"{self._pid}, which this process was forked from.",
                hint="Begin another one in this process.",
            )

    def _check_writable(self) -> None:
        self._check_open()
        if not self.writable:
            raise LedgerError(
                f"This transaction on the ledger {self._location} only reads.",
                hint="Open it with writing() to change something.",
            )

    @abstractmethod
    def _read_newest(self, namespace: str, key: str) -> Record | None: ...

    @abstractmethod
    def _read_version(self, namespace: str, key: str, version: int) -> Record | None: ...

    @abstractmethod
    def _newest_version(self, namespace: str, key: str) -> int:
        """Return the number of the newest version, 0 if there is none."""

    @abstractmethod
    def _append(self, record: Record) -> None: ...

    @abstractmethod
    def _versions(self, namespace: str, key: str) -> list[VersionInfo]: ...

    @abstractmethod
    def _keys(self, namespace: str, prefix: str) -> list[str]: ...

    @abstractmethod
    def _prune(self, namespace: str, key: str, keep: int) -> int: ...

    @abstractmethod
    def _commit(self) -> None:
        """Commit and let go of everything held; after an error `_abort` follows."""

    @abstractmethod
    def _abort(self) -> None:
        """Roll back and let go of everything held."""


class GuardedLedger(Ledger):
    """A ledger that gives its writers turns and survives a fork."""

    def __init__(self, location: str, *, timeout_s: float = 10.0, clock: Clock = utc_now) -> None:
        super().__init__(clock=clock)
        self._location = location
        self._timeout_s = timeout_s
        self._closed = False
        _ledgers.add(self)

    @property
    def location(self) -> str:
        """Where the ledger lives, as a user would write it."""
        return self._location

    def begin(self, *, write: bool) -> Transaction:
        """Open a transaction; see `Ledger.begin`."""
        if self._closed:
            raise LedgerError(f"The ledger {self.location} has been closed.", hint="Open it again.")
        deadline = Deadline(self._timeout_s)
        if not write:
            return self._begin(None, deadline)
        turn = self._writer_turn()
        turn.take(self.location, deadline)
        try:
            return self._begin(turn, deadline)
        except BaseException:
            turn.give_back()
            raise

    def close(self) -> None:
        """Let go of the ledger; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            self._close()

    @abstractmethod
    def _writer_turn(self) -> WriterTurn:
        """Return the turn that every handle of this process on the same store shares."""

    @abstractmethod
    def _begin(self, turn: WriterTurn | None, deadline: Deadline) -> GuardedTransaction:
        """Begin; with a turn, for writing. The turn is given back by the transaction's end."""

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def _after_fork(self) -> None:
        """Drop, in a forked child, whatever belongs to the parent: locks above all."""


def _after_fork_in_child() -> None:
    for ledger in _ledgers:
        ledger._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _check_names(namespace: str, key: str) -> None:
    _check_name("namespace", namespace)
    _check_name("key", key)


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"A {what} is a str, not {_kind(name)}.")
    if not name:
        raise LedgerError(f"A {what} must not be empty.")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise LedgerError(f"The {what} {name!r} cannot be written as UTF-8.") from None


def _kind(value: object) -> str:
    return type(value).__name__
