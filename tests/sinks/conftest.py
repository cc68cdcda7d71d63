"""What the tests of several sinks share: deliveries, and crashes inside one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast import failpoints
from holdfast.model import Token
from holdfast.spark.sinks.contract import Delivery

PIPELINE = "payments"

Deliveries = Callable[..., Delivery]
Crashing = Callable[[str], Any]


class Crash(BaseException):
    """The end of a process; not an `Exception`, so that nothing tidies up after it."""


@pytest.fixture
def delivery(spark: SparkSession) -> Deliveries:
    """Make a delivery: `delivery(generation, epoch, rows, schema)`."""

    def make(
        generation: int,
        epoch: int,
        rows: Sequence[tuple[Any, ...]],
        schema: str = "id long, v string",
        *,
        pipeline: str = PIPELINE,
        batch: str = "",
    ) -> Delivery:
        columns = StructType.fromDDL(schema)
        values = [dict(zip(columns.names, row, strict=True)) for row in rows]
        # Through Arrow: the rows stay in the JVM, which spares a Python worker per partition.
        table = pa.Table.from_pylist(values, to_arrow_schema(columns))
        frame = spark.createDataFrame(table, columns)
        return Delivery(Token(pipeline, generation, epoch, batch), frame, frame.schema)

    return make


@pytest.fixture
def crashing_at() -> Crashing:
    """Crash whatever reaches a step: `with crashing_at("files.staged"): …`."""

    @contextmanager
    def crashing(step: str) -> Iterator[None]:
        def observer(reached: str, _subject: str) -> None:
            if reached == step:
                raise Crash(step)

        failpoints.observe(observer)
        try:
            with pytest.raises(Crash):
                yield
        finally:
            failpoints.observe(None)

    return crashing
