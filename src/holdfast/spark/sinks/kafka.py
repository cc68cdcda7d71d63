"""A topic in Kafka, each batch in one transaction together with its token.

The transactional id is `holdfast-<pipeline>/<sink>`: a process that begins ends the transactions
of the one before it. Readers with `isolation.level = read_committed` see a batch whole, once, or
not at all; others also see batches that were given up.

Beside those of the client (librdkafka) the sink's options may have `header.<name>`, a Spark SQL
expression for a header, `holdfast.token.topic` (by default `holdfast-tokens`), where the last
token is kept, and a `transactional.id` of one's own.

Verified against the protocol mock inside the client, not against a broker: rows and token in a
committed transaction, the token read back, how errors are told. What the mock cannot show, and
only brokers do: that an aborted transaction is invisible, that an older producer is fenced, and
that the topic of tokens is created when it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from holdfast.config.sinks import KafkaSink as KafkaSinkConfig
from holdfast.errors import SinkRefused
from holdfast.model import Guarantee, Token
from holdfast.spark.sinks.collecting import as_text, chunks, fetch, rendering, row_as_json
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.kafka_errors import Overtaken, explain, explained
from holdfast.spark.sinks.kafka_tokens import LOG, TokenTopic
from holdfast.spark.sinks.refusals import repeated, rolled_back

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

_CHUNK_ROWS = 1000
_HEADER = "header."
_PURGED = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")


class KafkaSink(Sink):
    """Produces one message per row."""

    def __init__(self, config: KafkaSinkConfig, *, pipeline: str, spark: SparkSession) -> None:
        del spark
        super().__init__(config.name)
        self._config = config
        self._pipeline = pipeline
        options = dict(config.options)
        self._headers = {
            name.removeprefix(_HEADER): options.pop(name)
            for name in config.options
            if name.startswith(_HEADER)
        }
        self._token_topic = options.pop("holdfast.token.topic", "holdfast-tokens")
        self._id = options.pop("transactional.id", f"holdfast-{pipeline}/{config.name}")
        self._settings: dict[str, Any] = {**options, "bootstrap.servers": config.brokers}
        self._timeout_s = self._seconds("socket.timeout.ms", 30)
        self._producer: Producer | None = None
        self._last: Token | None = None
        self._overtaken: Overtaken | None = None

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once"

    @property
    def description(self) -> str:
        return f"the topic {self._config.topic} in Kafka at {self._config.brokers}"

    @property
    def takes_back(self) -> str:
        return (
            f"Messages in {self._config.topic} stay: Kafka takes nothing back, and the epochs "
            "that are run again are sent again."
        )

    def check(self) -> None:
        with self._explained():
            self._tokens().read(settled=False)

    def deliver(self, delivery: Delivery) -> Receipt:
        columns = self._columns(delivery.frame, delivery.schema)
        with self._explained():
            producer = self._open(delivery.token)
            if repeated(self.name, delivery.token, self._last, after=delivery.after):
                return Receipt(rows=None, repeated=True)
            with self._transaction(producer, delivery.token) as failures:
                return Receipt(rows=self._send(producer, delivery.frame, columns, failures))

    def roll_back(self, to: Token) -> str:
        with self._explained():
            producer = self._open(to)
            if not rolled_back(self.name, to, self._last):
                with self._transaction(producer, to):
                    pass
        return self.takes_back

    def close(self) -> None:
        # Nothing is in flight: a transaction ends before `deliver` returns.
        self._producer = None
        self._last = None

    def _open(self, token: Token) -> Producer:
        if self._overtaken is not None:
            raise self._overtaken
        if self._producer is None:
            from confluent_kafka import Producer

            tokens = self._tokens()
            tokens.ensure()
            # Before the next line ends the transactions of whoever overtook this process.
            repeated(self.name, token, tokens.read(settled=False))
            own = {
                "transactional.id": self._id,
                "transaction.timeout.ms": 300_000,
                "delivery.timeout.ms": 120_000,
                "linger.ms": 20,
            }
            producer = Producer({**own, **self._settings}, logger=LOG)
            producer.init_transactions(self._timeout_s)
            self._last = tokens.read(settled=True)
            self._producer = producer
        return self._producer

    @contextmanager
    def _transaction(self, producer: Producer, token: Token) -> Iterator[list[KafkaError]]:
        """Commit what is produced inside together with the token, or give it all up.

        Yields a list in which messages that were not delivered leave their errors.
        """
        from confluent_kafka import KafkaException

        failures: list[KafkaError] = []
        try:
            producer.begin_transaction()
            yield failures
            # The token waits until the rows are there: an open transaction in its topic keeps
            # every other pipeline that starts from reading it.
            if producer.flush(self._seconds("delivery.timeout.ms", 120)) and not failures:
                raise KafkaException(_timed_out())
            self._raise_first(producer, failures)
            producer.produce(self._token_topic, token.short, self._id)
            producer.commit_transaction(self._timeout_s)
        except BaseException:
            # Whether a commit that was not answered took place, the next producer finds out.
            self._producer = None
            with suppress(KafkaException):
                producer.purge()
                producer.abort_transaction(self._timeout_s)
            raise
        self._last = token

    def _send(
        self,
        producer: Producer,
        frame: DataFrame,
        columns: list[Column],
        failures: list[KafkaError],
    ) -> int:
        topic, names = self._config.topic, list(self._headers)

        def report(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failures.append(error)

        count = 0
        for chunk in chunks(fetch(frame, columns, sink=self.name), _CHUNK_ROWS):
            for key, value, *rest in chunk:
                headers = list(zip(names, rest, strict=True))
                while True:
                    try:
                        producer.produce(topic, value, key, headers=headers, on_delivery=report)
                        break
                    except BufferError:
                        # The client's queue is full; let it send.
                        producer.poll(0.1)
                        self._raise_first(producer, failures)
            producer.poll(0)
            self._raise_first(producer, failures)
            count += len(chunk)
        return count

    def _raise_first(self, producer: Producer, failures: list[KafkaError]) -> None:
        if failures:
            if failures[0].name() in _PURGED:
                # The transaction had failed before: asked to commit, the client says why.
                producer.commit_transaction(self._timeout_s)
            raise explain(self.name, self._config.brokers, failures[0])

    def _columns(self, frame: DataFrame, schema: StructType) -> list[Column]:
        """Key, value and headers, each a text or bytes."""
        key, value = self._config.key, self._config.value
        wanted = [
            F.lit(None).cast("string") if key is None else F.expr(key),
            row_as_json(schema) if value is None else F.expr(value),
            *(F.expr(header) for header in self._headers.values()),
        ]
        with rendering(self.name):
            named = [column.alias(f"_{n}") for n, column in enumerate(wanted)]
            types = frame.select(*named).schema
        return [
            column if isinstance(field.dataType, BinaryType) else as_text(column, field.dataType)
            for column, field in zip(wanted, types.fields, strict=True)
        ]

    def _tokens(self) -> TokenTopic:
        return TokenTopic(
            self._settings,
            topic=self._token_topic,
            key=self._id,
            sink=self.name,
            pipeline=self._pipeline,
            timeout_s=self._timeout_s,
        )

    def _seconds(self, option: str, default: float) -> float:
        text = self._config.options.get(option)
        try:
            return default if text is None else max(1, int(text)) / 1000
        except ValueError as error:
            raise SinkRefused(
                f"{self.name}: {option} is not a number of milliseconds: {text}",
                hint="Correct it in the sink's options.",
            ) from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            import confluent_kafka  # noqa: F401
        except ImportError as error:
            raise SinkRefused(
                f"{self.name}: the client for Kafka is not installed.",
                hint="Install the extra `kafka` of Holdfast, or: pip install confluent-kafka",
            ) from error
        try:
            with explained(self.name, self._config.brokers):
                yield
        except Overtaken as error:
            # Beginning again would in turn end the transactions of the newer process.
            self._overtaken = error
            raise


def _timed_out() -> KafkaError:
    from confluent_kafka import KafkaError

    return KafkaError(KafkaError._TIMED_OUT, "messages were not acknowledged in time")
