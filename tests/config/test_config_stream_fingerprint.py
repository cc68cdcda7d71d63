"""What is remembered of a stream's configuration: without secrets, and without its speed."""

from __future__ import annotations

import json

import pytest
from config_files import SINK, STREAM, Load

from holdfast.config import differences, pipeline_document, source_digest

SECRETS = """
[[pipeline.payments.sinks]]
name = "pg"
type = "postgres"
url = "postgresql://me:${P}@host/db"
table = "orders"

[[pipeline.payments.sinks]]
name = "cache"
type = "valkey"
url = "valkey://:${P}@host/0"
key = "order:{id}"

[[pipeline.payments.sinks]]
name = "hook"
type = "http"
url = "https://hooks.example.com/services/${P}"
headers = { Authorization = "Bearer ${P}", X-Who = "${P}" }

[[pipeline.payments.sinks]]
name = "bus"
type = "kafka"
brokers = "h:9092"
topic = "orders"
options = { sasl.password = "${P}" }
"""
KAFKA = """
[pipeline.payments]
type = "stream"
[pipeline.payments.source]
format = "kafka"
[pipeline.payments.source.options]
kafka.bootstrap.servers = "a:9092,b:9092"
subscribe = "orders,refunds"
"""


def test_secrets_of_sinks_are_told_apart_but_not_stored(load: Load) -> None:
    """A new password changes the document; neither password is anywhere."""
    old, new = (
        pipeline_document(load(STREAM + SECRETS, {"P": word}), "payments")
        for word in ("hunter2", "hunter3")
    )
    assert "hunter" not in json.dumps([old, new])
    assert differences(old, new) == [
        f"pipeline.payments.sinks.{key}: changed (a secret, not shown)"
        for key in (
            "bus.options.sasl.password".replace("sasl.password", '"sasl.password"'),
            "cache.url",
            "hook.url",
            "hook.headers.Authorization",
            "hook.headers.X-Who",
            "pg.url",
        )
    ]


def test_a_change_is_named_by_the_name_of_its_sink(load: Load) -> None:
    """Whoever compares two documents reads which sink moved."""
    old = pipeline_document(load(STREAM + SINK), "payments")
    new = pipeline_document(load(STREAM + SINK + 'format = "orc"\n'), "payments")
    assert differences(old, new) == ['pipeline.payments.sinks.lake.format: was "parquet", is "orc"']


def test_speed_and_order_are_no_part_of_the_document(load: Load) -> None:
    """Limits, retries, retention and the order of the sinks do not change what is delivered."""
    other = SINK.replace('"lake"', '"copy"').replace("lake/", "copy/")
    plain = load(STREAM + SINK + other)
    text = STREAM + 'batch = { max_files = 5, max_ms = 9 }\nsource_retry = { max_delay = "1h" }\n'
    text += "checkpoint = { retain = { min_count = 3 } }\n" + other
    tuned = load(text + SINK + "retry = { attempts = 9 }\n")
    assert pipeline_document(plain, "payments") == pipeline_document(tuned, "payments")


def test_the_commit_policy_is_part_of_the_document(load: Load) -> None:
    """What counts as delivered decides what is delivered."""
    text = STREAM + 'batch = { commit_policy = "all" }\n' + SINK
    old, new = (pipeline_document(load(each), "payments") for each in (STREAM + SINK, text))
    assert differences(old, new) == [
        'pipeline.payments.batch.commit_policy: was "required", is "all"'
    ]


@pytest.mark.parametrize(
    "more",
    [
        "maxOffsetsPerTrigger = 5",
        'kafka.sasl.jaas.config = "x required password=hunter2;"',
        'kafka.ssl.key.password = "hunter2"',
        'startingOffsets = "earliest"',
    ],
)
def test_offsets_survive_what_does_not_select_rows(load: Load, more: str) -> None:
    """Limits and credentials may change under a checkpoint."""
    plain, tuned = (load(text + SINK) for text in (KAFKA, KAFKA + more + "\n"))
    assert source_digest(plain.streams["payments"]) == source_digest(tuned.streams["payments"])


def test_the_order_of_topics_and_brokers_does_not_matter(load: Load) -> None:
    """They are sets."""
    other = KAFKA.replace("a:9092,b:9092", "b:9092, a:9092").replace(
        "orders,refunds", "refunds,orders"
    )
    one, two = (load(text + SINK).streams["payments"] for text in (KAFKA, other))
    assert source_digest(one) == source_digest(two)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"orders,refunds"', '"orders"'),
        ("subscribe =", "subscribePattern ="),
        ("a:9092", "c:9092"),
    ],
)
def test_offsets_of_other_topics_are_other_offsets(load: Load, old: str, new: str) -> None:
    """A checkpoint of one topic says nothing about another."""
    one, two = (load(text + SINK).streams["payments"] for text in (KAFKA, KAFKA.replace(old, new)))
    assert source_digest(one) != source_digest(two)


def test_a_schema_may_change_and_a_path_may_not(load: Load) -> None:
    """The files are what the offsets of a file source count."""
    text = STREAM + SINK
    same = text.replace("id long", "id string")
    others = [
        text.replace('"events"', '"events2"'),
        text.replace('"json"', '"csv"'),
        text.replace('path = "events"', 'path = "events", options = { pathGlobFilter = "*.a" }'),
    ]
    digest = source_digest(load(text).streams["payments"])
    assert source_digest(load(same).streams["payments"]) == digest
    assert digest not in {source_digest(load(other).streams["payments"]) for other in others}


def test_options_of_a_plug_in_count_unless_they_are_limits_or_secrets(load: Load) -> None:
    """Nobody knows what they mean, so that a change is taken seriously."""

    def digest(options: str) -> str:
        source = f'source = {{ format = "x.Bus", options = {{ {options} }} }}\n'
        text = '[pipeline.payments]\ntype = "stream"\n' + source + SINK
        return source_digest(load(text).streams["payments"])

    assert digest("shard = 1") != digest("shard = 2")
    assert digest("shard = 1") == digest('shard = 1, token = "t", maxRowsPerTrigger = 5')
