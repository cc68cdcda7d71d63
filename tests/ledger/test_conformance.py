"""The conformance suite over every backend."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.ledger import JsonLedger, Ledger, MemoryLedger, SqliteLedger
from holdfast.ledger.memory import MemoryStore
from holdfast.testing.ledger import LedgerConformance


class TestMemory(LedgerConformance):
    """The memory ledger conforms; its back door is the store's dictionaries."""

    @pytest.fixture(autouse=True)
    def place(self) -> None:
        """Make an empty store."""
        self.store = MemoryStore()

    def open(self) -> Ledger:
        return MemoryLedger(self.store)

    def stored(self, namespace: str, key: str) -> list[bytes | None]:
        versions = self.store.book.namespaces.get(namespace, {}).get(key, ())
        return [record.value for record in versions]


class TestJson(LedgerConformance):
    """The JSON ledger conforms; its back door is a JSON parser."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        """Choose a file that is not there yet."""
        self.path = tmp_path / "state" / "ledger.json"

    def open(self) -> Ledger:
        return JsonLedger(self.path)

    def stored(self, namespace: str, key: str) -> list[bytes | None]:
        records = json.loads(self.path.read_bytes())["records"]
        return [_json_value(entry) for entry in records.get(namespace, {}).get(key, [])]


class TestSqlite(LedgerConformance):
    """The SQLite ledger conforms; its back door is a connection of its own."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        """Choose a file that is not there yet, with a name that a URI has to quote."""
        self.path = tmp_path / "state" / "my ledger?%20#1.db"

    def open(self) -> Ledger:
        return SqliteLedger(self.path)

    def stored(self, namespace: str, key: str) -> list[bytes | None]:
        with closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute(
                "SELECT value FROM records WHERE namespace = ? AND key = ? ORDER BY version",
                (namespace, key),
            )
            return [value for (value,) in rows]


def _json_value(entry: dict[str, str]) -> bytes | None:
    if "deleted" in entry:
        return None
    if "text" in entry:
        return entry["text"].encode()
    return base64.b64decode(entry["base64"])
