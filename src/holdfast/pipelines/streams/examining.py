"""The doctor's checks of a stream: its checkpoints, its source, its sinks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.checkpoint import Checkpoints, verify
from holdfast.config import StreamPipeline, source_options
from holdfast.errors import HoldfastError, ObjectExists
from holdfast.pipelines.findings import Finding
from holdfast.pipelines.identity import new_id

if TYPE_CHECKING:
    from holdfast.spark.session import SparkSession


def checkpoints(book: Checkpoints) -> Iterator[Finding]:
    """Whether the location can be written, and whether the head is whole."""
    check, name = "checkpoints", book.pipeline
    try:
        _try_location(book)
        head = book.head()
        if head is None:
            book.restore()  # refuses a ledger that was lost
            yield Finding(
                check, "ok", f"{name}: {book.objects.location} can be written; no version yet"
            )
            return
        found = verify(book, book.resolve(str(head.version)))
    except HoldfastError as error:
        yield Finding(check, "critical", f"{name}: {error.message}", error.hint)
        return
    for key, problem in found.findings:
        yield Finding(
            check,
            "critical",
            f"{name}: version {head.version}: {key}: {problem}",
            f"holdfast checkpoint repair {name}",
        )
    if found.whole:
        yield Finding(check, "ok", f"{name}: version {head.version} is whole ({found.files} files)")


def sources(name: str, pipeline: StreamPipeline, spark: SparkSession) -> Iterator[Finding]:
    """Whether the stream can be opened."""
    from holdfast.spark.streaming.source import open_stream

    options = source_options(pipeline.source, pipeline.batch)
    try:
        open_stream(spark, pipeline.source, options, pipeline=name)
    except HoldfastError as error:
        yield Finding("sources", "critical", error.message, error.hint)
    else:
        yield Finding("sources", "ok", f"{name}: the stream can be opened")


def sinks(name: str, pipeline: StreamPipeline, spark: SparkSession) -> Iterator[Finding]:
    """Whether each sink can be used, as far as can be seen without writing."""
    from holdfast.spark.sinks.opening import open_sink

    for config in pipeline.sinks:
        try:
            sink = open_sink(config, pipeline=name, spark=spark)
            try:
                sink.check()
                said = f"{name}: {config.name}: {sink.description}"
            finally:
                sink.close()
        except HoldfastError as error:
            said = f"{name}: {error.message}"
            yield Finding("sinks", "critical" if config.required else "warn", said, error.hint)
        else:
            yield Finding("sinks", "ok", said)


def _try_location(book: Checkpoints) -> None:
    key = f"{book.pipeline}/doctor/{new_id()}"
    book.objects.put_if_absent(key, b"?")
    try:
        book.objects.put_if_absent(key, b"!")
    except ObjectExists:
        return
    else:
        raise HoldfastError(
            f"{book.objects.location} lets two writers write the same file.",
            hint="Choose a location that can write a file only if it is not there.",
        )
    finally:
        book.objects.delete(key)
