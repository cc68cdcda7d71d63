"""What the parts of the ledger's conformance suite share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import count

import pytest

from holdfast.ledger import Ledger, Record

NAMESPACE = "positions"
"""Where the suite writes unless a test is about namespaces."""


class LedgerSuite:
    """The hooks an implementation fills in, and what the tests share."""

    @abstractmethod
    def open(self) -> Ledger:
        """Return a new handle on the store of this test, creating the store if need be."""

    @abstractmethod
    def stored(self, namespace: str, key: str) -> list[bytes | None]:
        """Return the committed values of a record, oldest first, `None` for a deletion.

        It must not use the ledger, so that no ledger is tested by itself.
        """

    @pytest.fixture
    def ledger(self) -> Iterator[Ledger]:
        """Open the store for one test, with a clock that ticks once a second."""
        seconds = count()
        with self.open() as ledger:
            ledger.clock = lambda: moment(next(seconds))
            yield ledger


def moment(seconds: int) -> datetime:
    """Return the time that the suite's clock shows at a tick."""
    return datetime(2025, 3, 15, 14, 30, tzinfo=UTC) + timedelta(seconds=seconds)


def zone(hours: int) -> timezone:
    """Return a time zone some hours from UTC."""
    return timezone(timedelta(hours=hours))


def record(key: str, version: int, content: bytes | None) -> Record:
    """Return the record that the suite's clock makes when `key` is all it writes."""
    return Record(NAMESPACE, key, version, moment(version - 1), content)


def number_of(found: Record) -> int:
    """Read a counter."""
    return int(found.value or b"0")


def value(ledger: Ledger, key: str) -> bytes | None:
    """Return the current value of a record."""
    found = ledger.get(NAMESPACE, key)
    return None if found is None else found.value


def write(ledger: Ledger, key: str, *values: bytes) -> None:
    """Write some versions of a record, each in a change of its own."""
    for content in values:
        ledger.put(NAMESPACE, key, content)


def delete(ledger: Ledger, key: str) -> bool:
    """Delete a record in a change of its own."""
    with ledger.writing() as change:
        return change.delete(NAMESPACE, key)


def prune(ledger: Ledger, key: str, keep: int) -> int:
    """Prune a record in a change of its own."""
    with ledger.writing() as change:
        return change.prune(NAMESPACE, key, keep)
