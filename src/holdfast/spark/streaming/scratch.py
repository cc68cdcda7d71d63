"""Spark's own checkpoint directory, which is scratch here.

It is made anew for every start, from the head checkpoint and the epoch that was about to run. So
it does not matter whether what is left of the last one is missing, older or newer than the head,
or belongs to another query: Spark finds itself exactly after the head, with the next epoch
decided if it had been decided before.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.errors import CheckpointError
from holdfast.model import SparkLog, StoredFile
from holdfast.spark.streaming.offsets import log_offset, read_offsets

# What Spark writes once a batch is done. It has nothing to say here: event time is not Spark's.
_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'
_COMPACT: Final = ".compact"

SETTINGS: Final = {
    # The directory outlives nothing, so that nothing in it has to be kept for long.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "30s",
}
"""Settings of the session whose queries use such a directory."""

Store = Callable[[str, bytes], StoredFile]
"""Keeps a file of the log, given its path in the directory."""


class Scratch:
    """One query's checkpoint directory on this machine's disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def rebuild(
        self,
        done: SparkLog | None,
        begun: SparkLog | None,
        fetch: Callable[[StoredFile], bytes],
    ) -> None:
        """Make the directory as it is after `done`, with the epoch in `begun` still to be run."""
        self.remove()
        self.directory.mkdir(parents=True)
        for log in (done, begun):
            if log is None:
                continue
            for path, text in log.entries.items():
                self._write(path, text.encode())
            for path, file in log.files.items():
                self._write(path, fetch(file))

    def remove(self) -> None:
        """Remove the directory; it may be gone already."""
        if self.directory.exists():
            shutil.rmtree(self.directory)

    def offsets(self, epoch: int) -> str:
        """What Spark decided an epoch to be."""
        return self._read(f"offsets/{epoch}")

    def capture(self, epoch: int, before: SparkLog | None, store: Store) -> SparkLog:
        """What is needed to run this epoch again; only what `before` does not have is stored."""
        entries = {"metadata": self._read("metadata"), f"offsets/{epoch}": self.offsets(epoch)}
        if epoch > 0:
            entries[f"offsets/{epoch - 1}"] = self.offsets(epoch - 1)
        known = before.files if before is not None else {}
        place = str(self.directory / f"offsets/{epoch}")
        files: dict[str, StoredFile] = {}
        for index, offset in enumerate(read_offsets(entries[f"offsets/{epoch}"], place=place)):
            for path in self._source_log(index, log_offset(offset), known):
                files[path] = known.get(path) or store(path, self._bytes(path))
        return SparkLog(entries, files)

    def committed(self, log: SparkLog, epoch: int) -> SparkLog:
        """The log of an epoch once it is done."""
        return SparkLog({**log.entries, f"commits/{epoch}": _COMMITTED}, log.files)

    def _source_log(self, index: int, last: int | None, known: dict[str, StoredFile]) -> list[str]:
        """The paths of the entries of a source's log that are needed up to entry `last`."""
        directory = f"sources/{index}"
        if last is None:
            return [f"{directory}/{name}" for name in self._names(directory)]
        numbered = {
            number: path
            for path in known
            if path.startswith(f"{directory}/")
            and (number := _number(path.rpartition("/")[2])) is not None
            and number <= last
        }
        if numbered:
            # Only the new entries are looked for: the log may be long.
            new = range(max(numbered) + 1, last + 1)
            names = [f"{number}{suffix}" for number in new for suffix in ("", _COMPACT)]
            names = [name for name in names if (self.directory / directory / name).exists()]
        else:
            names = self._names(directory)
        for name in names:
            number = _number(name)
            if number is not None and number <= last:
                # A compacted entry comes after the plain one and takes its place.
                numbered[number] = f"{directory}/{name}"
        start = max((n for n, path in numbered.items() if path.endswith(_COMPACT)), default=0)
        needed = range(start, last + 1)
        lost = [number for number in needed if number not in numbered]
        if lost:
            # Without it the files it lists would be read a second time some day.
            raise self._has_lost(f"{directory}/{lost[0]}")
        return [numbered[number] for number in needed]

    def _names(self, directory: str) -> list[str]:
        place = self.directory / directory
        if not place.is_dir():
            return []
        return sorted(p.name for p in place.iterdir() if p.is_file() and p.name[0] != ".")

    def _read(self, path: str) -> str:
        return self._bytes(path).decode()

    def _bytes(self, path: str) -> bytes:
        try:
            return (self.directory / path).read_bytes()
        except FileNotFoundError:
            raise self._has_lost(path) from None

    def _has_lost(self, path: str) -> CheckpointError:
        return CheckpointError(
            f"Spark's checkpoint directory {self.directory} has lost {path} while it was used.",
            hint="Nothing was committed. Run again; the directory is made anew.",
        )

    def _write(self, path: str, content: bytes) -> None:
        place = self.directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def new_files(done: SparkLog | None, begun: SparkLog | None) -> dict[str, StoredFile]:
    """The entries of the sources' logs that an epoch added, by their path."""
    known = done.files if done is not None else {}
    new = begun.files if begun is not None else {}
    return {path: file for path, file in new.items() if path not in known}


def _number(name: str) -> int | None:
    stem = name.removesuffix(_COMPACT)
    return int(stem) if stem.isdecimal() else None
