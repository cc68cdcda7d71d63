"""What goes wrong while files are written for a sink, as the two errors a sink may raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)

from holdfast.errors import (
    HoldfastError,
    Interrupted,
    SchemaConflict,
    SinkError,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.spark.failures import translated

# About the rows or the settings, never about the disk: they would be the same next time.
_FOR_EVER: Final = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)
# The same failures are explained for tables that are copied from a source; a sink has none.
_WORDS: Final = (
    ("the database cannot be reached", "its file system cannot be reached"),
    ("the source has the column", "the rows have the column"),
    (" and that source.options.url is right", " and that the path is right"),
    (" at the source", " in the stream"),
    ("move the table away and copy it again with --full-refresh", "restore it, or move it away"),
    ("target.path", "path"),
)


@contextmanager
def delivering(what: str) -> Iterator[None]:
    """Raise what Spark, the disk or a table's log raises inside as a failure of the sink."""
    try:
        with translated(what):
            yield
    except (SinkError, Interrupted):
        raise
    except HoldfastError as error:
        for_ever = isinstance(error, SchemaConflict) or isinstance(error.__cause__, _FOR_EVER)
        kind = SinkRefused if for_ever else SinkUnavailable
        raise kind(_said_of_a_sink(error.message), hint=_said_of_a_sink(error.hint)) from error


def _said_of_a_sink(text: str) -> str:
    for words, others in _WORDS:
        text = text.replace(words, others)
    return text


@contextmanager
def refusing() -> Iterator[None]:
    """Raise every error inside as a refusal: it is about what the rows or the table are."""
    try:
        yield
    except SinkError:
        raise
    except HoldfastError as error:
        raise SinkRefused(error.message, hint=error.hint) from error
