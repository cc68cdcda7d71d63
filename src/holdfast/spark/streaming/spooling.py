"""Batches that wait on disk for a sink that is down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession

from holdfast.clock import Clock, isoformat
from holdfast.errors import SinkUnavailable, SourceError, TargetError
from holdfast.model import SinkPosition, SpoolEntry, Token
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import files_for, join
from holdfast.spark.sinks.contract import Delivery

_ENTRY: Final = "_holdfast.json"
_NAME: Final = re.compile(r"(\d{12})-(\d+)-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Spools:
    """The spools of a pipeline's sinks, one directory of Parquet files per batch.

    A directory has a name nobody else gives, so that a process that was overtaken harms none.
    """

    spark: SparkSession
    location: str
    clock: Clock

    def keep(self, sink: str, delivery: Delivery, rows: int | None) -> SpoolEntry:
        """Write a batch durably."""
        token = delivery.token
        name = f"{token.epoch:012d}-{token.generation}-{uuid4().hex[:12]}"
        place, draft = (join(self.location, sink, n) for n in (name, f".{name}"))
        files = files_for(self.spark, place)
        what = f"{token.pipeline}: keeping epoch {token.epoch} for sink {sink}"
        with _not_of_the_source(), translated(what):
            first = not files.exists(join(self.location, sink))
            delivery.frame.write.parquet(draft)
            entry = SpoolEntry(token, place, rows, files.size(draft), self.clock())
            files.write_text(join(draft, _ENTRY), _written(entry))
            files.make_durable(draft)
            files.rename(draft, place)
            if first:
                files.make_durable(self.location)
        return entry

    def load(self, sink: str, position: SinkPosition | None) -> list[SpoolEntry]:
        """The batches that wait for a sink, oldest first; whatever else lies there is removed.

        That is what was delivered, what was never committed, and what a roll-back has cut off.
        """
        waiting = position.waiting if position is not None else None
        home = join(self.location, sink)
        files = files_for(self.spark, home)
        found: dict[int, SpoolEntry] = {}
        with translated(f"looking at what waits for sink {sink}"):
            for name in files.names(home):
                match = _NAME.fullmatch(name)
                epoch, generation = (int(match[1]), int(match[2])) if match else (-1, -1)
                text = None
                if waiting is not None and (
                    waiting.first.epoch <= epoch <= waiting.last.epoch
                    and generation <= waiting.last.generation
                ):
                    text = files.read_text(join(home, name, _ENTRY))
                if text is None:
                    files.delete(join(home, name))
                else:
                    entry = _read(text, join(home, name))
                    other = found.get(epoch)
                    # Of two tries at the same epoch, the one of the newer generation counts.
                    if other is None or entry.token.follows(other.token):
                        found[epoch] = entry
        return [found[epoch] for epoch in sorted(found)]

    def delivery(self, sink: str, entry: SpoolEntry) -> Delivery:
        """A batch as it was, ready to be delivered."""
        if not files_for(self.spark, entry.place).exists(entry.place):
            raise gone(sink, entry.place)
        with translated(f"reading what waited for sink {sink}"):
            frame = self.spark.read.parquet(entry.place)
            return Delivery(entry.token, frame, frame.schema)

    def forget(self, entry: SpoolEntry) -> None:
        """Remove a batch that has been delivered."""
        with translated(f"removing what waited in {entry.place}"):
            files_for(self.spark, entry.place).delete(entry.place)


def gone(sink: str, place: str) -> SinkUnavailable:
    """The error for batches that waited and are no longer there."""
    return SinkUnavailable(
        f"Sink {sink}: rows that waited for it are gone from {place}.",
        hint="Put the directory back, or roll the pipeline back to before these epochs.",
    )


def _written(entry: SpoolEntry) -> str:
    return json.dumps(
        {
            "format": 1,
            "token": str(entry.token),
            "rows": entry.rows,
            "bytes": entry.bytes,
            "spooled_at": isoformat(entry.spooled_at),
        }
    )


def _read(text: str, place: str) -> SpoolEntry:
    found = json.loads(text)
    at = datetime.fromisoformat(found["spooled_at"])
    return SpoolEntry(Token.parse(found["token"]), place, found["rows"], found["bytes"], at)


@contextmanager
def _not_of_the_source() -> Iterator[None]:
    """A directory that cannot be written is no reason to wait for the source."""
    try:
        yield
    except SourceError as error:
        raise TargetError(error.message, hint=error.hint) from error
