"""Where the files of a Delta sink lie below its table's directory.

    <path>/
      _delta_log/…                                  says which of the files below are the table
      holdfast-<sink>/epoch-<generation>-<epoch>/   the files of one batch
        part-….parquet
      _holdfast/<sink>/
        staging/<generation>-<epoch>-<id>/          a batch being written
        epochs/<generation>-<epoch>.json            the files a batch was written to

`<sink>` is a digest of the names of the pipeline and the sink: several may share a table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

from holdfast.errors import SinkRefused
from holdfast.model import Token
from holdfast.spark.counting import parquet_rows
from holdfast.spark.delta_log import LOG_DIRECTORY, LiveFile, NewFile
from holdfast.spark.filesystem import LocalFiles, join, local_path
from holdfast.spark.sinks.files_layout import sync_all
from holdfast.spark.sinks.files_record import FORMAT, EpochManifest, dump, read_manifest

_RECORD: Final = re.compile(r"(\d+)-(\d+)\.json")
_STAGED: Final = re.compile(r"(\d+)-(\d+)-\w+")
_PREFIX: Final = "holdfast-"


class DeltaLayout:
    """The directories of one sink inside a table."""

    def __init__(self, path: str, *, sink: str, pipeline: str) -> None:
        self._files = LocalFiles()
        self._path = path
        self._sink = sink
        self._pipeline = pipeline
        digest = hashlib.sha256(f"{pipeline}/{sink}".encode()).hexdigest()[:8]
        self._own = f"{_PREFIX}{digest}"
        self._staging = join(path, "_holdfast", digest, "staging")
        self._records = join(path, "_holdfast", digest, "epochs")

    def refuse_foreign(self) -> None:
        """Refuse a directory that holds something and is no Delta table."""
        for name in self._files.names(self._path):
            if name == LOG_DIRECTORY:
                return
        for name in self._files.names(self._path):
            # Before the first commit ours is no table either.
            if name[0] not in "._" and not name.startswith(_PREFIX):
                raise SinkRefused(
                    f"{self._sink}: {self._path} holds {name} and is no Delta table.",
                    hint="Move it away, or choose another path.",
                )

    def new_staging(self, token: Token) -> str:
        """A directory nobody has used: a task that outlived its job writes elsewhere."""
        return join(self._staging, f"{token.generation}-{token.epoch}-{uuid4().hex[:12]}")

    def clear_staging(self, token: Token) -> None:
        """Remove what earlier tries up to this token left behind."""
        for name in self._files.names(self._staging):
            found = _STAGED.fullmatch(name)
            # What a newer run is writing stays, should this one have been overtaken.
            if found and (int(found[1]), int(found[2])) <= (token.generation, token.epoch):
                self._files.delete(join(self._staging, name))

    def move_in(self, staged: str, token: Token) -> list[NewFile]:
        """Move the files of a batch durably into the table's directory; no reader sees them yet."""
        directory = local_path(staged)
        written = sorted(directory.glob("part-*"))
        counts = {path.name: parquet_rows(path) for path in written}
        for path in directory.iterdir():
            # Spark writes a file without rows where there are none, and checksums: the log names
            # neither.
            if counts.get(path.name, 0) == 0:
                self._files.delete(str(path))
        sync_all([*directory.iterdir(), directory])
        inside = f"{self._own}/epoch-{token.generation}-{token.epoch}"
        # Left by a try whose commit failed: the log does not have this token.
        self._files.delete(join(self._path, inside))
        self._files.rename(staged, join(self._path, inside))
        found = []
        for path in sorted(local_path(join(self._path, inside)).iterdir()):
            facts = path.stat()
            modified_ms = facts.st_mtime_ns // 1_000_000
            name = f"{inside}/{path.name}"
            found.append(NewFile(name, counts[path.name], facts.st_size, modified_ms))
        return found

    def write_record(self, token: Token, files: Sequence[NewFile]) -> None:
        """Remember which files a batch was written to."""
        rows = sum(file.rows for file in files)
        record = EpochManifest(FORMAT, str(token), rows, tuple(file.path for file in files))
        self._files.write_text(self._record(token), dump(record))

    def read_record(self, token: Token) -> EpochManifest | None:
        """The files a batch was written to."""
        place = self._record(token)
        text = self._files.read_text(place)
        return None if text is None else read_manifest(text, place, self._sink)

    def records_after(self, epoch: int, last: Token) -> Iterator[EpochManifest]:
        """What was committed after an epoch, if `last` is the last token the table has."""
        newest: dict[int, Token] = {}
        for token in self._recorded():
            # Later than the last: its commit never happened. Of two for one epoch, neither did
            # that of the earlier one.
            if token.epoch > epoch and not token.follows(last):
                newest[token.epoch] = max(
                    token, newest.get(token.epoch, token), key=lambda found: found.generation
                )
        for _, token in sorted(newest.items()):
            record = self.read_record(token)
            if record is not None:
                yield record

    def drop_records(self, to: Token) -> None:
        """Forget the batches that a roll-back took out of the table."""
        for token in self._recorded():
            if token.epoch > to.epoch and token.generation < to.generation:
                self._files.delete(self._record(token))

    def after(self, files: Sequence[LiveFile], epoch: int) -> list[LiveFile]:
        """Those files that this sink wrote after an epoch."""
        pattern = re.compile(rf"{self._own}/epoch-\d+-(\d+)/.*")
        matches = ((file, pattern.fullmatch(file.path)) for file in files)
        return [file for file, found in matches if found and int(found[1]) > epoch]

    def _recorded(self) -> list[Token]:
        found = (_RECORD.fullmatch(name) for name in self._files.names(self._records))
        return [Token(self._pipeline, int(name[1]), int(name[2])) for name in found if name]

    def _record(self, token: Token) -> str:
        return join(self._records, f"{token.generation}-{token.epoch}.json")
