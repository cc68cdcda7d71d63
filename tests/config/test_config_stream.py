"""Pipelines of type `stream`: the source, the transforms, the policy, the checkpoint."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from config_files import COMPLETE, SINK, STREAM, Load, Problems

from holdfast.config import (
    ConsoleSink,
    ReplicatePipeline,
    StreamPipeline,
    StreamSource,
)
from holdfast.errors import UsageError

OPTIONAL = SINK.replace("lake", "copy") + "required = false\n"
KAFKA = '{ format = "kafka", options = { kafka.bootstrap.servers = "h:9092", subscribe = "a" } }'


def with_source(source: str) -> str:
    """Return a complete stream with another source."""
    return f'[pipeline.payments]\ntype = "stream"\nsource = {source}\n' + SINK


def test_a_small_stream_gets_every_default(load: Load, tmp_path: Path) -> None:
    """A source and a sink are enough."""
    payments = load(STREAM + SINK).stream_named("payments")
    assert payments.source.path == str(tmp_path / "events")
    assert payments.source.schema_ddl == "id long, ts timestamp"
    assert payments.batch.commit_policy == "required"
    assert payments.batch.max_inflight == 1
    assert payments.sinks[0].required
    assert payments.checkpoint.location == str(tmp_path / ".holdfast/checkpoints")
    assert payments.checkpoint.retain.min_count == 100
    assert payments.checkpoint.retain.min_age == timedelta(hours=1)
    assert payments.source_retry.give_up_after is None
    assert payments.on_schema_change == "refuse"


def test_both_kinds_live_in_one_file(load: Load) -> None:
    """Each pipeline is what its type says."""
    config = load(COMPLETE + STREAM + SINK)
    assert list(config.pipeline) == ["bronze", "payments"]
    assert list(config.replications) == ["bronze"]
    assert list(config.streams) == ["payments"]
    assert isinstance(config.pipeline_named("bronze"), ReplicatePipeline)
    assert isinstance(config.pipeline_named("payments"), StreamPipeline)
    assert config.replicate_named("bronze") is config.pipeline["bronze"]
    assert config.stream_named("payments") is config.pipeline["payments"]


def test_the_wrong_kind_is_named(load: Load) -> None:
    """A command for the other kind of pipeline says which kind this one is."""
    config = load(COMPLETE + STREAM + SINK)
    with pytest.raises(UsageError, match=r"^payments is a stream pipeline: ") as one:
        config.replicate_named("payments")
    assert "holdfast checkpoint list payments" in one.value.hint
    with pytest.raises(UsageError, match=r"^bronze is a replicate pipeline: ") as other:
        config.stream_named("bronze")
    assert "holdfast state show" in other.value.hint
    with pytest.raises(UsageError, match="There is no pipeline paymnts") as missing:
        config.stream_named("paymnts")
    assert missing.value.hint == "Did you mean payments?"


def test_a_missing_type_does_not_hide_other_mistakes(problems: Problems) -> None:
    """Which kind was meant is plain from the other keys."""
    text = (STREAM + SINK).replace('type = "stream"\n', "on_schema_change = 5\n")
    assert problems(text) == [
        'pipeline.payments.on_schema_change: found 5, expected "refuse" or "continue"',
        'pipeline.payments.type: this key is missing; expected "replicate" or "stream"',
    ]


def test_a_pipeline_that_could_be_either_lacks_only_its_type(problems: Problems) -> None:
    """Nothing is said about keys as long as the kind is not known."""
    text = '[pipeline.x]\nsource = { format = "nonsense" }\n'
    assert problems(text) == [
        'pipeline.x.type: this key is missing; expected "replicate" or "stream"'
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'type = "strem"',
            'type: found "strem", expected "replicate" or "stream" (did you mean "stream"?)',
        ),
        ('tpye = "stream"', "tpye: unknown key (did you mean type?)"),
        ("type = 5", 'type: found 5, expected "replicate" or "stream"'),
        ('type = "zzz"', 'type: found "zzz", expected "replicate" or "stream"'),
    ],
)
def test_a_wrong_type_is_one_mistake(problems: Problems, line: str, said: str) -> None:
    """A misspelt type, and a misspelt key for it, are answered with what was meant."""
    text = (STREAM + SINK).replace('type = "stream"', line)
    assert problems(text) == [f"pipeline.payments.{said}"]


def test_a_type_may_come_from_the_environment(load: Load) -> None:
    """It is a text like every other."""
    text = (STREAM + SINK).replace('"stream"', '"${T}"').replace('"files"', '"${S}"')
    assert load(text, {"T": "stream", "S": "files"}).streams


def test_every_mistake_of_a_stream_is_reported_at_once(problems: Problems) -> None:
    """One run shows all there is to correct, with plain keys and in the order of the file."""
    text = """
[pipeline.payments]
type = "stream"
source = { format = "jsn", path = "events" }
selct = []
python = "clean"
[pipeline.payments.batch]
commit_policy = "qorum"
max_bytes = "5 apples"
[[pipeline.payments.sinks]]
name = "my lake"
type = "fils"
[[pipeline.payments.sinks]]
name = "pg"
type = "postgres"
url = "postgresql://me:hunter2@host/db"
mode = "upsert"
"""
    assert problems(text) == [
        'pipeline.payments.source.format: found "jsn", expected the name of a Spark streaming'
        ' format (did you mean "json"?)',
        "pipeline.payments.selct: unknown key (did you mean select?)",
        "pipeline.payments.selct: found an empty list, expected a list of SQL expressions, for"
        ' example ["merchant", "paise / 100 as rupees"]',
        'pipeline.payments.python: found "clean", expected "module:function", for example'
        ' "shop.payments:clean"',
        'pipeline.payments.batch.commit_policy: found "qorum", expected "all", "required" or'
        ' "quorum" (did you mean "quorum"?)',
        'pipeline.payments.batch.max_bytes: found "5 apples", expected a size such as "500 MB",'
        ' "1 GiB" or a number of bytes',
        'pipeline.payments.sinks[0].name: found "my lake", expected a name made of letters,'
        " digits, _ and -",
        'pipeline.payments.sinks[0].type: found "fils", expected "files", "delta", "postgres",'
        ' "valkey", "kafka", "http", "console" or "python" (did you mean "files"?)',
        "pipeline.payments.sinks[0].path: this key is missing; expected the directory the epochs"
        " are written below",
        'pipeline.payments.sinks[1].key: this key is missing; mode "upsert" needs the columns that'
        ' identify a row, for example key = ["id"]',
        "pipeline.payments.sinks[1].table: this key is missing; expected the table, for example"
        ' "public.orders"',
    ]


# The source


@pytest.mark.parametrize("kind", ["csv", "JSON", "parquet", "orc", "avro", "xml"])
def test_files_need_a_path_and_a_schema(problems: Problems, kind: str) -> None:
    """Spark does not guess the columns of a stream."""
    lowered = kind.lower()
    unknown, missing = problems(with_source(f'{{ format = "{kind}" }}'))
    assert missing == (
        f'pipeline.payments.source.path: this key is missing; format "{lowered}" needs the'
        " directory of the files"
    )
    assert unknown == (
        "pipeline.payments.source.schema: this key is missing; a stream needs to know its columns"
        ' beforehand, for example schema = "id long, ts timestamp" (or set'
        " spark.sql.streaming.schemaInference = true in [spark] conf)"
    )


@pytest.mark.parametrize(
    "conf",
    ['"spark.sql.streaming.schemaInference" = true', "spark.sql.streaming.schemaInference = true"],
)
def test_spark_may_be_told_to_infer_columns(load: Load, conf: str) -> None:
    """With Spark's own setting no schema is needed, however it is written."""
    text = f"[spark.conf]\n{conf}\n" + with_source('{ format = "json", path = "in" }')
    assert load(text).stream_named("payments").source.schema_ddl is None


def test_inference_switched_off_is_no_inference(problems: Problems) -> None:
    """`false` is not `true`, and an option of the reader is no setting of the session."""
    source = '{ format = "csv", path = "in", options = { inferSchema = true } }'
    text = '[spark.conf]\n"spark.sql.streaming.schemaInference" = false\n' + with_source(source)
    [problem] = problems(text)
    assert problem.startswith("pipeline.payments.source.schema: this key is missing;")


@pytest.mark.parametrize(
    "source",
    [
        '{ format = "TEXT", path = "in" }',
        '{ format = "rate" }',
        '{ format = "delta", path = "in" }',
        '{ format = "com.example.Mainframe", options = { host = "h" } }',
        KAFKA,
    ],
)
def test_other_sources_need_no_schema(load: Load, source: str) -> None:
    """They bring their own columns; plug-ins know best what they need."""
    assert load(with_source(source)).streams


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("jdbc", 'cannot be streamed; copy it with a pipeline of type = "replicate"'),
        (
            "table",
            'cannot be streamed; copy it with a pipeline of type = "replicate",'
            " or name the format and path of its files",
        ),
        ("socket", "cannot be a source: what it sent cannot be read again after a crash"),
        ("memory", "cannot be read again after a crash"),
    ],
)
def test_what_cannot_be_streamed_says_why(problems: Problems, kind: str, reason: str) -> None:
    """A format that Spark cannot stream, or not twice, is refused with a way out."""
    assert problems(with_source(f'{{ format = "{kind}" }}')) == [
        f'pipeline.payments.source.format: "{kind}" {reason}'
    ]


def test_kafka_needs_brokers_and_topics(problems: Problems) -> None:
    """The two options without which Spark cannot start are asked for."""
    assert problems(with_source('{ format = "kafka", path = "x" }')) == [
        'pipeline.payments.source.path: has no meaning with format "kafka"',
        'pipeline.payments.source.options."kafka.bootstrap.servers": this key is missing; format'
        ' "kafka" needs it, for example "host:9092"',
        'pipeline.payments.source.options.subscribe: this key is missing; format "kafka" needs the'
        " topics in one of subscribe, subscribePattern and assign",
    ]


def test_kafka_topics_are_named_in_one_way(problems: Problems) -> None:
    """Spark takes one of three options."""
    source = KAFKA.replace("subscribe =", 'SubscribePattern = "b.*", subscribe =')
    assert problems(with_source(source)) == [
        "pipeline.payments.source.options.SubscribePattern: give either subscribe or"
        " SubscribePattern, not both"
    ]


def test_the_path_is_not_an_option(problems: Problems) -> None:
    """One place says where the files are."""
    source = '{ format = "text", path = "in", options = { Path = "out" } }'
    assert problems(with_source(source)) == [
        "pipeline.payments.source.options.Path: cannot be set here; use the key `path`"
    ]


# Transforms


@pytest.mark.parametrize("key", ["where", "select"])
def test_a_query_stands_alone(problems: Problems, key: str) -> None:
    """`sql` says all that `select` and `where` could."""
    value = '"id > 0"' if key == "where" else '["id"]'
    assert problems(STREAM + f'sql = "select * from batch"\n{key} = {value}\n' + SINK) == [
        f"pipeline.payments.{key}: give either `sql` or `select` and `where`, not both"
    ]


@pytest.mark.parametrize("name", ["clean", "shop:", ":clean", "shop/pay:clean", "a b:c", "a:b()"])
def test_a_function_is_module_and_name(problems: Problems, name: str) -> None:
    """Anything else could not be imported."""
    [problem] = problems(STREAM + f'python = "{name}"\n' + SINK)
    assert problem.startswith(f'pipeline.payments.python: found "{name}", expected "module:func')


def test_transforms_are_kept_as_they_are_written(load: Load) -> None:
    """Spark reads the expressions, Holdfast does not."""
    text = STREAM + 'where = "id > 0"\nselect = ["id"]\npython = "shop.payments:clean"\n' + SINK
    payments = load(text).stream_named("payments")
    assert (payments.where, payments.select) == ("id > 0", ("id",))
    assert payments.python == "shop.payments:clean"


def test_operators_are_refused_once(problems: Problems) -> None:
    """The keys of what is not available yet are not looked at."""
    text = STREAM + SINK + "[[pipeline.payments.operators]]\nname = 5\nnonsense = []\n"
    assert problems(text) == ["pipeline.payments.operators: is not available in this version"]


# Commit policy


def test_spark_runs_one_batch_at_a_time(problems: Problems, load: Load) -> None:
    """Only 1 can be promised."""
    assert problems(STREAM + "batch = { max_inflight = 2 }\n" + SINK) == [
        "pipeline.payments.batch.max_inflight: cannot be more than 1: Spark runs one micro-batch"
        " at a time"
    ]
    assert load(STREAM + "batch = { max_inflight = 1 }\n" + SINK).streams


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (
            '{ commit_policy = "quorum" }',
            'this key is missing; commit_policy "quorum" needs the number of sinks that must have'
            " a batch",
        ),
        (
            '{ commit_policy = "all", quorum = 1 }',
            'has no meaning with commit_policy "all"; use commit_policy = "quorum"',
        ),
        (
            "{ quorum = 1 }",
            'has no meaning with commit_policy "required"; use commit_policy = "quorum"',
        ),
        (
            '{ commit_policy = "quorum", quorum = 3 }',
            "found 3, but the pipeline has 2 sinks",
        ),
        (
            '{ commit_policy = "quorum", quorum = 0 }',
            "found 0, expected a whole number of at least 1",
        ),
    ],
)
def test_a_quorum_fits_the_policy_and_the_sinks(problems: Problems, batch: str, said: str) -> None:
    """It is needed with one policy, refused with the others, and can be reached."""
    text = STREAM + f"batch = {batch}\n" + SINK + OPTIONAL
    assert problems(text) == [f"pipeline.payments.batch.quorum: {said}"]


def test_a_quorum_counts_the_required_sinks(problems: Problems, load: Load) -> None:
    """A number below theirs would promise less than they do."""
    both = SINK + OPTIONAL.replace("required = false", "required = true")
    policy = 'batch = { commit_policy = "quorum", quorum = 1 }\n'
    assert problems(STREAM + policy + both) == [
        "pipeline.payments.batch.quorum: found 1, but 2 sinks must have every batch"
        " (required = true)"
    ]
    assert load(STREAM + policy + SINK + OPTIONAL).streams


def test_something_must_hold_the_checkpoint_back(problems: Problems, load: Load) -> None:
    """With no required sink every batch would count as delivered."""
    assert problems(STREAM + OPTIONAL) == [
        "pipeline.payments.batch.commit_policy: no sink is required, so that nothing would hold a"
        ' checkpoint back; make one required, or use commit_policy = "quorum"'
    ]
    text = STREAM + 'batch = { commit_policy = "quorum", quorum = 1 }\n' + OPTIONAL
    assert load(text).streams


@pytest.mark.parametrize("line", ['on_failure = "spool"', 'spool = { max_bytes = "1 MB" }'])
def test_a_required_sink_has_no_spool(problems: Problems, line: str) -> None:
    """The pipeline waits for it: what would happen otherwise cannot be chosen."""
    key = line.split(maxsplit=1)[0]
    assert problems(STREAM + SINK + line + "\n") == [
        f"pipeline.payments.sinks[0].{key}: has no meaning for a sink that is required: the"
        " pipeline waits for it; add required = false, or remove it"
    ]


def test_with_policy_all_no_sink_has_a_spool(problems: Problems, load: Load) -> None:
    """Every sink is waited for, also an optional one."""
    text = STREAM + 'batch = { commit_policy = "all" }\n' + SINK + OPTIONAL
    assert load(text).streams
    assert problems(text + 'on_failure = "drop"\n') == [
        'pipeline.payments.sinks[1].on_failure: has no meaning with commit_policy "all": the'
        " pipeline waits for every sink"
    ]


# Checkpoints and retries


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "abfss", "s3a"])
def test_checkpoints_are_on_this_machine(problems: Problems, scheme: str) -> None:
    """Object stores are refused by name, without the rest of the address."""
    text = STREAM + SINK + f'[pipeline.payments.checkpoint]\nlocation = "{scheme}://b/p"\n'
    assert problems(text) == [
        f"pipeline.payments.checkpoint.location: {scheme}:// is not available in this version;"
        " use a directory on this machine"
    ]


def test_the_synchronisation_of_checkpoints_is_refused_once(problems: Problems) -> None:
    """A table of a later version is one mistake."""
    text = STREAM + SINK + '[pipeline.payments.checkpoint.sync]\nbucket = "s3://b"\n'
    assert problems(text) == ["pipeline.payments.checkpoint.sync: is not available in this version"]


def test_checkpoints_are_retained_by_number_and_age(load: Load, tmp_path: Path) -> None:
    """Both are settings of their own."""
    text = STREAM + SINK + '[pipeline.payments.checkpoint]\nlocation = "var/cp"\n'
    text += 'retain = { min_count = 3, min_age = "2 days" }\nfail_if_no_checkpoint = true\n'
    checkpoint = load(text).stream_named("payments").checkpoint
    assert checkpoint.location == str(tmp_path / "var/cp")
    assert (checkpoint.retain.min_count, checkpoint.retain.min_age) == (3, timedelta(days=2))
    assert checkpoint.fail_if_no_checkpoint


def test_delays_grow(problems: Problems) -> None:
    """A longest delay below the first is a mistake, also against the default."""
    text = STREAM + 'source_retry = { max_delay = "500 ms" }\n' + SINK
    text += 'retry = { first_delay = "1 minute" }\n'
    assert problems(text) == [
        "pipeline.payments.source_retry.max_delay: max_delay (500 ms) is shorter than first_delay"
        " (1 second)",
        "pipeline.payments.sinks[0].retry.first_delay: max_delay (30 seconds) is shorter than"
        " first_delay (1 minute)",
    ]


# Its own output


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("events", "events"),
        ("events", "./events/out"),
        ("/data/events", "file:///data/events/out"),
        ("data/*", "data/out/x"),
        ("s3a://b/events/", "s3a://b/events/out"),
        ("{here}/events", "events/out"),
    ],
)
def test_a_stream_does_not_read_its_own_output(
    problems: Problems, tmp_path: Path, source: str, sink: str
) -> None:
    """A sink in the source's directory would feed the stream for ever."""
    text = STREAM.replace('"events"', f'"{source}"').replace("{here}", str(tmp_path))
    text += SINK.replace("lake/payments", sink)
    assert problems(text) == [
        "pipeline.payments.sinks[0].path: is where the source looks for files: the stream would"
        " read its own output"
    ]


@pytest.mark.parametrize(
    ("source", "sink"), [("events", "events_out"), ("data/*.json", "data/out"), ("a/b", "a")]
)
def test_a_neighbour_of_the_source_is_no_part_of_it(load: Load, source: str, sink: str) -> None:
    """Only what the source really looks at counts."""
    text = STREAM.replace('"events"', f'"{source}"') + SINK.replace("lake/payments", sink)
    assert load(text).streams


def test_checkpoints_are_not_read_as_events(problems: Problems) -> None:
    """The checkpoints, too, stay out of the source's directory."""
    text = STREAM + SINK + '[pipeline.payments.checkpoint]\nlocation = "events/cp"\n'
    assert problems(text) == [
        "pipeline.payments.checkpoint.location: is where the source looks for files; keep"
        " checkpoints elsewhere"
    ]


def test_a_stream_can_be_made_in_python() -> None:
    """The same sections and the same rules serve code without a file."""
    source = StreamSource(format="rate")
    made = StreamPipeline(
        type="stream", source=source, sinks=(ConsoleSink(type="console", name="screen"),)
    )
    assert made.sinks[0].name == "screen"
    with pytest.raises(ValueError, match="no sink is required"):
        StreamPipeline(
            type="stream",
            source=source,
            sinks=(ConsoleSink(type="console", name="screen", required=False),),
        )
