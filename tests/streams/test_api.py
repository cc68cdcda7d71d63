"""Streams in Python: described step by step, started, waited for, stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast as hf
from holdfast.errors import ConfigError, PipelineBusy, SinkUnavailable, UsageError
from holdfast.model import Token

from .world import SCHEMA, World

pytestmark = pytest.mark.spark


def described(**options: Any) -> hf.Stream:
    """The stream of the tests, as a user would write it."""
    return hf.stream("pay", format="json", path="events", schema=SCHEMA, **options).limit(
        max_files=1
    )


def test_a_stream_from_a_format(world: World, spark: SparkSession) -> None:
    """Format, path and schema; a sink; one run."""
    world.add()
    world.add()

    result = described().to(hf.sinks.files("lake")).start(once=True, spark=spark).wait()

    assert (result.epochs, result.rows) == (2, 10)
    assert world.lake() == world.expected()


def test_a_stream_from_a_dataframe(world: World, spark: SparkSession) -> None:
    """Whatever Spark streams; started again under its name it goes on."""
    frame = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", "1")
        .json(str(world.root / "events"))
    )
    stream = hf.stream("pay", frame.where("id >= 0")).to(hf.sinks.files("lake"))
    world.add()
    stream.start(once=True).wait()
    world.add()

    assert stream.start(once=True).wait().epochs == 1
    assert world.lake() == world.expected()


def test_transforms_in_order(world: World, spark: SparkSession) -> None:
    """Rows are chosen, then a function has them, then the next."""
    world.add()
    stream = (
        described()
        .where("paise > 0")
        .select("id", "paise")
        .transform(lambda frame: frame.selectExpr("id", "paise + 1 as paise"))
        .transform(lambda frame: frame.selectExpr("id", "paise * 2 as paise"))
        .to(hf.sinks.files("lake"))
    )
    stream.start(once=True, spark=spark).wait()

    assert world.lake("id", "paise") == {(i, (10 * i + 1) * 2): 1 for i in range(1, 5)}


def test_a_function_as_a_sink(world: World, spark: SparkSession) -> None:
    """It gets the rows and the token; the names of unnamed sinks are their types."""
    world.add()
    got: list[tuple[Token, int]] = []

    def count(frame: DataFrame, token: Token) -> None:
        got.append((token, frame.count()))

    stream = described().to(hf.sinks.python(count)).to(hf.sinks.files("lake"))
    stream.start(once=True, spark=spark).wait()

    ((token, rows),) = got
    assert (token.pipeline, token.generation, token.epoch, rows) == ("pay", 1, 0, 5)
    assert [entry["name"] for entry, _ in stream.sinks] == ["python", "files"]


def test_stop_returns_when_the_batch_in_flight_is_committed(
    world: World, spark: SparkSession
) -> None:
    """What was delivered before the stop is committed by the time it returns."""
    world.add()
    query = described().to(hf.sinks.files("lake")).start(spark=spark)
    while not list(world.root.glob("lake/holdfast_epoch=*")):
        assert query.is_active
    result = query.stop()

    assert not query.is_active
    assert result.run.status == "success"
    assert result.rows == 5


def test_what_goes_wrong_is_raised_where_it_is_waited_for(
    world: World, spark: SparkSession
) -> None:
    """The error of the run, not one of a thread."""
    world.add()

    def broken(frame: DataFrame) -> DataFrame:
        raise ValueError("no")

    query = described().transform(broken).to(hf.sinks.files("lake")).start(once=True, spark=spark)
    with pytest.raises(hf.HoldfastError, match="ValueError: no"):
        query.wait()


def test_two_of_one_name_are_refused(world: World, spark: SparkSession) -> None:
    """The second `start` says who has it."""
    world.add()
    stream = described().to(hf.sinks.files("lake"))
    query = stream.start(spark=spark)
    try:
        with pytest.raises(PipelineBusy):
            stream.start(spark=spark)
    finally:
        query.stop()


def test_mistakes_are_all_told_at_once(world: World) -> None:
    """The rules are those of the configuration file."""
    stream = hf.stream("pay", format="parqet", path="events").to(hf.sinks.http("ftp://x"))
    with pytest.raises(ConfigError) as caught:
        stream.start(once=True)
    keys = {problem.key for problem in caught.value.problems}
    assert keys >= {"pipeline.pay.source.format", "pipeline.pay.sinks[0].url"}


def test_a_dataframe_that_is_no_stream_is_refused(spark: SparkSession) -> None:
    """A table does not move."""
    with pytest.raises(UsageError, match="not a stream"):
        hf.stream("pay", spark.range(3))


def test_state_of_sparks_own_is_refused(world: World, spark: SparkSession) -> None:
    """No checkpoint of ours would hold it: a roll-back would not take it back."""
    frame = spark.readStream.schema(SCHEMA).json(str(world.root / "events")).dropDuplicates(["id"])
    query = hf.stream("pay", frame).to(hf.sinks.console())
    with pytest.raises(UsageError, match="Deduplicate"):
        query.start(once=True)


def test_a_join_with_a_table_is_fine(world: World, spark: SparkSession) -> None:
    """A table that stands still needs no state."""
    names = spark.createDataFrame([("m0", "zero")], "merchant string, name string")
    frame = spark.readStream.schema(SCHEMA).json(str(world.root / "events")).join(names, "merchant")
    world.add(4)
    hf.stream("pay", frame).to(hf.sinks.files("lake")).start(once=True).wait()

    assert world.lake("id", "name") == {(0, "zero"): 1, (3, "zero"): 1}


def test_a_sink_may_say_that_it_is_down(world: World, spark: SparkSession) -> None:
    """An optional one that raises gets its batch later."""
    world.add()
    down = [True]
    got: list[int] = []

    def side(frame: DataFrame, token: Token) -> None:
        if down[0]:
            raise SinkUnavailable("not now")
        got.append(token.epoch)

    stream = (
        described()
        .to(hf.sinks.files("lake"))
        .to(hf.sinks.python(side), required=False, retry={"attempts": 1})
    )
    stream.start(once=True, spark=spark).wait()
    down[0] = False
    stream.start(once=True, spark=spark).wait()

    assert got == [0]


def test_a_description_can_be_shared(world: World) -> None:
    """Every step returns a new description and leaves the old one alone."""
    base = described()
    one, other = base.to(hf.sinks.files("a")), base.to(hf.sinks.files("b"))

    assert [json.loads(json.dumps(dict(entry)))["path"] for entry, _ in one.sinks] == ["a"]
    assert [dict(entry)["path"] for entry, _ in other.sinks] == ["b"]
    assert base.sinks == ()


def test_two_sources_in_one_stream(world: World, spark: SparkSession) -> None:
    """Each has a position of its own in the checkpoint, and is gone on from."""
    other = world.root / "other"
    other.mkdir()
    (other / "a.json").write_text('{"id": 100, "merchant": "x", "paise": 1}\n')
    world.add()
    places = (str(world.root / "events"), str(other))
    first, second = (spark.readStream.schema(SCHEMA).json(place) for place in places)
    stream = hf.stream("pay", first.union(second)).to(hf.sinks.files("lake"))
    stream.start(once=True).wait()
    (other / "b.json").write_text('{"id": 101, "merchant": "x", "paise": 1}\n')
    world.add()
    query = stream.start(once=True)
    query.wait()

    ids = {event["id"] for event in world.events} | {100, 101}
    assert world.lake("id") == {(i,): 1 for i in ids}
    assert [(line.entry.version, line.head) for line in query.versions()] == [(2, True), (1, False)]


def test_another_dataframe_under_the_same_name_is_refused(
    world: World, spark: SparkSession
) -> None:
    """Offsets of one source mean nothing to another."""
    world.add()
    other = world.root / "other"
    other.mkdir()
    read = spark.readStream.schema(SCHEMA)
    sinks = hf.sinks.files("lake")
    hf.stream("pay", read.json(str(world.root / "events"))).to(sinks).start(once=True).wait()

    with pytest.raises(UsageError, match="another source"):
        hf.stream("pay", read.json(str(other))).to(sinks).start(once=True).wait()
