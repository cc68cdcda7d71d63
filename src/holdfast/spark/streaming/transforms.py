"""What happens to the rows between source and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame

from holdfast.errors import HoldfastError, TransformFailed
from holdfast.spark.failures import explain
from holdfast.spark.functions import find_function, origin

Transform = Callable[[DataFrame], DataFrame]

VIEW = "batch"
"""The name by which a query knows the micro-batch."""


def narrowed(frame: DataFrame, where: str | None, select: Sequence[str] | None) -> DataFrame:
    """Apply `where` and `select` to the stream itself, so that sources can skip the rest."""
    with _of_the_user("where" if where and not select else "select"):
        if where is not None:
            frame = frame.where(where)
        return frame.selectExpr(*select) if select is not None else frame


def by_query(query: str) -> Transform:
    """A query over the micro-batch, which it knows as the view `batch`."""

    def apply(frame: DataFrame) -> DataFrame:
        with _of_the_user("sql"):
            frame.createOrReplaceTempView(VIEW)
            return frame.sparkSession.sql(query)

    return apply


def by_function(function: Callable[[DataFrame], Any], name: str) -> Transform:
    """A Python function from DataFrame to DataFrame."""

    def apply(frame: DataFrame) -> DataFrame:
        try:
            result = function(frame)
        except HoldfastError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, Py4JError | PySparkException):
                said = explain(name, error).message.rstrip(".")
            else:
                said = f"{name}: {_said(error)}"
            raise TransformFailed(
                f"{said} ({origin(error, ignoring=__file__)}).",
                hint="Nothing of this batch was delivered. Mend the function and run again.",
            ) from error
        if not isinstance(result, DataFrame):
            raise TransformFailed(
                f"{name} returned {type(result).__name__}, not a DataFrame.",
                hint="A transform takes the batch as a DataFrame and returns one.",
            )
        return result

    return apply


def load_function(name: str) -> Callable[[DataFrame], Any]:
    """Find the `module:function` of a pipeline's `python`."""
    return find_function(name, owner="python", takes="a DataFrame", error=TransformFailed)


@contextmanager
def _of_the_user(key: str) -> Iterator[None]:
    """Name the key of the configuration whose SQL Spark does not understand."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        said = explain(f"`{key}`", error)
        raise TransformFailed(
            said.message, hint="Correct it in the pipeline's configuration."
        ) from error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
