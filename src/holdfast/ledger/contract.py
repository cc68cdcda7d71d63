"""The ledger's contract: a namespaced, versioned key-value store with transactions.

A record is addressed by a namespace and a key and holds bytes. Every write makes a new
version, numbered from 1; nothing is changed in place. A deletion is a version without a
value, so that history and numbering survive it.

A backend implements `Ledger.begin`, `Ledger.close` and the seven primitives of `Transaction`.
Everything else, compare-and-set, roll-back and typed access included, is written here once.
Nothing above this module knows how a backend stores a record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from holdfast.clock import Clock, utc_now
from holdfast.errors import LedgerError, VersionConflict

FORMAT_VERSION: Final = 1
"""The version of everything a ledger stores; a mismatch is refused when it is opened."""

ABSENT: Final = 0
"""As `expect`, means: no version of the record exists, or the newest is a deletion."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """What is known of one version without reading its value."""

    version: int
    created_at: datetime
    size: int
    """Bytes of the value; 0 for a deletion."""
    deleted: bool


@dataclass(frozen=True, slots=True)
class Record:
    """One version of one record."""

    namespace: str
    key: str
    version: int
    created_at: datetime
    value: bytes | None
    """`None` is a deletion."""

    @property
    def deleted(self) -> bool:
        """Whether this version says that the record was deleted."""
        return self.value is None

    @property
    def info(self) -> VersionInfo:
        """Everything about this version except its value."""
        return VersionInfo(
            self.version, self.created_at, len(self.value or b""), self.value is None
        )


class Transaction(ABC):
    """A consistent view of the ledger; a writing one is all or nothing.

    Used as a context manager: leaving it normally commits, leaving it by an exception aborts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @abstractmethod
    def read(self, namespace: str, key: str, version: int | None = None) -> Record | None:
        """Return one version, the newest by default, a deletion too; `None` if there is none."""

    @abstractmethod
    def append(self, namespace: str, key: str, value: bytes | None, created_at: datetime) -> Record:
        """Add the next version; `None` records a deletion."""

    @abstractmethod
    def versions(self, namespace: str, key: str) -> list[VersionInfo]:
        """List every kept version, newest first."""

    @abstractmethod
    def keys(self, namespace: str, prefix: str = "") -> list[str]:
        """List the keys that start with `prefix` and are not deleted, in code-point order."""

    @abstractmethod
    def prune(self, namespace: str, key: str, keep: int) -> int:
        """Forget all but the newest `keep` versions and say how many went; 0 forgets the record."""

    @abstractmethod
    def commit(self) -> None:
        """Make every change durable and visible at once, and end the transaction."""

    @abstractmethod
    def abort(self) -> None:
        """Drop every change and end the transaction."""

    def get(self, namespace: str, key: str) -> Record | None:
        """Return the newest version, or `None` if there is none or it is a deletion."""
        record = self.read(namespace, key)
        return None if record is None or record.deleted else record

    def put(self, namespace: str, key: str, value: bytes, *, expect: int | None = None) -> Record:
        """Write the next version.

        With `expect`, only if the newest version is that one (`ABSENT`: there is no live one),
        else `VersionConflict`.
        """
        self._compare(namespace, key, expect)
        return self.append(namespace, key, value, self._clock())

    def delete(self, namespace: str, key: str, *, expect: int | None = None) -> bool:
        """Delete the record, keeping its history; `False` if there was nothing to delete."""
        self._compare(namespace, key, expect)
        if self.get(namespace, key) is None:
            return False
        self.append(namespace, key, None, self._clock())
        return True

    def roll_back(self, namespace: str, key: str, version: int) -> Record:
        """Make an old version the newest again, as a new version; history is kept."""
        old = self.read(namespace, key, version)
        if old is None:
            kept = ", ".join(str(info.version) for info in self.versions(namespace, key)[:10])
            raise LedgerError(
                f"{namespace}/{key} has no version {version}.",
                hint=f"Kept versions: {kept}." if kept else "It has no versions at all.",
            )
        return self.append(namespace, key, old.value, self._clock())

    def items(self, namespace: str, prefix: str = "") -> Iterator[Record]:
        """Walk the live records whose keys start with `prefix`, in key order."""
        for key in self.keys(namespace, prefix):
            record = self.get(namespace, key)
            if record is not None:
                yield record

    def _compare(self, namespace: str, key: str, expect: int | None) -> None:
        if expect is None:
            return
        newest = self.get(namespace, key)
        found = ABSENT if newest is None else newest.version
        if found != expect:
            raise VersionConflict(
                f"{namespace}/{key} is at {_say(found)}, not at {_say(expect)} as expected.",
                hint="Something else wrote it in the meantime: read it again and retry.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()


class Ledger(ABC):
    """A transactional store of versioned records, shared by threads and processes."""

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self.clock = clock

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the ledger lives, as a user would write it."""

    @abstractmethod
    def begin(self, *, write: bool) -> Transaction:
        """Open a transaction.

        Writers are serialised: a second one waits, then raises `LedgerLocked` naming the holder.
        A reader sees one moment and never waits for a writer's commit.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the ledger; closing twice is harmless."""

    def reading(self) -> Transaction:
        """Open a read-only view of one moment."""
        return self.begin(write=False)

    def writing(self) -> Transaction:
        """Open an all-or-nothing change."""
        return self.begin(write=True)

    def get(self, namespace: str, key: str) -> Record | None:
        """Return the newest version of a record, or `None`."""
        with self.reading() as view:
            return view.get(namespace, key)

    def put(self, namespace: str, key: str, value: bytes, *, expect: int | None = None) -> Record:
        """Write one record in a transaction of its own; see `Transaction.put`."""
        with self.writing() as change:
            return change.put(namespace, key, value, expect=expect)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _say(version: int) -> str:
    return "no version" if version == ABSENT else f"version {version}"
