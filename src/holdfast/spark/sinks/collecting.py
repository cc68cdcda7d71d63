"""Rows on their way through the driver: built as text in the JVM, fetched piece by piece.

A sink that speaks to a server from the driver never holds a batch: Spark renders each row as one
or a few texts, and partitions are fetched one after the other while the rows before them are
being sent. The order is that of the partitions and of the rows within them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from holdfast.errors import (
    HoldfastError,
    Interrupted,
    SinkRefused,
    SinkUnavailable,
    SparkFailed,
)
from holdfast.spark.failures import explain

_JSON_OPTIONS = {
    # Spark's own format stops at milliseconds and follows the session's time zone.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    # A column is there in every row, or readers guess.
    "ignoreNullFields": "false",
}

_Item = TypeVar("_Item")


def column(name: str) -> Column:
    """The column of that very name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def row_as_json(schema: StructType) -> Column:
    """The whole row as a JSON object: nulls included, timestamps in UTC, binary as base64."""
    return F.to_json(F.struct(*(column(name) for name in schema.names)), _JSON_OPTIONS)


def field_as_text(field: StructField) -> Column:
    """One column of a batch as a text."""
    return as_text(column(field.name), field.dataType)


def as_text(value: Column, of_type: DataType) -> Column:
    """A value as a text: timestamps in UTC, binary as base64, nested values as JSON."""
    match of_type:
        case StringType():
            return value
        case BinaryType():
            return F.base64(value)
        case StructType() | ArrayType() | MapType() | VariantType():
            return F.to_json(value, _JSON_OPTIONS)
        case TimestampType() | TimestampNTZType():
            wrapped = F.to_json(F.struct(value.alias("value")), _JSON_OPTIONS)
            return F.get_json_object(wrapped, "$.value")
        case _:
            return value.cast("string")


def fetch(frame: DataFrame, columns: Sequence[Column], *, sink: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns, row by row, fetching a partition at a time."""
    with rendering(sink):
        rows = frame.select(*columns).toLocalIterator(prefetchPartitions=True)
        yield from rows


@contextmanager
def rendering(sink: str) -> Iterator[None]:
    """Say in a sink's words what Spark raises inside."""
    try:
        yield
    except AnalysisException as error:
        raise SinkRefused(
            f"{sink}: Spark cannot make what is sent from the rows: {_told(sink, error)}",
            hint="Correct the expression, or give the batch the columns it needs.",
        ) from error
    except (PySparkException, Py4JError) as error:
        told = explain(sink, error)
        if isinstance(told, Interrupted):
            raise told from error
        message = _innermost(error) if isinstance(told, SparkFailed) else told.message
        raise SinkUnavailable(
            f"{sink}: the rows could not be computed: {message.removeprefix(f'{sink}: ')}",
            hint=told.hint,
        ) from error


def _told(sink: str, error: Exception) -> str:
    told: HoldfastError = explain(sink, error)
    return told.message.removeprefix(f"{sink} failed in Spark: ").removeprefix(f"{sink}: ")


def _innermost(error: Exception) -> str:
    """The first line of the cause of all causes; those around it speak of jobs and tasks."""
    origin = getattr(error, "_origin", None) or error
    told = str(error)
    cause: Any = origin.java_exception if isinstance(origin, Py4JJavaError) else None
    while cause is not None:
        told = cause.getMessage() or told
        cause = cause.getCause()
    return next(iter(told.strip().splitlines()), "no message")[:400]


def chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Cut into lists of `size`, the last one shorter; nothing yields nothing."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
