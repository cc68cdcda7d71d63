"""What a Kafka client raises, as an error that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.errors import SinkError, SinkRefused, SinkUnavailable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")

_TOPIC = "Create the topic, or correct `topic`."
_LARGE = (
    "Leave such rows out, or raise message.max.bytes in the sink's options and in the topic's "
    "settings."
)
_LOGIN = "Check the sink's security options, and what the brokers' ACLs allow this user."
_OPTIONS = "Check the sink's options."
_NEVER: Final = {
    "MSG_SIZE_TOO_LARGE": _LARGE,
    "RECORD_LIST_TOO_LARGE": _LARGE,
    "UNKNOWN_TOPIC_OR_PART": _TOPIC,
    "_UNKNOWN_TOPIC": _TOPIC,
    "TOPIC_EXCEPTION": _TOPIC,
    "TOPIC_AUTHORIZATION_FAILED": _LOGIN,
    "GROUP_AUTHORIZATION_FAILED": _LOGIN,
    "CLUSTER_AUTHORIZATION_FAILED": _LOGIN,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _LOGIN,
    "SASL_AUTHENTICATION_FAILED": _LOGIN,
    "_AUTHENTICATION": _LOGIN,
    "INVALID_TRANSACTION_TIMEOUT": "Set transaction.timeout.ms in the sink's options to at most "
    "the brokers' transaction.max.timeout.ms.",
    "INVALID_RECORD": "The brokers check what the topic may hold: correct key or value.",
    "POLICY_VIOLATION": "Ask whoever runs the brokers.",
    "INVALID_CONFIG": _OPTIONS,
    "_INVALID_ARG": _OPTIONS,
    "_UNSUPPORTED_FEATURE": "The sink needs brokers with transactions: Kafka 0.11 or newer.",
    "UNSUPPORTED_VERSION": "The sink needs brokers with transactions: Kafka 0.11 or newer.",
}


class Overtaken(SinkRefused):
    """Another producer with the same transactional id has begun."""


def never(error: KafkaError) -> bool:
    """Whether trying again is of no use."""
    return error.name() in _NEVER


@contextmanager
def explained(sink: str, brokers: str) -> Iterator[None]:
    """Say in a sink's words what the client raises inside."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise explain(sink, brokers, error.args[0]) from error


def explain(sink: str, brokers: str, error: KafkaError) -> SinkError:
    """Name an error of the client, or of a broker."""
    name = error.name()
    told = f"{error.str()} ({name})"
    if name in FENCED:
        return Overtaken(
            f"{sink}: another producer has taken over this sink's transactional id: {told}",
            hint="Another run of this pipeline has begun; stop this one. If there is none, the "
            "batch took longer than transaction.timeout.ms: raise it in the sink's options.",
        )
    if never(error):
        return SinkRefused(
            f"{sink}: Kafka at {brokers} refused the batch: {told}", hint=_NEVER[name]
        )
    return SinkUnavailable(
        f"{sink}: Kafka at {brokers} cannot take the batch now: {told}",
        hint="Check that the brokers run and can be reached from here.",
    )
