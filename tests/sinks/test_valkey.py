"""Hashes and streams in a real Valkey server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import valkey
from pyspark.sql import SparkSession

from holdfast.config.sinks import ValkeySink as Config
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.spark.sinks.contract import Delivery, Receipt
from holdfast.spark.sinks.valkey import ValkeySink
from holdfast.testing.sinks import PIPELINE, Row, SinkConformance, token

from .valkey_server import PASSWORD, ValkeyServer, running_valkey

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    """One server for all tests of this file."""
    with running_valkey() as running:
        yield running


@pytest.fixture
def client(server: ValkeyServer) -> Iterator[valkey.Valkey]:
    """A client of an empty server."""
    with server.connect() as client:
        client.flushall()
        yield client
        client.config_set("maxmemory", 0)


def config(server: ValkeyServer, mode: str = "hash", key: str = "", **more: Any) -> Config:
    """A sink's configuration; hashes are `order:<id>`, the stream is `orders`."""
    key = key or ("order:{id}" if mode == "hash" else "orders")
    url = more.pop("url", server.url)
    return Config.model_validate(
        {"name": "cache", "type": "valkey", "url": url, "mode": mode, "key": key, **more}
    )


class _Valkey(SinkConformance):
    mode = ""
    secrets = (PASSWORD,)

    @pytest.fixture(autouse=True)
    def _server(self, server: ValkeyServer, client: valkey.Valkey) -> None:
        self.server, self.client = server, client

    def open(self, spark: SparkSession) -> ValkeySink:
        return ValkeySink(config(self.server, self.mode), pipeline=PIPELINE, spark=spark)


class TestHashes(_Valkey):
    """The conformance suite over hashes."""

    mode = "hash"
    keyed = True

    def read(self) -> list[Row]:
        keys: Any = self.client.keys("order:*")
        # A row whose every field is null has no hash in Valkey.
        rows = [(int(key.split(":")[1]), self.client.hget(key, "name")) for key in keys]
        if self.client.exists("order:1") and not self.client.exists("order:2"):
            rows.append((2, None))
        return rows  # type: ignore[return-value]


class TestStream(_Valkey):
    """The conformance suite over a stream."""

    mode = "stream"
    takes_rows_back = True

    def read(self) -> list[Row]:
        entries: Any = self.client.xrange("orders")
        return [(int(fields["id"]), fields.get("name")) for _, fields in entries]


def deliver(
    spark: SparkSession, settings: Config, rows: str, epoch: int = 0, generation: int = 1
) -> Receipt:
    """Deliver what a query finds, through a sink of its own."""
    sink = ValkeySink(settings, pipeline=PIPELINE, spark=spark)
    frame = spark.sql(rows)
    try:
        return sink.deliver(Delivery(token(epoch, generation), frame, frame.schema))
    finally:
        sink.close()


def test_values_are_texts(spark: SparkSession, server: ValkeyServer, client: valkey.Valkey) -> None:
    """Numbers keep every digit, times are UTC to the microsecond, nested values are JSON."""
    query = (
        "select 7 id, 9007199254740993L big, 1.50bd price, true paid, x'00ff' raw,"
        " timestamp'2025-03-15 14:30:00.123456+05:30' at, array(1, 2) lines,"
        " named_struct('a', 1, 'b', cast(null as int)) nested"
    )
    deliver(spark, config(server), query)
    assert client.hgetall("order:7") == {
        "big": "9007199254740993",
        "price": "1.50",
        "paid": "true",
        "raw": "AP8=",
        "at": "2025-03-15T09:00:00.123456Z",
        "lines": "[1,2]",
        "nested": '{"a":1,"b":null}',
    }


def test_a_null_removes_a_field(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """A field that becomes null goes away, and one the batch does not have stays."""
    client.hset("order:1", mapping={"name": "old", "note": "old", "other": "kept"})
    deliver(spark, config(server), "select 1 id, 'new' name, cast(null as string) note")
    assert client.hgetall("order:1") == {"name": "new", "other": "kept"}


def test_a_key_of_several_columns(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """A pattern may have several columns, and of odd names."""
    settings = config(server, key="{a b}-{id}:x")
    deliver(spark, settings, "select 1 id, 'y' `a b`, 2 n")
    assert client.hgetall("y-1:x") == {"n": "2"}


def test_a_stream_is_kept_short(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """With max_length old entries go, about as many as come."""
    settings = config(server, "stream", max_length=100)
    deliver(spark, settings, "select id from range(2000)")
    assert 100 <= client.xlen("orders") <= 400
    ((_, newest),) = client.xrevrange("orders", count=1)  # type: ignore[misc]
    assert newest["_epoch"] == "0"
    assert newest["_sink"] == "shop/cache"


def test_entries_of_others_stay(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """A roll-back deletes the entries of its own pipeline only, among thousands of others."""
    deliver(spark, config(server, "stream"), "select 1 id", epoch=0)
    with client.pipeline() as pipe:
        for n in range(2500):
            pipe.xadd("orders", {"n": n, "_epoch": 9, "_sink": "another/one"})
        pipe.execute()
    deliver(spark, config(server, "stream"), "select id from range(1500)", epoch=1)
    sink = ValkeySink(config(server, "stream"), pipeline=PIPELINE, spark=spark)
    assert sink.roll_back(token(0, 2)) == "1500 entries were deleted from the stream orders."
    sink.close()
    assert client.xlen("orders") == 2501


@pytest.mark.parametrize("mode", ["hash", "stream"])
def test_a_key_of_another_type_changes_nothing(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey, mode: str
) -> None:
    """A key that is something else is found before the first row is written."""
    client.set("order:1999", "a text")
    client.set("orders", "a text")
    with pytest.raises(SinkRefused, match=r"order(s|:1999) is a string in Valkey, not a"):
        deliver(spark, config(server, mode), "select id, 'x' name from range(2000)")
    assert sorted(client.keys()) == ["order:1999", "orders"]  # type: ignore[type-var]


def test_memory_that_is_full_changes_nothing(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """A server without memory takes nothing, and everything once it has some."""
    deliver(spark, config(server), "select 1 id, 'before' name, 'a' note")
    client.config_set("maxmemory", 1)
    query = "select 1 id, 'after' name, cast(null as string) note"
    with pytest.raises(SinkUnavailable, match="maxmemory"):
        deliver(spark, config(server), query, epoch=1)
    assert client.hgetall("order:1") == {"name": "before", "note": "a"}
    client.config_set("maxmemory", 0)
    deliver(spark, config(server), query, epoch=1)
    assert client.hgetall("order:1") == {"name": "after"}
    assert sorted(client.keys()) == ["holdfast:shop:cache", "order:1"]  # type: ignore[type-var]


def test_a_replica_is_not_written(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """A server that became a replica is unavailable, until it is asked again as a primary."""
    client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(SinkUnavailable):
            deliver(spark, config(server), "select 1 id, 'a' name")
    finally:
        client.replicaof("no", "one")
    assert deliver(spark, config(server), "select 1 id, 'a' name").rows == 1


@pytest.mark.parametrize(
    ("settings", "query", "message"),
    [
        ({"key": "order:{nr}"}, "select 1 id, 2 n", "needs the column nr; the batch has id, n"),
        ({}, "select 1 id", "nothing is left for the hash"),
        ({}, "select cast(null as int) id, 2 n", "has no value in one of the columns of its key"),
        ({"url": "valkey://host:port/0"}, "select 1 id, 2 n", "does not lead to a Valkey server"),
        ({"mode": "stream"}, "select 1 id, 2 _epoch", "the column _epoch has the name of a field"),
    ],
)
def test_what_is_refused(
    spark: SparkSession,
    server: ValkeyServer,
    client: valkey.Valkey,
    settings: dict[str, str],
    query: str,
    message: str,
) -> None:
    """What can never work is refused, and nothing is written or left behind."""
    with pytest.raises(SinkRefused, match=message):
        deliver(spark, config(server, **settings), query)
    assert client.keys() == []


def test_servers_that_cannot_be_used(spark: SparkSession, server: ValkeyServer) -> None:
    """A server that is away is tried again, a wrong password is not, and neither is shown it."""
    away = config(server, url=f"valkey://:{PASSWORD}@127.0.0.1:1/0")
    with pytest.raises(SinkUnavailable, match=r"127.0.0.1:1/0 cannot take the batch now") as raised:
        ValkeySink(away, pipeline=PIPELINE, spark=spark).check()
    assert PASSWORD not in str(raised.value)
    wrong = config(server, url=f"valkey://:wr0ng@127.0.0.1:{server.port}/0")
    with pytest.raises(SinkRefused, match="refused the login") as raised_too:
        ValkeySink(wrong, pipeline=PIPELINE, spark=spark).check()
    assert "wr0ng" not in str(raised_too.value)


def test_a_token_that_is_none(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """What somebody else wrote where the token belongs is not taken for one."""
    for text in ("hello", "1/0hello"):
        client.set("holdfast:shop:cache", text)
        with pytest.raises(SinkRefused, match="is no token of Holdfast"):
            deliver(spark, config(server), "select 1 id, 2 n", epoch=5)


def test_the_rows_are_applied_once_by_two_at_a_time(
    spark: SparkSession, server: ValkeyServer, client: valkey.Valkey
) -> None:
    """A second process that staged the same batch meanwhile finds it taken."""
    slow = ValkeySink(config(server, "stream"), pipeline=PIPELINE, spark=spark)
    quick = config(server, "stream")

    # The slow one has looked at the token and staged; then the quick one delivers it all.
    stage = slow._stage

    def overtaken(*arguments: Any) -> int:
        count = stage(*arguments)
        (staged,) = client.keys("*:staged:*")  # type: ignore[misc]
        # Should this process die here, the list goes by itself.
        assert 0 < client.ttl(staged) <= 3600  # type: ignore[operator]
        deliver(spark, quick, "select 1 id")
        return count

    slow._stage = overtaken  # type: ignore[method-assign]
    frame = spark.sql("select 1 id")
    assert slow.deliver(Delivery(token(0), frame, frame.schema)).repeated
    slow.close()
    assert client.xlen("orders") == 1
    assert sorted(client.keys()) == ["holdfast:shop:cache", "orders"]  # type: ignore[type-var]
