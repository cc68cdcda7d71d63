"""All records as one immutable value, and transactions over it.

The memory and the JSON backend differ only in how they publish the next book.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from holdfast.ledger.contract import Record, VersionInfo
from holdfast.ledger.guarding import GuardedLedger, GuardedTransaction
from holdfast.ledger.waiting import WriterTurn

Versions = tuple[Record, ...]
"""Every kept version of one record, oldest first."""

Changes = dict[tuple[str, str], Versions]
"""New contents of some records by namespace and key; no versions means forgotten."""


@dataclass(frozen=True, slots=True)
class Book:
    """Every record of a ledger at one moment."""

    namespaces: Mapping[str, Mapping[str, Versions]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Book:
        """Collect records in any order."""
        changes: dict[tuple[str, str], list[Record]] = {}
        for record in records:
            changes.setdefault((record.namespace, record.key), []).append(record)
        by_version = attrgetter("version")
        return cls().changed({at: tuple(sorted(v, key=by_version)) for at, v in changes.items()})

    def versions(self, namespace: str, key: str) -> Versions:
        """Return every kept version of a record, oldest first."""
        return self.namespaces.get(namespace, {}).get(key, ())

    def changed(self, changes: Changes) -> Book:
        """Return the next book, leaving this one to whoever still reads it."""
        namespaces = dict(self.namespaces)
        for namespace in {namespace for namespace, _ in changes}:
            namespaces[namespace] = dict(namespaces.get(namespace, {}))
        for (namespace, key), versions in changes.items():
            records = namespaces[namespace]
            assert isinstance(records, dict)  # copied above
            if versions:
                records[key] = versions
            else:
                records.pop(key, None)
        return Book({name: records for name, records in namespaces.items() if records})

    def __iter__(self) -> Iterator[Record]:
        """Walk every version of every record, in order."""
        for _, records in sorted(self.namespaces.items()):
            for _, versions in sorted(records.items()):
                yield from versions


class BookTransaction(GuardedTransaction):
    """Reads one book and drafts the next."""

    def __init__(
        self,
        ledger: GuardedLedger,
        book: Book,
        turn: WriterTurn | None,
        *,
        publish: Callable[[Book], None],
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(ledger, turn)
        self._book = book
        self._changes: Changes = {}
        self._publish = publish
        self._let_go = let_go

    def _of(self, namespace: str, key: str) -> Versions:
        changed = self._changes.get((namespace, key))
        return self._book.versions(namespace, key) if changed is None else changed

    def _read_newest(self, namespace: str, key: str) -> Record | None:
        versions = self._of(namespace, key)
        return versions[-1] if versions else None

    def _read_version(self, namespace: str, key: str, version: int) -> Record | None:
        versions = self._of(namespace, key)
        index = bisect_left(versions, version, key=attrgetter("version"))
        found = versions[index : index + 1]
        return found[0] if found and found[0].version == version else None

    def _newest_version(self, namespace: str, key: str) -> int:
        versions = self._of(namespace, key)
        return versions[-1].version if versions else 0

    def _append(self, record: Record) -> None:
        at = (record.namespace, record.key)
        self._changes[at] = (*self._of(*at), record)

    def _versions(self, namespace: str, key: str) -> list[VersionInfo]:
        return [record.info for record in reversed(self._of(namespace, key))]

    def _keys(self, namespace: str, prefix: str) -> list[str]:
        names = set(self._book.namespaces.get(namespace, {}))
        names.update(key for within, key in self._changes if within == namespace)
        return sorted(
            key for key in names if key.startswith(prefix) and self._is_live(namespace, key)
        )

    def _is_live(self, namespace: str, key: str) -> bool:
        versions = self._of(namespace, key)
        return bool(versions) and not versions[-1].deleted

    def _prune(self, namespace: str, key: str, keep: int) -> int:
        versions = self._of(namespace, key)
        forgotten = max(0, len(versions) - keep)
        if forgotten:
            self._changes[namespace, key] = versions[forgotten:]
        return forgotten

    def _commit(self) -> None:
        if self._changes:
            self._publish(self._book.changed(self._changes))
        self._let_go()

    def _abort(self) -> None:
        self._let_go()
