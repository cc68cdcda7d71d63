"""The cluster inside the Kafka client: it speaks the protocol over sockets, and fails on demand.

It is no broker: it does not hide aborted transactions and does not fence older producers. Topics
come into being when they are written to.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

PRODUCE, METADATA, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TRANSACTION = 0, 3, 22, 24, 26


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """A running cluster of one broker."""

    library: Any
    handle: int
    brokers: str

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        assert not self.library.rd_kafka_mock_topic_create(
            self.handle, topic.encode(), partitions, 1
        )

    def break_topic(self, topic: str, error: int) -> None:
        """Answer every question about a topic with an error."""
        self.library.rd_kafka_mock_topic_set_error(self.handle, topic.encode(), error)

    def fail(self, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with errors."""
        array = (ctypes.c_int * len(errors))(*errors)
        self.library.rd_kafka_mock_push_request_errors_array(
            self.handle, request, len(errors), array
        )

    def stop(self) -> None:
        """Take the broker down."""
        assert not self.library.rd_kafka_mock_broker_set_down(self.handle, 1)

    def start(self) -> None:
        """Bring it up again."""
        assert not self.library.rd_kafka_mock_broker_set_up(self.handle, 1)

    def messages(self, topic: str) -> list[Message]:
        """Read every message of a topic, in the order of partitions and offsets."""
        settings = {"bootstrap.servers": self.brokers, "group.id": "reader", "log_level": 0}
        consumer = Consumer(
            {
                **settings,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )
        try:
            partitions = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            found: list[Message] = []
            while partitions:
                message = consumer.poll(10)
                assert message is not None, "the cluster does not answer"
                if message.error() is None:
                    found.append(message)
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    partitions.remove(message.partition())
            return sorted(found, key=lambda m: (m.partition(), m.offset()))
        finally:
            consumer.close()


@contextmanager
def running_kafka() -> Iterator[KafkaCluster]:
    """Run a cluster of its own for one test."""
    package = Path(confluent_kafka.__file__).parent
    files = list((package.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    if not files:
        reason = "needs the Linux wheel of confluent-kafka, which carries its library"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    library: Any = ctypes.CDLL(str(files[0]))
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    for name, arguments in {
        "rd_kafka_mock_cluster_bootstraps": (),
        "rd_kafka_mock_cluster_destroy": (),
        "rd_kafka_destroy": (),
        "rd_kafka_mock_topic_create": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
        "rd_kafka_mock_topic_set_error": (ctypes.c_char_p, ctypes.c_int),
        "rd_kafka_mock_push_request_errors_array": (
            ctypes.c_int16,
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_int),
        ),
        "rd_kafka_mock_broker_set_down": (ctypes.c_int32,),
        "rd_kafka_mock_broker_set_up": (ctypes.c_int32,),
    }.items():
        getattr(library, name).argtypes = [ctypes.c_void_p, *arguments]
    reason = ctypes.create_string_buffer(512)
    host = library.rd_kafka_new(0, library.rd_kafka_conf_new(), reason, len(reason))
    assert host, reason.value
    cluster = library.rd_kafka_mock_cluster_new(host, 1)
    try:
        brokers = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
        yield KafkaCluster(library, cluster, brokers)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(host)
