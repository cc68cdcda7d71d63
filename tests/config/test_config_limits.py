"""The limits of a batch, in the words of each source."""

from __future__ import annotations

import pytest
from config_files import SINK, Load, Problems

from holdfast.config import BatchLimits, StreamSource, source_options
from holdfast.errors import ConfigError

FILES = StreamSource(format="json", path="in", schema="id long")
KAFKA = StreamSource(
    format="kafka", options={"kafka.bootstrap.servers": "h:9092", "subscribe": "orders"}
)
SOURCES = {
    "json": '{ format = "json", path = "in", schema = "id long", options = { OPTIONS } }',
    "kafka": '{ format = "kafka", options = { subscribe = "a", kafka.bootstrap.servers = "h:1",'
    " OPTIONS } }",
    "rate": '{ format = "rate", options = { OPTIONS } }',
    "rate-micro-batch": '{ format = "rate-micro-batch", options = { OPTIONS } }',
    "delta": '{ format = "delta", path = "in", options = { OPTIONS } }',
    "com.example.Bus": '{ format = "com.example.Bus", options = { OPTIONS } }',
}


def limited(kind: str, batch: str, options: str = "x = 1") -> str:
    """Return a stream of a format with limits and options."""
    source = SOURCES[kind].replace("OPTIONS", options)
    start = f'[pipeline.payments]\ntype = "stream"\nsource = {source}\n'
    return start + f"batch = {{ {batch} }}\n" + SINK


@pytest.mark.parametrize(
    ("source", "batch", "expected"),
    [
        (FILES, {}, {}),
        (FILES, {"max_files": 5}, {"maxFilesPerTrigger": "5"}),
        (FILES, {"max_bytes": "2 KiB"}, {"maxBytesPerTrigger": "2048"}),
        (KAFKA, {}, KAFKA.options),
        (KAFKA, {"max_events": 9}, {**KAFKA.options, "maxOffsetsPerTrigger": "9"}),
        (
            KAFKA,
            {"respect_source_tx": True},
            {**KAFKA.options, "kafka.isolation.level": "read_committed"},
        ),
        (StreamSource(format="rate-micro-batch"), {"max_events": 7}, {"rowsPerBatch": "7"}),
        (
            StreamSource(format="delta", path="in"),
            {"max_files": 5, "max_bytes": 10},
            {"maxFilesPerTrigger": "5", "maxBytesPerTrigger": "10"},
        ),
        (StreamSource(format="x.Y", options={"a": "b"}), {"max_ms": 5}, {"a": "b"}),
    ],
)
def test_limits_become_options(
    source: StreamSource, batch: dict[str, object], expected: dict[str, str]
) -> None:
    """Each limit is written as the source's own option, beside the options it has."""
    assert source_options(source, BatchLimits.model_validate(batch)) == expected


def test_options_that_do_not_fit_are_refused_in_python_too() -> None:
    """Whoever puts a source and limits together without a file meets the same rules."""
    with pytest.raises(ConfigError) as caught:
        source_options(FILES, BatchLimits(max_events=5))
    assert str(caught.value) == (
        "The batch limits do not fit the source:\n"
        '  batch.max_events: format "json" cannot limit a batch this way;'
        " use max_files or max_bytes"
    )
    twice = StreamSource(format="rate-micro-batch", options={"rowsperbatch": "5"})
    with pytest.raises(ConfigError, match="is given twice"):
        source_options(twice, BatchLimits(max_events=5))


@pytest.mark.parametrize(
    ("kind", "limit", "instead"),
    [
        ("json", "max_events", "use max_files or max_bytes"),
        ("delta", "max_events", "use max_files or max_bytes"),
        ("kafka", "max_files", "use max_events"),
        ("kafka", "max_bytes", "use max_events"),
        (
            "rate",
            "max_events",
            "give source.options.rowsPerSecond, or use the format rate-micro-batch",
        ),
        (
            "com.example.Bus",
            "max_events",
            "give the source's own option for it in source.options",
        ),
    ],
)
def test_a_limit_the_source_cannot_take_names_those_it_can(
    problems: Problems, kind: str, limit: str, instead: str
) -> None:
    """Nothing is silently without effect."""
    assert problems(limited(kind, f"{limit} = 5")) == [
        f'pipeline.payments.batch.{limit}: format "{kind}" cannot limit a batch this way; {instead}'
    ]


@pytest.mark.parametrize("kind", ["json", "delta", "rate"])
def test_only_kafka_knows_transactions(problems: Problems, load: Load, kind: str) -> None:
    """Elsewhere the promise could not be kept; not asking for it is always allowed."""
    assert problems(limited(kind, "respect_source_tx = true")) == [
        f'pipeline.payments.batch.respect_source_tx: format "{kind}" does not say where a'
        ' transaction ends; only "kafka" does'
    ]
    assert load(limited(kind, "respect_source_tx = false")).streams


@pytest.mark.parametrize(
    ("kind", "batch", "option"),
    [
        ("json", "max_files = 5", "maxfilesPerTrigger"),
        ("json", "max_bytes = 5", "maxBytesPerTrigger"),
        ("kafka", "max_events = 5", "maxOffsetsPerTrigger"),
        ("kafka", "respect_source_tx = true", "kafka.isolation.level"),
        ("rate-micro-batch", "max_events = 5", "rowsPerBatch"),
    ],
)
def test_a_limit_is_given_once(problems: Problems, kind: str, batch: str, option: str) -> None:
    """Of a limit and an option that say the same neither is chosen silently."""
    limit = batch.split(maxsplit=1)[0]
    assert problems(limited(kind, batch, f'"{option}" = 6')) == [
        f"pipeline.payments.batch.{limit}: is given twice: source.options has {option}; keep one"
        " of them"
    ]


@pytest.mark.parametrize(
    ("batch", "options", "key"),
    [
        ("max_files = 5, max_bytes = 6", "x = 1", "batch.max_bytes"),
        ("max_files = 5", "maxBytesPerTrigger = 6", "batch.max_files"),
        (
            "max_ms = 5",
            "maxBytesPerTrigger = 6, maxFilesPerTrigger = 6",
            "source.options.maxBytesPerTrigger",
        ),
    ],
)
def test_files_are_limited_in_one_way(
    problems: Problems, batch: str, options: str, key: str
) -> None:
    """Spark refuses the two limits together, once the pipeline runs."""
    assert problems(limited("json", batch, options)) == [
        f"pipeline.payments.{key}: Spark takes a limit of files or of bytes, not both; keep one of"
        " them"
    ]


def test_rate_micro_batch_needs_the_number_of_rows(problems: Problems, load: Load) -> None:
    """It has no default in Spark."""
    assert problems(limited("rate-micro-batch", "max_ms = 5")) == [
        'pipeline.payments.batch.max_events: this key is missing; format "rate-micro-batch" needs'
        " the number of rows of a batch"
    ]
    assert load(limited("rate-micro-batch", "max_events = 5")).streams
    assert load(limited("rate-micro-batch", "max_ms = 5", "rowsPerBatch = 5")).streams
