"""A directory of files, one subdirectory per epoch, correct for a plain `spark.read` at any moment.

A batch is written where no reader looks, made durable, and published by one rename: the directory
of an epoch is the proof that its token was taken. `files_layout.py` draws what lies where, and
`docs/formats/stream-files.md` describes what a reader sees.

Nothing here costs more the more epochs there are, but for the first batch of a process, which
lists their names once.
"""

from __future__ import annotations

import os
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.config.sinks import FilesSink as FilesConfig
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.failpoints import reach
from holdfast.model import Guarantee, Token
from holdfast.spark.filesystem import LocalFiles, files_for, is_pattern, join, local_path
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.files_columns import columns_after, same_columns
from holdfast.spark.sinks.files_failures import delivering
from holdfast.spark.sinks.files_layout import (
    COMMON_METADATA,
    Layout,
    sync,
    without_login,
)
from holdfast.spark.sinks.files_record import FORMAT, SinkRecord, dump, read_record
from holdfast.spark.sinks.files_writing import EpochWriter
from holdfast.spark.sinks.refusals import overtaken, repeated


class FilesSink(Sink):
    """Files of any format Spark writes to a directory."""

    def __init__(self, config: FilesConfig, *, pipeline: str, spark: SparkSession) -> None:
        super().__init__(config.name)
        self._pipeline = pipeline
        self._path = config.path
        self._shown = without_login(config.path)
        self._format = config.format
        with delivering(f"{self.name}: opening {self._shown}"):
            self._files = files_for(spark, self._path)
        self._layout = Layout(self._files, self._path, self.name)
        self._writer = EpochWriter(
            spark, self._files, file_format=config.format, options=dict(config.options)
        )
        self._text: str | None = None
        """The record as it was read or written last; another process may change it."""
        self._record: SinkRecord | None = None
        self._last: Token | None = None
        self._fits: StructType | None = None
        """Columns that need no change before they are written."""
        self._tidy = False
        """Nothing of an earlier try lies in staging."""

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once"

    @property
    def description(self) -> str:
        return f"{self._format} files in {self._shown}"

    @property
    def takes_back(self) -> str:
        return "Epochs after it are moved to _holdfast/abandoned, where no reader looks."

    def check(self) -> None:
        with delivering(f"{self.name}: looking at {self._shown}"):
            self._text = None
            self._look()

    def deliver(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        with delivering(f"{self.name}: writing epoch {token.epoch} to {self._shown}"):
            try:
                self._look()
                if self._stands(token, delivery.after):
                    return self._repeated(token)
                return self._take(delivery)
            except BaseException:
                # What is on the disk now is not what is remembered here.
                self._text, self._tidy = None, False
                raise

    def roll_back(self, to: Token) -> str:
        with delivering(f"{self.name}: rolling {self._shown} back to epoch {to.epoch}"):
            self._look()
            record = self._record
            if record is not None and to.generation < record.generation:
                raise overtaken(self.name, to, self._last or record.generation)
            done = self._last is not None and not to.follows(self._last)
            if done and record is not None and record.retiring is None:
                return f"{self._shown} is at epoch {to.epoch} or past it again: nothing to do."
            moved = self._begin_generation(to, rolled_back_to=to)
            reach("files.rolled_back", self.name)
            self._last = to
        if not moved:
            return f"{self._shown} had no epoch after {to.epoch}: nothing to move."
        which = f"epoch {moved[0]}" if len(moved) == 1 else f"epochs {moved[0]} to {moved[-1]}"
        return f"Moved {which} of {self._shown} to _holdfast/abandoned, where no reader looks."

    def _look(self) -> None:
        """See whose directory it is and what was taken last, unless nothing changed."""
        if self._text is None:
            self._refuse_path()
        text = self._files.read_text(self._layout.record)
        if text is not None and text == self._text:
            return
        epochs = self._layout.epochs()
        if text is None and epochs:
            text = self._lost_record()
        record = None
        if text is not None:
            record = read_record(text, without_login(self._layout.record), self.name)
            self._refuse_other_owner(record)
        last = self._layout.last_token(epochs)
        rolled_back_to = None if record is None else record.rollback_token
        if rolled_back_to is not None and rolled_back_to.follows(last):
            last = rolled_back_to
        self._text, self._record, self._last, self._fits = text, record, last, None

    def _take(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        record = self._record
        if record is None or token.generation > record.generation or record.retiring is not None:
            self._begin_generation(token)
        if not self._tidy:
            self._layout.staging.clear(token)
            self._tidy = True
        frame = self._fitted(delivery)
        staged = self._layout.staging.new(token)
        rows = self._writer.write(frame, staged)
        reach("files.written", self.name)
        manifest = self._writer.seal(staged, token, rows)
        reach("files.staged", self.name)
        # Again: the write took its time, and a newer run may have begun meanwhile.
        self._look()
        self._stands(token, delivery.after)
        place = self._layout.epoch(token.epoch)
        if self._files.exists(place):
            published = self._layout.manifest(token.epoch)
            if published is not None and repeated(self.name, token, published.parsed_token):
                # By another process, while this one wrote.
                self._files.delete(staged)
                self._last = published.parsed_token
                return self._repeated(token)
            # Of an earlier generation, or a copy that was interrupted.
            self._layout.move_aside(token.epoch)
            reach("files.aside", self.name)
        self._files.rename(staged, place)
        reach("files.published", self.name)
        self._last = token
        return Receipt(manifest.rows)

    def _repeated(self, token: Token) -> Receipt:
        manifest = self._layout.manifest(token.epoch)
        if isinstance(self._files, LocalFiles):
            # Whoever published it may have been killed before the rename was durable.
            sync(local_path(self._path))
        if manifest is None or not token.repeats(manifest.parsed_token):
            # The token of a roll-back: its rows came under an earlier one.
            return Receipt(None, repeated=True)
        return Receipt(manifest.rows, repeated=True)

    def _begin_generation(self, token: Token, *, rolled_back_to: Token | None = None) -> list[int]:
        """Shut out earlier generations, and take away what they wrote after this epoch."""
        before = self._record
        after = token.epoch
        if before is not None and before.retiring is not None and rolled_back_to is None:
            # A crash ended this early the last time, and its bound was another.
            after = min(after, before.retiring)
        back_to = rolled_back_to or (None if before is None else before.rollback_token)
        record = SinkRecord(
            format=FORMAT,
            pipeline=self._pipeline,
            sink=self.name,
            file_format=self._format,
            generation=token.generation,
            rolled_back_to=None if back_to is None else str(back_to),
            retiring=after,
            columns=None if before is None else before.columns,
        )
        self._write_record(record, token)
        reach("files.fenced", self.name)
        moved: list[int] = []
        for epoch in self._layout.retire(after, token.generation):
            moved.insert(0, epoch)
            reach("files.retired", self.name)
        self._write_record(replace(record, retiring=None), token)
        return moved

    def _write_record(self, record: SinkRecord, token: Token) -> None:
        self._refuse_newer(token)
        text = dump(record)
        self._files.write_text(self._layout.record, text)
        if isinstance(self._files, LocalFiles) and self._text is None:
            # It may have made the directory, and the one above it.
            sync(local_path(self._path))
            sync(local_path(self._path).parent)
        self._text, self._record = text, record

    def _refuse_newer(self, token: Token) -> None:
        """Leave the record of a newer run alone: it is what shuts this one out."""
        text = self._files.read_text(self._layout.record)
        if text is not None and text != self._text:
            found = read_record(text, without_login(self._layout.record), self.name)
            if found.generation > token.generation:
                raise overtaken(self.name, token, found.generation)

    def _fitted(self, delivery: Delivery) -> DataFrame:
        """The rows with all columns the directory has; new ones are announced to readers first."""
        if delivery.schema == self._fits:
            return delivery.frame
        assert self._record is not None, "a generation has begun"
        known = self._record.schema
        columns = columns_after(known, delivery.schema, self._format, sink=self.name)
        if columns != known:
            if known is not None and self._format == "parquet":
                self._announce(columns, delivery.token)
            self._write_record(replace(self._record, columns=columns.json()), delivery.token)
            reach("files.columns", self.name)
        if same_columns(delivery.schema, columns):
            self._fits = delivery.schema
            return delivery.frame
        return delivery.frame.to(columns)

    def _announce(self, columns: StructType, token: Token) -> None:
        """Tell Spark all columns, before rows that have them can be seen."""
        scratch = self._layout.staging.new(token)
        part = self._writer.write_columns(columns, scratch)
        self._files.replace(part, join(self._path, COMMON_METADATA))
        self._files.delete(scratch)

    def _stands(self, token: Token, after: Token | None) -> bool:
        """Whether `token` is the last one taken; raises if it must not be taken."""
        if token.pipeline != self._pipeline:
            raise SinkRefused(
                f"{self.name}: the batch {token} is not of the pipeline {self._pipeline}."
            )
        known, record = repeated(self.name, token, self._last, after=after), self._record
        if record is not None and token.generation < record.generation:
            raise overtaken(self.name, token, record.generation)
        return known

    def _refuse_path(self) -> None:
        if is_pattern(self._path):
            raise SinkRefused(
                f"{self.name}: {self._shown} has a character that Spark reads as a pattern.",
                hint="Choose a path without * ? [ ] { } and backslashes.",
            )
        if not isinstance(self._files, LocalFiles):
            return
        place = local_path(self._path)
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise SinkUnavailable(
                f"{self.name}: {place} is a file, not a directory.",
                hint="Move the file out of the way, or choose another path.",
            )
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            raise SinkUnavailable(
                f"{self.name}: permission denied: {place}.", hint="Give this user access to it."
            )

    def _refuse_other_owner(self, record: SinkRecord) -> None:
        if (record.pipeline, record.sink) != (self._pipeline, self.name):
            raise SinkRefused(
                f"{self.name}: {self._shown} belongs to the sink {record.sink} of the pipeline "
                f"{record.pipeline}.",
                hint="Give every sink a path of its own.",
            )
        if record.file_format != self._format:
            raise SinkRefused(
                f"{self.name}: {self._shown} holds {record.file_format} files, and the format is "
                f"{self._format} now.",
                hint="Put the format back, or choose another path.",
            )

    def _lost_record(self) -> str:
        """The record, where a crash ended its writing between two steps."""
        folder, _, name = self._layout.record.rpartition("/")
        text = self._files.read_text(join(folder, f".{name}.tmp"))
        if text is None:
            raise SinkRefused(
                f"{self.name}: {self._shown} holds epochs, but not whose they are: "
                f"{without_login(self._layout.record)} is missing.",
                hint="Put it back, or choose another path.",
            )
        return text
