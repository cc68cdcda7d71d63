"""Where things lie below the path of a files sink, and moving whole epochs about.

<path>/
  _common_metadata                    Parquet only, once columns changed: all of them
  holdfast_epoch=<epoch>/             one epoch, published by one rename and never changed
    part-….parquet
    _holdfast.json                    its manifest
  _holdfast/                          hidden from readers by its name
    sink.json                         whose directory this is
    staging/<generation>-<epoch>-<id>/
    abandoned/<generation>/holdfast_epoch=<epoch>/    what a roll-back took away
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from holdfast.errors import SinkRefused
from holdfast.model import Token
from holdfast.spark.filesystem import Files, join
from holdfast.spark.sinks.files_record import EpochManifest, dump, read_manifest
from holdfast.spark.sinks.staging import StagingArea
from holdfast.spark.writing import MANIFEST

EPOCH_COLUMN: Final = "holdfast_epoch"
COMMON_METADATA: Final = "_common_metadata"
_PREFIX: Final = f"{EPOCH_COLUMN}="
_SYNCS: Final = 8
_UNFINISHED: Final = "unfinished"
# Hidden, but they make the directory somebody else's table.
_OTHER_TABLES: Final = frozenset({"_delta_log", "_spark_metadata"})


class Layout:
    """The directory of one sink."""

    def __init__(self, files: Files, path: str, sink: str) -> None:
        self._files = files
        self._sink = sink
        self.path = path
        self.record = join(path, "_holdfast", "sink.json")
        self.staging = StagingArea(files, join(path, "_holdfast", "staging"))

    def epoch(self, epoch: int) -> str:
        """The directory of a published epoch."""
        return join(self.path, f"{_PREFIX}{epoch}")

    def epochs(self) -> list[int]:
        """The published epochs, sorted; refuses a directory that holds anything else."""
        found: list[int] = []
        for name in self._files.names(self.path):
            number = name.removeprefix(_PREFIX)
            if name.startswith(_PREFIX) and number.isascii() and number.isdigit():
                found.append(int(number))
            elif name[0] not in "._" or name in _OTHER_TABLES:
                raise SinkRefused(
                    f"{self._sink}: {without_login(self.path)} holds {name}, which this sink did "
                    "not write.",
                    hint="Move it away, or choose another path: readers would take it for rows "
                    "of the stream.",
                )
        return sorted(found)

    def manifest(self, epoch: int) -> EpochManifest | None:
        """What an epoch holds; `None` if it is not there, or not all of it."""
        place = self.epoch(epoch)
        text = self._files.read_text(join(place, MANIFEST))
        if text is None:
            return None
        manifest = read_manifest(text, without_login(join(place, MANIFEST)), self._sink)
        # Without a rename, as on an object store, a directory is copied file by file.
        return manifest if set(manifest.files) <= set(self._files.names(place)) else None

    def last_token(self, epochs: list[int]) -> Token | None:
        """The token of the last epoch that is there whole."""
        for epoch in reversed(epochs):
            manifest = self.manifest(epoch)
            if manifest is not None:
                return manifest.parsed_token
        return None

    def move_aside(self, epoch: int) -> None:
        """Hide a published epoch from readers, without losing it."""
        manifest = self.manifest(epoch)
        owner = _UNFINISHED if manifest is None else str(manifest.parsed_token.generation)
        abandoned = join(self.path, "_holdfast", "abandoned", owner)
        for name in _numbered(f"{_PREFIX}{epoch}"):
            place = join(abandoned, name)
            if not self._files.exists(place):
                self._files.rename(self.epoch(epoch), place)
                return

    def retire(self, after: int, before_generation: int) -> Iterator[int]:
        """Move every epoch after one aside, if an earlier generation wrote it; name each."""
        # The last first: whatever ends this half-way leaves the epochs without a hole.
        for epoch in reversed(self.epochs()):
            if epoch <= after:
                return
            manifest = self.manifest(epoch)
            if manifest is None or manifest.parsed_token.generation < before_generation:
                self.move_aside(epoch)
                yield epoch


def seal_local(place: Path, manifest: EpochManifest) -> None:
    """Write an epoch's manifest and return when all of its directory would survive a power cut.

    No reader looks at a staged directory, so that nothing in it needs a rename of its own.
    """
    (place / MANIFEST).write_text(dump(manifest), encoding="utf-8")
    sync_all([place / name for name in (*manifest.files, MANIFEST)] + [place])


def without_login(path: str) -> str:
    """A path for people: `s3a://key:secret@bucket/…` without what stands before the `@`."""
    return re.sub(r"://[^/@]*@", "://***@", path)


def sync(place: Path) -> None:
    """Return when a file, or the names in a directory, would survive a power cut."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(places: Sequence[Path]) -> None:
    """Return when all of them would survive a power cut.

    Side by side, because the disk writes its journal once for all who wait for it.
    """
    with ThreadPoolExecutor(min(len(places), _SYNCS)) as pool:
        for _ in pool.map(sync, places):
            pass


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}.{number}"
        number += 1
