"""Where the files of a Delta sink lie below its table's directory.

    <path>/
      _delta_log/…                                  says which of the files below are the table
      holdfast-<sink>/
        epoch-<generation>-<epoch>-<id>/            the files of one batch
          part-….parquet
      _holdfast/<sink>/
        staging/<generation>-<epoch>-<id>/          a batch being written
        epochs/<generation>-<epoch>-<id>.json       the files a batch was written to

`<sink>` is a digest of the names of the pipeline and the sink: several may share a table. `<id>`
is new for every try, so that none touches the files of another.
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
from holdfast.spark.sinks.staging import StagingArea

_RECORD: Final = re.compile(r"(\d+)-(\d+)-[0-9a-f]+\.json")
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
        self.staging = StagingArea(self._files, join(path, "_holdfast", digest, "staging"))
        self.records = join(path, "_holdfast", digest, "epochs")

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
        # A directory of this try's own: another process may have committed this token meanwhile,
        # and what the log names is never touched. VACUUM removes what it does not name.
        inside = f"{self._own}/epoch-{token.generation}-{token.epoch}-{uuid4().hex[:12]}"
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
        name = f"{token.generation}-{token.epoch}-{uuid4().hex[:12]}.json"
        self._files.write_text(join(self.records, name), dump(record))

    def read_record(self, token: Token) -> EpochManifest | None:
        """What a batch was written to; of several tries, which have the same rows, any one."""
        return next(iter(self._read(token.generation, token.epoch)), None)

    def records_after(self, epoch: int, last: Token) -> Iterator[list[EpochManifest]]:
        """The tries of every epoch that was committed after one, if `last` is the last token.

        One try of each was committed; which one, only the log knows.
        """
        newest: dict[int, int] = {}
        for token in self._recorded():
            # Of a later epoch than the last: never committed, or taken back by a roll-back. Of two
            # for one epoch, the earlier one was not committed.
            if epoch < token.epoch <= last.epoch and not token.follows(last):
                newest[token.epoch] = max(token.generation, newest.get(token.epoch, 0))
        for number, generation in sorted(newest.items()):
            yield self._read(generation, number)

    def drop_records(self, to: Token) -> None:
        """Forget the batches that a roll-back took out of the table."""
        for name, token in self._recorded_names():
            if token.epoch > to.epoch and token.generation < to.generation:
                self._files.delete(join(self.records, name))

    def after(self, files: Sequence[LiveFile], epoch: int) -> list[LiveFile]:
        """Those files that this sink wrote after an epoch."""
        pattern = re.compile(rf"{self._own}/epoch-\d+-(\d+)-[0-9a-f]+/.*")
        matches = ((file, pattern.fullmatch(file.path)) for file in files)
        return [file for file, found in matches if found and int(found[1]) > epoch]

    def _recorded(self) -> list[Token]:
        return [token for _, token in self._recorded_names()]

    def _recorded_names(self) -> list[tuple[str, Token]]:
        found = ((name, _RECORD.fullmatch(name)) for name in self._files.names(self.records))
        return [
            (name, Token(self._pipeline, int(match[1]), int(match[2])))
            for name, match in found
            if match
        ]

    def _read(self, generation: int, epoch: int) -> list[EpochManifest]:
        records = []
        for name, token in self._recorded_names():
            if (token.generation, token.epoch) == (generation, epoch):
                place = join(self.records, name)
                text = self._files.read_text(place)
                if text is not None:
                    records.append(read_manifest(text, place, self._sink))
        return records
