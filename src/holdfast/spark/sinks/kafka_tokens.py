"""The last token of every Kafka sink, in a compacted topic.

    holdfast-tokens      key   <transactional id of the sink>
                         value <generation>/<epoch>/<batch>, a roll-back's without the batch

A token is written in the transaction of its rows and read back by a consumer that sees committed
transactions only. The offsets of a consumer group could hold it too, but brokers forget those of
a group that rests for a week.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model import Token
from holdfast.spark.sinks.kafka_errors import never

if TYPE_CHECKING:
    from confluent_kafka import Consumer

LOG = logging.getLogger("holdfast.kafka")
# The client is talkative about brokers that are away; its errors are raised anyway.
LOG.addHandler(logging.NullHandler())

TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted: with the default, a week, a start would read a week's
    # tokens.
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}


class TokenTopic:
    """Finds the last token of one sink."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        topic: str,
        key: str,
        sink: str,
        pipeline: str,
        timeout_s: float,
    ) -> None:
        self.topic = topic
        self.key = key
        self._settings = settings
        self._sink = sink
        self._pipeline = pipeline
        self._timeout_s = timeout_s

    def ensure(self) -> None:
        """Create the topic if it is not there: one partition, compacted."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        with self._consumer("read_committed") as consumer:
            if self._partitions(consumer):
                return
        admin = AdminClient(dict(self._settings), logger=LOG)
        wanted = NewTopic(self.topic, 1, -1, config=TOPIC_SETTINGS)
        (created,) = admin.create_topics([wanted], request_timeout=self._timeout_s).values()
        try:
            # The client itself gives up sooner.
            created.result(2 * self._timeout_s + 5)
        except KafkaException as error:
            reason = error.args[0]
            if reason.name() == "TOPIC_ALREADY_EXISTS":
                return
            raise (SinkRefused if never(reason) else SinkUnavailable)(
                f"{self._sink}: the topic {self.topic}, in which the last token is kept, is not "
                f"there and cannot be created: {reason.str()} ({reason.name()})",
                hint=f"Create it: kafka-topics.sh --create --topic {self.topic} --partitions 1 "
                "--config cleanup.policy=compact",
            ) from error

    def read(self, *, settled: bool) -> Token | None:
        """Return the last committed token.

        `settled` waits until no transaction that is older than the end of the topic is open:
        behind one of another pipeline a token of ours could be hidden.
        """
        last: Token | None = None
        with self._consumer("read_committed") as consumer:
            partitions = self._partitions(consumer)
            ends = self._ends(partitions) if settled else dict.fromkeys(partitions, 0)
            for key, value in self._messages(consumer, ends):
                if key == self.key:
                    found = self._token(value)
                    if found.follows(last):
                        last = found
        return last

    def _messages(self, consumer: Consumer, ends: dict[int, int]) -> Iterator[tuple[str, str]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in ends])
        waiting = set(ends)
        deadline = time.monotonic() + self._timeout_s
        while waiting:
            message = consumer.poll(0.2)
            if message is None:
                if time.monotonic() > deadline:
                    raise SinkUnavailable(
                        f"{self._sink}: the end of the topic {self.topic}, in which the last "
                        "token is kept, was not reached in time.",
                        hint="A transaction of another pipeline may be open; it ends by itself.",
                    )
                continue
            error = message.error()
            if error is None:
                yield _text(message.key()), _text(message.value())
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif (message.offset() or 0) >= ends[message.partition() or 0]:
                waiting.discard(message.partition() or 0)

    def _partitions(self, consumer: Consumer) -> list[int]:
        from confluent_kafka import KafkaError, KafkaException

        found = consumer.list_topics(self.topic, timeout=self._timeout_s).topics[self.topic]
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(found.error)
        return list(found.partitions)

    def _ends(self, partitions: list[int]) -> dict[int, int]:
        from confluent_kafka import TopicPartition

        with self._consumer("read_uncommitted") as consumer:
            ends = {}
            for partition in partitions:
                place = TopicPartition(self.topic, partition)
                marks = consumer.get_watermark_offsets(place, timeout=self._timeout_s)
                if marks is None:
                    raise SinkUnavailable(f"{self._sink}: Kafka did not say where {place} ends.")
                ends[partition] = marks[1]
            return ends

    @contextmanager
    def _consumer(self, isolation: str) -> Iterator[Consumer]:
        from confluent_kafka import Consumer

        own = {
            # Required by the client; nothing is committed under it.
            "group.id": self.key,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # The end of a topic is told by an answer without messages: let it come soon.
            "fetch.wait.max.ms": 20,
        }
        consumer = Consumer({**self._settings, **own}, logger=LOG)
        try:
            yield consumer
        finally:
            consumer.close()

    def _token(self, value: str) -> Token:
        try:
            return Token.parse(f"{self._pipeline}/{value}")
        except ValueError as error:
            raise SinkRefused(
                f"{self._sink}: {self.topic} has a value for {self.key} that is no token of "
                "Holdfast.",
                hint="Something else writes to that topic: keep the tokens in another one, with "
                "holdfast.token.topic in the sink's options.",
            ) from error


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
