"""A topic in Kafka, over the protocol: what needs real brokers is not shown here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError
from pyspark.sql import SparkSession

from holdfast.config.sinks import KafkaSink as Config
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.spark.sinks.contract import Delivery, Receipt
from holdfast.spark.sinks.kafka import KafkaSink
from holdfast.testing.sinks import PIPELINE, Row, SinkConformance, token

from .kafka_server import (
    ADD_PARTITIONS,
    END_TRANSACTION,
    INIT_PRODUCER_ID,
    PRODUCE,
    KafkaCluster,
    running_kafka,
)

pytestmark = pytest.mark.spark

SECRET = "tOp-5ecret-0f-the-br0ker"


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    """A cluster with the topics of one test."""
    with running_kafka() as running:
        running.create("orders", partitions=3)
        running.create("holdfast-tokens")
        yield running


def sink_for(cluster: KafkaCluster, spark: SparkSession, **settings: Any) -> KafkaSink:
    """A sink that writes to the topic `orders`, with more or other settings."""
    options = {"socket.timeout.ms": "4000", **settings.pop("options", {})}
    text = {"name": "events", "type": "kafka", "brokers": cluster.brokers, "topic": "orders"}
    config = Config.model_validate({**text, "options": options, **settings})
    return KafkaSink(config, pipeline=PIPELINE, spark=spark)


def deliver(
    spark: SparkSession, sink: KafkaSink, query: str, epoch: int = 0, batch: str = ""
) -> Receipt:
    """Deliver what a query finds."""
    frame = spark.sql(query)
    return sink.deliver(Delivery(token(epoch, batch=batch), frame, frame.schema))


def tokens(cluster: KafkaCluster) -> list[tuple[bytes, bytes]]:
    """What was written to the topic of tokens."""
    return [(m.key(), m.value()) for m in cluster.messages("holdfast-tokens")]


class TestTopic(SinkConformance):
    """The conformance suite over a topic."""

    secrets = (SECRET,)

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster

    def open(self, spark: SparkSession) -> KafkaSink:
        return sink_for(self.cluster, spark, options={"sasl.password": SECRET})

    def read(self) -> list[Row]:
        rows = [json.loads(message.value()) for message in self.cluster.messages("orders")]
        return [(row["id"], row["name"]) for row in rows]


def test_keys_values_and_headers_are_expressions(
    spark: SparkSession, cluster: KafkaCluster
) -> None:
    """Key, value and headers come from the row; a null value is a tombstone."""
    options = {"header.kind": "'order'", "header.raw": "cast(null as binary)"}
    sink = sink_for(
        cluster, spark, key="id + 1", value="if(id = 2, null, to_binary(name))", options=options
    )
    deliver(spark, sink, "select * from values (1, 'ff00'), (2, 'x') t(id, name)")
    found = {m.key(): (m.value(), m.headers()) for m in cluster.messages("orders")}
    headers = [("kind", b"order"), ("raw", None)]
    assert found == {b"2": (b"\xff\x00", headers), b"3": (None, headers)}


def test_the_row_is_json(spark: SparkSession, cluster: KafkaCluster) -> None:
    """By default a message is the row as JSON, every column in it, and has no key."""
    query = "select 1 id, cast(null as int) n, timestamp'2025-03-15 14:30:00.000001Z' at"
    deliver(spark, sink_for(cluster, spark), query)
    (message,) = cluster.messages("orders")
    assert message.key() is None
    assert message.value() == b'{"id":1,"n":null,"at":"2025-03-15T14:30:00.000001Z"}'


def test_the_token_is_kept_in_a_topic(spark: SparkSession, cluster: KafkaCluster) -> None:
    """Tokens are written under the sink's transactional id, among those of others."""
    deliver(spark, sink_for(cluster, spark), "select 1 id", epoch=7, batch="0198-a")
    other = sink_for(cluster, spark, name="other")
    assert not deliver(spark, other, "select 1 id", epoch=3).repeated
    other.roll_back(token(2, generation=2))
    own, another = b"holdfast-shop/events", b"holdfast-shop/other"
    assert tokens(cluster) == [(own, b"1/7/0198-a"), (another, b"1/3"), (another, b"2/2")]
    assert deliver(spark, sink_for(cluster, spark), "select 1 id", epoch=7).repeated


def test_a_value_that_is_no_token(spark: SparkSession, cluster: KafkaCluster) -> None:
    """What somebody else wrote under the key of the token is not taken for one."""
    stranger = sink_for(
        cluster,
        spark,
        topic="holdfast-tokens",
        key="'holdfast-shop/events'",
        value="'hello'",
        options={"holdfast.token.topic": "orders"},
    )
    deliver(spark, stranger, "select 1 id")
    with pytest.raises(SinkRefused, match="is no token of Holdfast"):
        deliver(spark, sink_for(cluster, spark), "select 1 id")


@pytest.mark.parametrize(
    ("request_kind", "error", "raised"),
    [
        (INIT_PRODUCER_ID, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SinkRefused),
        (ADD_PARTITIONS, KafkaError.TOPIC_AUTHORIZATION_FAILED, SinkRefused),
        (PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE, SinkRefused),
        (PRODUCE, KafkaError.INVALID_RECORD, SinkRefused),
    ],
)
def test_what_brokers_refuse(
    spark: SparkSession,
    cluster: KafkaCluster,
    request_kind: int,
    error: int,
    raised: type[Exception],
) -> None:
    """An error that stays is told as one; once it is gone, the same sink delivers the batch."""
    sink = sink_for(cluster, spark)
    cluster.fail(request_kind, error)
    with pytest.raises(raised):
        deliver(spark, sink, "select 1 id")
    assert tokens(cluster) == []
    assert not deliver(spark, sink, "select 1 id").repeated
    assert tokens(cluster) == [(b"holdfast-shop/events", b"1/0")]


@pytest.mark.parametrize("request_kind", [ADD_PARTITIONS, END_TRANSACTION])
def test_a_producer_that_was_fenced_stays_away(
    spark: SparkSession, cluster: KafkaCluster, request_kind: int
) -> None:
    """A process that was overtaken is refused, and does not fence the newer one in turn."""
    sink = sink_for(cluster, spark)
    deliver(spark, sink, "select 1 id", epoch=0)
    cluster.fail(request_kind, KafkaError.PRODUCER_FENCED)
    for _ in range(2):
        with pytest.raises(SinkRefused, match="another producer has taken over"):
            deliver(spark, sink, "select 2 id", epoch=1)


def test_an_older_token_fences_nobody(spark: SparkSession, cluster: KafkaCluster) -> None:
    """A late process sees by the token that it is late, before it starts a producer."""
    deliver(spark, sink_for(cluster, spark), "select 1 id", epoch=5)
    late = sink_for(cluster, spark)
    cluster.fail(INIT_PRODUCER_ID, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(SinkRefused, match="the sink has taken epoch 5 of generation 1"):
        deliver(spark, late, "select 1 id", epoch=4)


def test_errors_that_pass_are_waited_for(spark: SparkSession, cluster: KafkaCluster) -> None:
    """A broker that is busy for a moment is asked again by the client."""
    cluster.fail(PRODUCE, KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster.fail(END_TRANSACTION, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert deliver(spark, sink_for(cluster, spark), "select 1 id").rows == 1
    assert len(cluster.messages("orders")) == 1


def test_a_broker_that_goes_away(spark: SparkSession, cluster: KafkaCluster) -> None:
    """While the broker is down the sink is unavailable; when it is back, the batch goes on."""
    options = {
        "socket.timeout.ms": "1500",
        "delivery.timeout.ms": "1500",
        "reconnect.backoff.max.ms": "200",
        "retry.backoff.max.ms": "200",
    }
    sink = sink_for(cluster, spark, options=options)
    deliver(spark, sink, "select 1 id", epoch=0)
    cluster.stop()
    with pytest.raises(SinkUnavailable, match="cannot take the batch now"):
        deliver(spark, sink, "select 2 id", epoch=1)
    with pytest.raises(SinkUnavailable):
        sink_for(cluster, spark, options=options).check()
    cluster.start()
    assert deliver(spark, sink, "select 2 id", epoch=1).rows == 1
    assert tokens(cluster)[-1] == (b"holdfast-shop/events", b"1/1")


def test_a_topic_that_is_not_there(spark: SparkSession, cluster: KafkaCluster) -> None:
    """A topic that the brokers do not know, and do not create, is told apart from an outage."""
    cluster.break_topic("orders", KafkaError.UNKNOWN_TOPIC_OR_PART)
    options = {
        "topic.metadata.propagation.max.ms": "500",
        "topic.metadata.refresh.interval.ms": "300",
    }
    with pytest.raises(SinkRefused, match="Unknown topic") as raised:
        deliver(spark, sink_for(cluster, spark, options=options), "select 1 id")
    assert "Create the topic" in str(raised.value)


def test_a_topic_of_tokens_that_cannot_be_made(spark: SparkSession, cluster: KafkaCluster) -> None:
    """Without a topic for the tokens nothing is sent, and how to make it is told."""
    options = {"holdfast.token.topic": "elsewhere", "socket.timeout.ms": "1000"}
    sink = sink_for(cluster, spark, options=options)
    sink.check()
    with pytest.raises(SinkUnavailable, match="the topic elsewhere, in which the last") as raised:
        deliver(spark, sink, "select 1 id")
    assert "kafka-topics.sh --create --topic elsewhere" in raised.value.hint
    assert cluster.messages("orders") == []


def test_a_row_that_is_too_large(spark: SparkSession, cluster: KafkaCluster) -> None:
    """A message above message.max.bytes is refused, and the rows before it are given up."""
    sink = sink_for(cluster, spark)
    with pytest.raises(SinkRefused, match="MSG_SIZE_TOO_LARGE"):
        deliver(spark, sink, "select repeat('x', cast(id * 2000000 as int)) s from range(2)")
    assert tokens(cluster) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": "nothing"}, "nothing"),
        ({"value": "id +"}, "Spark cannot make what is sent"),
        ({"options": {"header.a": "no_such_function(id)"}}, "no_such_function"),
        ({"options": {"no.such.option": "1"}}, "no.such.option"),
    ],
)
def test_what_can_never_work(
    spark: SparkSession, cluster: KafkaCluster, settings: dict[str, Any], message: str
) -> None:
    """Expressions and options that make no sense are refused in plain words."""
    with pytest.raises(SinkRefused, match=message):
        deliver(spark, sink_for(cluster, spark, **settings), "select 1 id")
    assert cluster.messages("orders") == []
