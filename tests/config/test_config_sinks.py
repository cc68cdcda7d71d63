"""Sinks: what each type needs, and that no two write to one place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from config_files import COMPLETE, SINK, STREAM, Load, Problems

from holdfast.config import FilesSink, HttpSink, PostgresSink
from holdfast.errors import ConfigError

PG = 'type = "postgres"\nurl = "postgresql://me:hunter2@host/db"\ntable = "orders"\n'
VALKEY = 'type = "valkey"\nurl = "valkey://:hunter2@host:6379/0"\n'
HTTP = 'type = "http"\nurl = "https://host/hunter2"\n'


def sink(body: str, name: str = "out", pipeline: str = "payments") -> str:
    """Return a sink of a pipeline."""
    return f'[[pipeline.{pipeline}.sinks]]\nname = "{name}"\n{body}\n'


@pytest.mark.parametrize(
    "body",
    [
        'type = "files"\nformat = "CSV"\npath = "out"\noptions = { header = true }',
        'type = "delta"\npath = "out"',
        PG + 'mode = "append"\nepoch_column = "epoch"',
        PG + 'mode = "upsert"\nkey = ["id"]\ncreate_table = false',
        PG.replace("postgresql://me:hunter2@host/db", "host=h dbname=d password=hunter2"),
        VALKEY + 'key = "order:{id}:{line}"',
        VALKEY + 'mode = "stream"\nkey = "orders"\nmax_length = 1000',
        'type = "kafka"\nbrokers = "h:9092"\ntopic = "orders"\nkey = "id"',
        HTTP + 'headers = { Authorization = "Bearer x" }\ntimeout = "5s"\nidempotent = true',
        'type = "console"\nrows = 5',
        'type = "python"\nfunction = "shop.sinks:deliver"',
    ],
)
def test_every_type_of_sink_loads(load: Load, body: str) -> None:
    """Each type has keys of its own."""
    [made] = load(STREAM + sink(body)).stream_named("payments").sinks
    assert f'type = "{made.type}"' in body


def test_what_is_read_is_what_was_written(load: Load, tmp_path: Path) -> None:
    """Values reach the sink in their own types."""
    text = STREAM + SINK + 'format = "ORC"\nretry = { attempts = 9, max_delay = "1 minute" }\n'
    text += sink(HTTP + "required = false\nbatch_rows = 7\nspool = { max_bytes = '5 MB' }")
    files, http = load(text).stream_named("payments").sinks
    assert isinstance(files, FilesSink)
    assert isinstance(http, HttpSink)
    assert (files.format, files.path) == ("orc", str(tmp_path / "lake/payments"))
    assert (files.retry.attempts, files.retry.max_delay) == (9, timedelta(minutes=1))
    assert (http.batch_rows, http.timeout) == (7, timedelta(seconds=30))
    assert (http.spool.max_bytes, http.spool.when_full) == (5_000_000, "wait")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            'type = "files"\npath = "x"\nformat = "delta"',
            'format: "delta" is not a format of files; use type = "delta"',
        ),
        (
            'type = "files"\npath = "x"\nformat = "Kafka"',
            'format: "kafka" is not a format of files; use type = "kafka"',
        ),
        (
            'type = "files"\npath = "x"\nformat = "jdbc"',
            'format: "jdbc" is not a format of files; use type = "postgres", or a function of your'
            ' own with type = "python"',
        ),
        (
            'type = "files"\npath = "x"\nformat = "parket"',
            'format: found "parket", expected "parquet", "orc", "csv", "json", "avro", "xml" or'
            ' "text" (did you mean "parquet"?)',
        ),
        (
            PG + 'key = ["id"]',
            'key: has no meaning with mode "append"; use mode = "upsert"',
        ),
        (
            PG + 'mode = "upsert"\nkey = ["id", "id"]',
            'key[1]: "id" is already in the list; name it once',
        ),
        (
            PG + 'mode = "upsert"\nkey = ["id"]\nepoch_column = "e"',
            'epoch_column: has no meaning with mode "upsert": a row that was replaced cannot come'
            " back",
        ),
        (
            PG.replace("postgresql:", "jdbc:postgresql:"),
            "url: is a JDBC address; write it without `jdbc:` and with the user in it, as in"
            ' "postgresql://user@host/database"',
        ),
        (
            PG.replace("postgresql:", "mysql:"),
            'url: expected an address such as "postgresql://user@host/database"',
        ),
        (
            VALKEY + 'key = "orders"',
            'key: found "orders": every row would be written to the same hash; name the column that'
            ' tells rows apart, as in "order:{id}"',
        ),
        (
            VALKEY + 'key = "order:{id"',
            'key: found "order:{id": a { or } has no partner, or no column between them',
        ),
        (
            VALKEY + 'key = "order:{}"',
            'key: found "order:{}": a { or } has no partner, or no column between them',
        ),
        (
            VALKEY + 'mode = "stream"\nkey = "order:{id}"',
            'key: found "order:{id}": mode "stream" writes to one stream, whose name has no'
            " {column} in it",
        ),
        (
            VALKEY + 'key = "order:{id}"\nmax_length = 5',
            'max_length: has no meaning with mode "hash", only with "stream"',
        ),
        (
            VALKEY.replace("valkey:", "http:") + 'key = "order:{id}"',
            'url: expected an address such as "valkey://host:6379/0"',
        ),
        (
            HTTP.replace("https:", "ftp:"),
            'url: expected an address such as "https://host/events"',
        ),
        (HTTP.replace("host", ""), 'url: expected an address such as "https://host/events"'),
        (HTTP + "timeout = 0", "timeout: must be longer than 0: no request could ever succeed"),
        (
            'type = "kafka"\nbrokers = "h:1"\ntopic = "t"\noptions = { bootstrap.servers = "x" }',
            'options."bootstrap.servers": cannot be set here; use the key `brokers`',
        ),
        (
            'type = "python"\nfunction = "deliver"',
            'function: found "deliver", expected "module:function", for example'
            ' "shop.payments:clean"',
        ),
        (
            'type = "console"\nrequired = false\non_failure = "drop"\nspool = {}',
            'spool: has no meaning with on_failure = "drop": no batch waits',
        ),
        ('type = "console"\npath = "x"', None),
    ],
)
def test_what_a_sink_cannot_use_is_refused(problems: Problems, body: str, said: str | None) -> None:
    """Each mistake is one message, without an address that may hold a password."""
    found = problems(STREAM + SINK + sink(body))
    assert len(found) == 1
    assert "hunter2" not in found[0]
    if said is not None:
        assert found == [f"pipeline.payments.sinks[1].{said}"]
    else:
        assert found[0].startswith("pipeline.payments.sinks[1].path: unknown key; the keys here")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (PG.replace('"postgresql://me:hunter2@host/db"', '["hunter2"]'), "url"),
        (HTTP + 'headers = { X-Who = ["hunter2"] }', "headers.X-Who"),
        (HTTP.replace('"https://host/hunter2"', "5"), "url"),
    ],
)
def test_secrets_of_a_sink_are_not_shown(problems: Problems, body: str, key: str) -> None:
    """A value of a wrong type under a secret's key stays hidden."""
    [problem] = problems(STREAM + sink(body))
    start = f"pipeline.payments.sinks[0].{key}: found a value that is not shown, expected "
    assert problem.startswith(start)


@pytest.mark.parametrize(
    "line",
    [
        'headers = { Authorization = "Bearer hunter2 }',
        'url = "valkey://:hunter2@host/0',
        'url = "https://hunter2@host/events',
        'url = "postgresql://me:slash/hunter2@host/db',
    ],
)
def test_a_syntax_error_in_a_sink_does_not_print_a_secret(load: Load, line: str) -> None:
    """The line is cut where a secret may begin."""
    with pytest.raises(ConfigError) as caught:
        load(STREAM + sink(line))
    assert "not valid TOML" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_misspelt_sink_key_is_answered(problems: Problems) -> None:
    """The rules still see the key that was meant."""
    text = STREAM + sink(PG.replace("table =", "tabel =") + 'mode = "upsert"\nkeys = ["id"]')
    assert problems(text) == [
        "pipeline.payments.sinks[0].tabel: unknown key (did you mean table?)",
        "pipeline.payments.sinks[0].keys: unknown key (did you mean key?)",
    ]


def test_a_sink_without_a_type_asks_for_one(problems: Problems) -> None:
    """The types there are, are listed."""
    assert problems(STREAM + sink('path = "x"')) == [
        'pipeline.payments.sinks[0].type: this key is missing; expected "files", "delta",'
        ' "postgres", "valkey", "kafka", "http", "console" or "python"'
    ]


@pytest.mark.parametrize("sinks", ["sinks = []\n", '[pipeline.payments.sinks]\nname = "x"\n'])
def test_a_stream_needs_a_list_of_sinks(problems: Problems, sinks: str) -> None:
    """None, and one without its second pair of brackets, are told what is expected."""
    [problem] = problems(STREAM + sinks)
    assert problem.startswith("pipeline.payments.sinks: found ")
    assert problem.endswith("expected a list of sinks, for example [[pipeline.<name>.sinks]]")


def test_names_of_sinks_differ(problems: Problems) -> None:
    """A sink is remembered by its name."""
    text = STREAM + sink('type = "console"') + sink('type = "delta"\npath = "x"')
    assert problems(text) == [
        'pipeline.payments.sinks[1].name: another sink is called "out"; each needs a name of its'
        " own"
    ]


@pytest.mark.parametrize(
    "path", ["lake/payments", "./lake/payments/", "lake/payments/eu", "lake", "{here}/lake"]
)
def test_two_sinks_do_not_share_a_directory(problems: Problems, tmp_path: Path, path: str) -> None:
    """Neither the same one nor one in the other, however it is written."""
    body = f'type = "delta"\npath = "{path}"'.replace("{here}", str(tmp_path))
    assert problems(STREAM + SINK + sink(body)) == [
        "pipeline.payments.sinks[1].path: payments.sinks[0] writes there already; choose another"
        " directory"
    ]


def test_sinks_of_two_pipelines_do_not_share_a_directory_or_a_table(problems: Problems) -> None:
    """The whole file is looked at."""
    one = STREAM + SINK + sink(PG, "pg")
    two = one.replace("pipeline.payments", "pipeline.refunds").replace(
        '"orders"', '"public.orders"'
    )
    assert problems(one + two) == [
        "pipeline.refunds.sinks[0].path: payments.sinks[0] writes there already; choose another"
        " directory",
        "pipeline.refunds.sinks[1].table: payments.sinks[1] writes to this table already; choose"
        " another",
    ]


def test_a_sink_does_not_write_into_a_copied_table(problems: Problems, load: Load) -> None:
    """The directories of a replicate pipeline are its own."""
    text = COMPLETE + STREAM + SINK
    assert problems(text.replace("lake/payments", "lake/orders")) == [
        "pipeline.payments.sinks[0].path: pipeline bronze writes there already; choose another"
        " directory"
    ]
    assert load(text).streams


def test_a_table_elsewhere_is_another_table(load: Load) -> None:
    """The same name in another database, or another name in this one, is fine."""
    text = STREAM + sink(PG, "a") + sink(PG.replace("host", "other"), "b")
    sinks = load(text + sink(PG.replace("orders", "refunds"), "c")).stream_named("payments").sinks
    assert all(isinstance(each, PostgresSink) for each in sinks)
