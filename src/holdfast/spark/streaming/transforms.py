"""What happens to the rows between source and sinks."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame

from holdfast.errors import HoldfastError, TransformFailed
from holdfast.spark.failures import explain

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
        except (HoldfastError, Py4JError, PySparkException):
            raise
        except Exception as error:
            raise TransformFailed(
                f"{name} raised {type(error).__name__}: {error} ({_where(error)}).",
                hint="Nothing of this batch was delivered. Mend the function and run again.",
            ) from error
        if not isinstance(result, DataFrame):
            raise TransformFailed(
                f"{name} returned {type(result).__name__}, not a DataFrame.",
                hint="A transform takes the batch as a DataFrame and returns one.",
            )
        return result

    return apply


def load_function(reference: str) -> Callable[..., Any]:
    """Find `module:function`; modules in the current directory count."""
    module_name, _, path = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise TransformFailed(
            f"{reference}: the module {module_name} cannot be imported: {error}.",
            hint=f"Run from the directory it is in (this one is {here}), or set PYTHONPATH.",
        ) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise TransformFailed(
                f"{reference}: the module {module_name} has no {part}.",
                hint=f"It was found at {getattr(found, '__file__', module_name)}.",
            ) from None
    if not callable(found):
        raise TransformFailed(
            f"{reference} is not a function.",
            hint=f"It is a {type(found).__name__}.",
        )
    return found  # type: ignore[no-any-return]


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


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
