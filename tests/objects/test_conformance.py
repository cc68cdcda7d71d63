"""The conformance suite over every checkpoint location."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.objects import LocalObjects, MemoryObjects, ObjectStore
from holdfast.testing.objects import ObjectsConformance


class TestMemory(ObjectsConformance):
    """The memory location conforms; its back door is its dictionary."""

    @pytest.fixture(autouse=True)
    def place(self) -> None:
        """Make an empty location."""
        self.store = MemoryObjects()

    def open(self) -> ObjectStore:
        return self.store

    def stored(self, key: str) -> bytes | None:
        found = self.store.files.get(key)
        return None if found is None else found[0]


class TestLocal(ObjectsConformance):
    """A directory conforms; its back door is the file system."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        """Choose a directory that is not there yet."""
        self.path = tmp_path / "state" / "check points"

    def open(self) -> ObjectStore:
        return LocalObjects(self.path)

    def stored(self, key: str) -> bytes | None:
        path = self.path / key
        return path.read_bytes() if path.is_file() else None
