"""The terminal as a sink."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from holdfast.config.sinks import ConsoleSink as Config
from holdfast.errors import SinkUnavailable
from holdfast.spark.sinks.console import ConsoleSink
from holdfast.spark.sinks.contract import Delivery
from holdfast.spark.sinks.opening import open_sink
from holdfast.testing.sinks import PIPELINE, token

pytestmark = pytest.mark.spark


def sink_for(spark: SparkSession, rows: int = 20) -> ConsoleSink:
    """A sink that shows some rows."""
    config = Config(name="screen", type="console", rows=rows)
    sink = open_sink(config, pipeline=PIPELINE, spark=spark)
    assert isinstance(sink, ConsoleSink)
    return sink


def test_a_table_is_printed(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A batch is printed as a table, under its token and the number of its rows."""
    frame = spark.sql("select * from values (1, 'tea'), (2, null) t(id, name)")
    sink = sink_for(spark)
    for _ in range(2):
        assert sink.deliver(Delivery(token(3), frame, frame.schema)).rows == 2
    table = "+---+----+\n| id|name|\n+---+----+\n|  1| tea|\n|  2|NULL|\n+---+----+\n"
    assert capsys.readouterr().out == 2 * f"screen  shop/1/3  2 rows\n{table}"
    assert sink.guarantee == "at_least_once"


def test_only_the_first_rows_are_printed(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a long batch the first rows are shown, and that they are the first is said."""
    frame = spark.range(1000)
    assert sink_for(spark, rows=2).deliver(Delivery(token(0), frame, frame.schema)).rows == 1000
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "screen  shop/1/0  1000 rows, the first 2"
    assert len(printed) == 7


def test_an_empty_batch_is_one_line(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch without rows is told without a table."""
    frame = spark.range(0)
    sink_for(spark).deliver(Delivery(token(0), frame, frame.schema))
    assert capsys.readouterr().out == "screen  shop/1/0  0 rows\n"


def test_a_terminal_that_is_gone(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory
) -> None:
    """Output that was closed makes the sink unavailable, not the program crash."""
    with open(f"{tmp_path}/out", "w", encoding="ascii") as output:  # noqa: PTH123
        monkeypatch.setattr("sys.stdout", output)
        frame = spark.sql("select '☕' name")
        delivery = Delivery(token(0), frame, frame.schema)
        sink_for(spark).deliver(delivery)
    with pytest.raises(SinkUnavailable, match="the terminal cannot be written to"):
        sink_for(spark).deliver(delivery)
