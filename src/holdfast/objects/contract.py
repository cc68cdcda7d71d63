"""What a checkpoint location can do: keep immutable files under keys.

A key is a relative path with `/` in it. A file is written whole or not at all, durable when the
call returns, and never changed. The only operation two processes can race for is
`put_if_absent`, and exactly one of them wins it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from holdfast.model import StoredFile


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of a file without reading it."""

    key: str
    bytes: int
    modified_at: datetime


class ObjectStore(ABC):
    """A place for immutable files, shared by threads and processes."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it is, as a user would write it."""

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write a file whose key nobody else uses; the same content again is harmless."""

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes) -> None:
        """Write a file, or raise `ObjectExists` and leave the one that is there alone."""

    @abstractmethod
    def put_file(self, key: str, path: Path) -> None:
        """Like `put` for a file on this machine's disk, of any size."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """Return a file's content, or raise `ObjectMissing`."""

    @abstractmethod
    def get_file(self, key: str, path: Path) -> None:
        """Like `get`, into a file on this machine's disk, which appears whole or not at all."""

    @abstractmethod
    def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of a file, or `None` if it is not there."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Walk the files whose keys start with `prefix`, in key order; unfinished ones are not."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a file; nothing happens if it is not there."""

    def measure(self, key: str) -> StoredFile:
        """Read a file whole and return its true size and checksum, or raise `ObjectMissing`."""
        return describe(key, self.get(key))

    def sweep(self, prefix: str, *, before: datetime) -> int:
        """Remove what writers that died before a moment left unfinished; say how many files."""
        del prefix, before
        return 0

    def store(self, key: str, content: bytes) -> StoredFile:
        """Write a file and return how to find it and tell that it is unharmed."""
        self.put(key, content)
        return describe(key, content)


def describe(key: str, content: bytes) -> StoredFile:
    """Return what a manifest records of a file."""
    return StoredFile(key, len(content), xxh3_128_hexdigest(content))
