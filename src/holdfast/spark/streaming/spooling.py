"""Batches that wait on disk for a sink that is down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.clock import Clock
from holdfast.errors import SinkUnavailable, SourceError, TargetError
from holdfast.model import SpoolEntry
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import files_for, join
from holdfast.spark.sinks.contract import Delivery


@dataclass(frozen=True, slots=True)
class Spools:
    """The spools of a pipeline's sinks, one directory of Parquet files per batch."""

    spark: SparkSession
    location: str
    clock: Clock

    def keep(self, sink: str, delivery: Delivery, rows: int | None) -> SpoolEntry:
        """Write a batch durably; the same batch again takes the place of what was written."""
        token = delivery.token
        name = f"{token.generation}-{token.epoch}"
        place, draft = (join(self.location, sink, n) for n in (name, f".{name}"))
        files = files_for(self.spark, place)
        with (
            _not_of_the_source(),
            translated(f"{token.pipeline}: keeping epoch {token.epoch} for sink {sink}"),
        ):
            first = not files.exists(join(self.location, sink))
            delivery.frame.write.mode("overwrite").parquet(draft)
            files.make_durable(draft)
            files.delete(place)
            files.rename(draft, place)
            if first:
                files.make_durable(self.location)
            return SpoolEntry(token, place, rows, files.size(place), self.clock())

    def delivery(self, sink: str, entry: SpoolEntry) -> Delivery:
        """A batch as it was, ready to be delivered."""
        if not files_for(self.spark, entry.place).exists(entry.place):
            raise SinkUnavailable(
                f"Sink {sink}: the rows of epoch {entry.token.epoch} that waited for it are gone: "
                f"{entry.place}.",
                hint="Put the directory back, or roll the pipeline back to before that epoch.",
            )
        with translated(f"reading what waited for sink {sink}"):
            frame = self.spark.read.parquet(entry.place)
            return Delivery(entry.token, frame, frame.schema)

    def forget(self, entry: SpoolEntry) -> None:
        """Remove a batch that has been delivered."""
        with translated(f"removing what waited in {entry.place}"):
            files_for(self.spark, entry.place).delete(entry.place)


@contextmanager
def _not_of_the_source() -> Iterator[None]:
    """A directory that cannot be written is no reason to wait for the source."""
    try:
        yield
    except SourceError as error:
        raise TargetError(error.message, hint=error.hint) from error
