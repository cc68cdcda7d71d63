"""Files that live as long as the process: for tests, and the model for the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from threading import Lock

from holdfast.clock import Clock, utc_now
from holdfast.objects.contract import ObjectInfo, ObjectStore
from holdfast.objects.errors import exists, missing, translated
from holdfast.objects.keys import check_key


class MemoryObjects(ObjectStore):
    """A checkpoint location in memory, gone with the process.

    `files` has every file by its key: content and when it was written.
    """

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self.files: dict[str, tuple[bytes, datetime]] = {}
        self._clock = clock
        self._lock = Lock()

    @property
    def location(self) -> str:
        """Where it is, as a user would write it."""
        return ":memory:"

    def put(self, key: str, content: bytes) -> None:
        """Write a file whose key nobody else uses."""
        self.files[check_key(key)] = (bytes(content), self._clock())

    def put_if_absent(self, key: str, content: bytes) -> None:
        """Write a file unless there is one."""
        with self._lock:
            if check_key(key) in self.files:
                raise exists(key)
            self.put(key, content)

    def put_file(self, key: str, path: Path) -> None:
        """Write a file with the content of another one."""
        check_key(key)
        with translated(path, "read"):
            content = path.read_bytes()
        self.put(key, content)

    def get(self, key: str) -> bytes:
        """Return a file's content."""
        found = self.files.get(check_key(key))
        if found is None:
            raise missing(key)
        return found[0]

    def get_file(self, key: str, path: Path) -> None:
        """Write a file's content to the disk of this machine."""
        content = self.get(key)
        draft = path.with_name(f".{path.name}.part")
        with translated(path, "written"):
            draft.write_bytes(content)
            draft.replace(path)

    def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of a file."""
        found = self.files.get(check_key(key))
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Walk the files whose keys start with a prefix, in key order."""
        for key, (content, at) in sorted(self.files.copy().items()):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(content), at)

    def delete(self, key: str) -> None:
        """Remove a file."""
        self.files.pop(check_key(key), None)
