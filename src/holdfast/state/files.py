"""The files of keyed state on a local disk: written whole, made durable, never changed.

Every operation passes a failpoint, so that a test can end the process between any two of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from holdfast import failpoints
from holdfast.errors import DiskFull, StateDamaged, StateError
from holdfast.state.snapshot import StateFile

STEPS: Final = (
    "state.create",  # a file was created and is still empty
    "state.write",  # its content was written
    "state.sync",  # it is durable
    "state.link",  # another name was given to it
    "state.sync_directory",  # its name is durable
    "state.rename",  # it took the place of another
    "state.remove",  # it was removed
)
"""The steps a crash test can end a process at."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True)
class Directory:
    """Where the files of one operator's state live."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # text will do
        missing = []
        place = self.path
        while not place.exists() and place != place.parent:
            missing.append(place)
            place = place.parent
        with translated(self.path, "created"):
            self.path.mkdir(parents=True, exist_ok=True)
        # A directory that a power cut takes away takes everything in it along.
        for made in missing:
            sync_directory(made.parent)

    def locate(self, file: StateFile) -> Path:
        """Return where a file of a snapshot is, or refuse it if it cannot be that file."""
        path = self.path / file.name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise damaged(path, "it is missing") from None
        if size != file.bytes:
            raise damaged(path, f"it has {size} bytes instead of {file.bytes}")
        return path

    def verify(self, file: StateFile) -> None:
        """Read a file whole and refuse it unless its checksum is the recorded one."""
        path = self.locate(file)
        if checksum(path) != file.checksum:
            raise damaged(path, "its checksum is not the one recorded when it was written")

    def sync(self) -> None:
        """Make the names of new files survive a power cut."""
        sync_directory(self.path)


def checksum(path: Path) -> str:
    """Return the xxh3-128 of a file's content, in hexadecimal."""
    if path.stat().st_size == 0:
        return str(xxh3_128_hexdigest(b""))
    with pa.memory_map(str(path)) as mapped:
        return str(xxh3_128_hexdigest(memoryview(mapped.read_buffer())))


def damaged(path: Path, reason: str) -> StateDamaged:
    """Return the error for a file that is not what was written."""
    return StateDamaged(
        f"The state file {path} is damaged: {reason}.",
        hint="Restore it from a copy, or open an older checkpoint that does not name it. "
        "A snapshot opens in the directory it was written in.",
    )


@contextmanager
def translated(path: Path, done: str) -> Iterator[None]:
    """Say what the operating system could not do, to which file, and what to do about it."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in _FULL:
            raise DiskFull(
                f"The state file {path} could not be {done}: {reason}.",
                hint="Free some space; the previous checkpoint is intact and will be opened.",
            ) from error
        raise StateError(
            f"The state file {path} could not be {done}: {reason}.",
            hint="See that the directory exists and that this user may write it.",
        ) from error


def create_new(path: Path) -> None:
    """Create an empty file under a name that nothing has yet."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        raise StateError(
            f"The state file {path} exists already, and files of state are never written twice.",
            hint="Give every attempt at an epoch, and every savepoint, a name of its own.",
        ) from None
    failpoints.reach("state.create", path.name)


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power cut."""
    with translated(path, "made durable"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    failpoints.reach("state.sync", path.name)


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    with translated(path, "made durable"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    failpoints.reach("state.sync_directory", path.name)


def write_document(path: Path, content: bytes) -> None:
    """Write a small file so that it is there whole or not at all, even after a power cut."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with translated(path, "written"):
        try:
            with draft.open("wb") as file:
                failpoints.reach("state.create", path.name)
                file.write(content)
                file.flush()
                failpoints.reach("state.write", path.name)
                os.fsync(file.fileno())
            failpoints.reach("state.sync", path.name)
            draft.rename(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    failpoints.reach("state.rename", path.name)
    sync_directory(path.parent)


def link(source: Path, target: Path) -> None:
    """Give a file another name; the two share their content from then on."""
    with translated(target, "linked"):
        target.hardlink_to(source)
    failpoints.reach("state.link", target.name)


def remove(path: Path) -> None:
    """Remove a file; it may be gone already."""
    with translated(path, "removed"):
        path.unlink(missing_ok=True)
    failpoints.reach("state.remove", path.name)
