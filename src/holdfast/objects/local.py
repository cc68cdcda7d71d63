"""Files below a directory of a local or shared disk.

A file is written under a hidden name, made durable, and then given its own name at once: by
`rename`, or by `link`, which fails if the name is taken. Every operation passes a failpoint, so
that a test can end the process between any two of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final
from uuid import uuid4

from xxhash import xxh3_128

from holdfast import failpoints
from holdfast.disk import make_directories, sync_directory
from holdfast.model import StoredFile
from holdfast.objects.contract import ObjectInfo, ObjectStore
from holdfast.objects.errors import exists, missing, translated
from holdfast.objects.keys import check_key
from holdfast.objects.walking import walk

STEPS: Final = (
    "objects.create",  # a hidden file was created and is still empty
    "objects.write",  # its content was written
    "objects.sync",  # its content is durable
    "objects.link",  # it got its own name beside the hidden one
    "objects.rename",  # it got its own name instead of the hidden one
    "objects.sync_directory",  # its name is durable
    "objects.remove",  # a file was removed
)
"""The steps a crash test can end a process at."""

_CHUNK_BYTES: Final = 1 << 20
_UNFINISHED: Final = ".part"
_ATTEMPTS: Final = 3


class LocalObjects(ObjectStore):
    """A checkpoint location in a directory, which is created when something is written."""

    def __init__(self, directory: str | Path) -> None:
        self._location = str(directory)
        self._root = Path(directory).absolute()
        self._durable: set[Path] = set()

    @property
    def location(self) -> str:
        """Where it is, as a user would write it."""
        return self._location

    def put(self, key: str, content: bytes) -> None:
        """Write a file whose key nobody else uses; it takes the place of an older one at once."""
        self._write(key, lambda file: file.write(content), replace=True)

    def put_if_absent(self, key: str, content: bytes) -> None:
        """Write a file unless there is one; one of several processes wins."""
        if self._path(key).exists():
            raise exists(str(self._path(key)))  # spares the writing; the link below decides
        self._write(key, lambda file: file.write(content), replace=False)

    def put_file(self, key: str, path: Path) -> None:
        """Copy a file of this machine's disk."""
        self._path(key)
        with translated(path, "read"):
            source = path.open("rb")
        with source:
            self._write(
                key, lambda file: shutil.copyfileobj(source, file, _CHUNK_BYTES), replace=True
            )

    def get(self, key: str) -> bytes:
        """Return a file's content."""
        with self._open(key) as file, translated(self._path(key), "read"):
            return file.read()

    def get_file(self, key: str, path: Path) -> None:
        """Copy a file to another place on this machine's disk."""
        draft = path.with_name(f".{uuid4().hex}{_UNFINISHED}")
        with self._open(key) as source, translated(path, "written"):
            try:
                with draft.open("xb") as file:
                    shutil.copyfileobj(source, file, _CHUNK_BYTES)
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise

    def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of a file."""
        path = self._path(key)
        with translated(path, "looked at"):
            try:
                status = path.stat()
            except FileNotFoundError:
                return None
        if not S_ISREG(status.st_mode):
            return None
        return ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def measure(self, key: str) -> StoredFile:
        """Read a file in pieces and return its true size and checksum."""
        digest, size = xxh3_128(), 0
        with self._open(key) as file, translated(self._path(key), "read"):
            while piece := file.read(_CHUNK_BYTES):
                digest.update(piece)
                size += len(piece)
        return StoredFile(key, size, digest.hexdigest())

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Walk the files whose keys start with a prefix, in key order."""
        with translated(self._root, "listed"):
            for key, status in walk(self._root, prefix):
                if not key.rpartition("/")[2].startswith("."):
                    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield ObjectInfo(key, status.st_size, modified_at)

    def delete(self, key: str) -> None:
        """Remove a file, and its directory when nothing else is in it."""
        path = self._path(key)
        with translated(path, "removed"):
            path.unlink(missing_ok=True)
        failpoints.reach("objects.remove", key)
        for place in path.parents:
            if place == self._root:
                break
            try:
                place.rmdir()
            except OSError:  # not empty, nearly always
                break
            self._durable.discard(place)

    def sweep(self, prefix: str, *, before: datetime) -> int:
        """Remove the hidden files of writers that died."""
        swept = 0
        with translated(self._root, "listed"):
            for key, status in list(walk(self._root, prefix)):
                name = key.rpartition("/")[2]
                unfinished = name.startswith(".") and name.endswith(_UNFINISHED)
                if unfinished and status.st_mtime < before.timestamp():
                    (self._root / key).unlink(missing_ok=True)
                    swept += 1
        return swept

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _open(self, key: str) -> BinaryIO:
        path = self._path(key)
        with translated(path, "read"):
            try:
                return path.open("rb")
            except FileNotFoundError:
                raise missing(str(path)) from None

    def _write(self, key: str, fill: Callable[[BinaryIO], object], *, replace: bool) -> None:
        path = self._path(key)
        with translated(path, "written"):
            draft, file = self._draft(path.parent)
            try:
                with file:
                    failpoints.reach("objects.create", key)
                    fill(file)
                    file.flush()
                    failpoints.reach("objects.write", key)
                    os.fsync(file.fileno())
                failpoints.reach("objects.sync", key)
                if replace:
                    draft.replace(path)
                    failpoints.reach("objects.rename", key)
                else:
                    _link(draft, path)
                    failpoints.reach("objects.link", key)
                    draft.unlink()
            except BaseException:
                # Whatever it is about, a second error would only hide it.
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
                raise
            sync_directory(path.parent)
        failpoints.reach("objects.sync_directory", key)

    def _draft(self, directory: Path) -> tuple[Path, BinaryIO]:
        """Create a hidden file; the directory may be removed by a `delete` in between."""
        draft = directory / f".{uuid4().hex}{_UNFINISHED}"
        for _ in range(_ATTEMPTS):
            self._prepare(directory)
            try:
                return draft, draft.open("xb")
            except FileNotFoundError:
                self._durable.clear()
        self._prepare(directory)
        return draft, draft.open("xb")

    def _prepare(self, directory: Path) -> None:
        if directory not in self._durable:
            for place in (*reversed(directory.parents), directory):
                if place.is_relative_to(self._root) and place not in self._durable:
                    make_directories(place)
                    self._durable.add(place)


def _link(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise exists(str(path)) from None
