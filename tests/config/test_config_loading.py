"""Reading the file: paths, syntax, and every mistake at once."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from config_files import COMPLETE, PIPELINE, Load, Problems

from holdfast.config import load_config
from holdfast.errors import ConfigError


def test_a_minimal_file_gets_every_default(load: Load, tmp_path: Path) -> None:
    """A file with one pipeline is enough."""
    config = load(COMPLETE)
    assert config.state.backend == "local"
    assert config.state.path == tmp_path / ".holdfast/ledger.db"
    assert config.spark.master == "local[*]"
    assert config.spark.conf == {}
    bronze = config.replications["bronze"]
    assert bronze.tables == ("orders", "customers")
    assert bronze.target.format == "parquet"
    assert bronze.strategy == "incremental"
    assert bronze.overlap == timedelta()
    assert bronze.max_future_skew == timedelta(minutes=5)
    assert bronze.null_watermark == "fail"
    assert bronze.concurrency == 4
    assert bronze.metadata_columns is True
    assert bronze.loaded_by is None


def test_relative_paths_start_at_the_file(load: Load, tmp_path: Path) -> None:
    """The working directory has no say in where the data is."""
    config = load('[state]\npath = "var/../ledger.db"\n' + COMPLETE)
    assert config.state.path == tmp_path / "ledger.db"
    assert config.replications["bronze"].source.path == str(tmp_path / "data/shop")
    assert config.replications["bronze"].target.path == str(tmp_path / "lake")


def test_absolute_paths_and_uris_are_kept(load: Load) -> None:
    """A path that says where it is stays as it is written."""
    text = COMPLETE.replace('"lake"', '"s3a://bucket/lake"').replace('"data/shop"', '"/data/shop"')
    bronze = load(text).replications["bronze"]
    assert (bronze.source.path, bronze.target.path) == ("/data/shop", "s3a://bucket/lake")


def test_a_missing_file_names_the_command_that_writes_one(tmp_path: Path) -> None:
    """Whoever has no file yet learns how to get one."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "holdfast.toml")
    assert str(caught.value) == (
        f"{tmp_path}/holdfast.toml does not exist.\nWrite a starter file with `holdfast init`."
    )


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    """Naming the directory instead of the file in it is answered with the file's name."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert caught.value.message == f"{tmp_path} is a directory."
    assert caught.value.hint == f"Name the file: {tmp_path}/holdfast.toml"


def test_a_syntax_error_points_at_its_place(load: Load, file: Path) -> None:
    """File, line, column and the line itself are shown."""
    with pytest.raises(ConfigError) as caught:
        load("[state]\nbackend local\n")
    assert caught.value.message == (
        f"{file}:2:9: not valid TOML: expected '=' after a key in a key/value pair\n"
        "    backend local\n"
        "            ^"
    )


def test_a_syntax_error_at_the_end_points_at_the_end(load: Load, file: Path) -> None:
    """A file that stops too early is quoted where it stops."""
    with pytest.raises(ConfigError) as caught:
        load('[state]\npath = """abc')
    assert caught.value.message.startswith(f"{file}:2:14: not valid TOML: ")
    assert caught.value.message.splitlines()[1] == '    path = """abc'


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            'options = { user = "me", password = "hunter2 }',
            'options = { user = "me", password = ...',
        ),
        ('url = "jdbc:postgresql://me:hunter2@host/db', 'url = "jdbc:postgresql...'),
        ('url = "jdbc:postgresql://host/db?password=hunter2', None),
    ],
)
def test_a_syntax_error_does_not_print_a_secret(load: Load, line: str, shown: str | None) -> None:
    """The line is cut where a secret may begin."""
    with pytest.raises(ConfigError) as caught:
        load(line + "\n")
    assert "hunter2" not in str(caught.value)
    if shown is not None:
        assert caught.value.message.splitlines()[1] == f"    {shown}"


def test_a_file_that_is_not_utf8_says_so(file: Path) -> None:
    """Another encoding is named with its line."""
    file.write_bytes(b"[state]\n# caf\xe9\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert caught.value.message == f"{file}:2: not valid TOML: the line is not UTF-8 text."


def test_a_byte_order_mark_does_no_harm(file: Path) -> None:
    """Editors that write one are welcome."""
    file.write_bytes(b"\xef\xbb\xbf" + COMPLETE.encode())
    assert "bronze" in load_config(file).pipeline


def test_every_mistake_is_reported_at_once(load: Load, file: Path) -> None:
    """One run shows all there is to correct, in the order of the file."""
    with pytest.raises(ConfigError) as caught:
        load("""
[state]
backend = "lcal"

[spark]
mster = "yarn"

[pipeline.bronze]
type = "replicate"
source = { format = "csv" }
target = { format = "parquet", path = 5 }
tables = ["orders", "", "orders"]
watermrk = "updated_at"
strategy = "merge"
concurrency = "four"

[pipeline.bronze.checks]
anomaly_threshold_pct = -5
""")
    assert str(caught.value).splitlines() == [
        f"{file} has 10 problems:",
        '  state.backend: found "lcal", expected "local" (did you mean "local"?)',
        "  spark.mster: unknown key (did you mean master?)",
        "  pipeline.bronze.source.path: this key is missing;"
        ' format "csv" needs the directory of the tables',
        "  pipeline.bronze.target.path: found 5, expected a text",
        '  pipeline.bronze.tables[1]: found "", expected a table name such as "orders" or'
        ' "sales.orders", without / \\ * ? [ ] { } :',
        '  pipeline.bronze.tables[2]: "orders" is already in the list; name it once',
        "  pipeline.bronze.watermrk: unknown key (did you mean watermark?)",
        '  pipeline.bronze.concurrency: found "four", expected a whole number from 1 to 64',
        "  pipeline.bronze.checks.anomaly_threshold_pct: found -5,"
        " expected a number greater than 0",
        '  pipeline.bronze.primary_key: this key is missing; strategy "merge" needs the columns'
        ' that identify a row, for example primary_key = ["id"]',
    ]


def test_a_misspelt_section_is_read_as_the_one_that_was_meant(problems: Problems) -> None:
    """What is inside a misspelt table is still checked, and the right one is not called missing."""
    text = COMPLETE.replace("pipeline.bronze", "pipelin.bronze") + 'strategy = "full"\n'
    assert problems(text) == [
        "pipelin: unknown key (did you mean pipeline?)",
        'pipelin.bronze.strategy: found "full", expected "incremental", "merge" or "full_refresh"'
        ' (did you mean "full_refresh"?)',
    ]


def test_what_is_in_a_misspelt_section_with_a_default_is_checked(problems: Problems) -> None:
    """A section that may be left out is recognised when it is misspelt."""
    assert problems("[stat]\npath = 5\n" + COMPLETE) == [
        "stat: unknown key (did you mean state?)",
        "stat.path: found 5, expected a text",
    ]


def test_a_key_that_resembles_nothing_lists_what_there_is(problems: Problems) -> None:
    """Without a likely guess the possible keys are named."""
    assert problems("[spark]\nzzz = 1\n" + COMPLETE) == [
        "spark.zzz: unknown key; the keys here are master, conf"
    ]


def test_a_second_spelling_does_not_stand_in_for_the_first(problems: Problems) -> None:
    """A misspelt key beside the right one is only unknown."""
    assert problems(COMPLETE + "watermrk = 5\n") == [
        "pipeline.bronze.watermrk: unknown key (did you mean watermark?)"
    ]


def test_a_file_without_pipelines_is_refused(problems: Problems) -> None:
    """An empty file has nothing to do."""
    expected = "expected at least one pipeline, as in [pipeline.bronze]"
    assert problems("") == [f"pipeline: this key is missing; {expected}"]
    assert problems("[pipeline]\n") == [f"pipeline: {expected}"]


def test_a_pipeline_without_a_name_is_one_mistake(problems: Problems) -> None:
    """`[pipeline]` with a pipeline's keys in it is not taken for many pipelines."""
    assert problems(PIPELINE.replace("pipeline.bronze", "pipeline")) == [
        "pipeline: a pipeline needs a name, as in [pipeline.bronze]"
    ]


def test_a_pipeline_name_must_be_plain(problems: Problems) -> None:
    """Names go into commands and file names."""
    assert problems(COMPLETE.replace("pipeline.bronze", 'pipeline."my data"')) == [
        'pipeline."my data": a pipeline\'s name starts with a letter or _ and goes on with'
        " letters, digits, _ and -"
    ]


@pytest.mark.parametrize("backend", ["s3", "gcs", "azure", "valkey", "tiered", "postgres"])
def test_a_later_backend_is_refused_by_name(problems: Problems, backend: str) -> None:
    """The backends of later versions are known, with their keys, but not available."""
    assert problems(f'[state]\nbackend = "{backend}"\nbucket = "b"\n' + COMPLETE) == [
        f'state.backend: "{backend}" is not available in this version; use "local"'
    ]


def test_the_ledger_is_on_this_machine(problems: Problems) -> None:
    """A URI is not a place for an embedded ledger."""
    assert problems('[state]\npath = "s3://bucket/ledger.db"\n' + COMPLETE) == [
        'state.path: found "s3://bucket/ledger.db", expected the path of a file on this machine'
    ]


def test_wrong_types_are_told_in_plain_words(problems: Problems) -> None:
    """Each kind of value says what it is not."""
    text = "state = 5\n[spark]\nmaster = []\nconf = [1]\n" + PIPELINE
    text += 'tables = "orders"\nwatermark = 2024-01-01\nmetadata_columns = "yes"\nloaded_by = " "\n'
    assert problems(text) == [
        "state: found 5, expected a table",
        "spark.master: found an empty list, expected a text",
        "spark.conf: found a list, expected a table",
        'pipeline.bronze.tables: found "orders", expected a list of table names,'
        ' for example ["orders", "customers"]',
        "pipeline.bronze.watermark: found a date or time, expected a text",
        'pipeline.bronze.metadata_columns: found "yes", expected true or false',
        'pipeline.bronze.loaded_by: found " ", expected a text that is not empty',
    ]


@pytest.mark.parametrize("value", ["0", "65", "1.5", "true", '"4"', "9" * 400, "inf"])
def test_concurrency_is_a_whole_number_from_1_to_64(problems: Problems, value: str) -> None:
    """Neither a fraction nor a text nor a number out of range will do."""
    [problem] = problems(COMPLETE + f"concurrency = {value}\n")
    assert problem.startswith("pipeline.bronze.concurrency: found ")
    assert problem.endswith(", expected a whole number from 1 to 64")


def test_spark_settings_become_texts(load: Load) -> None:
    """Numbers and booleans are written as Spark reads them, and dotted names need no quotes."""
    config = load(
        '[spark.conf]\n"spark.sql.shuffle.partitions" = 4\nspark.ui.enabled = false\n' + COMPLETE
    )
    assert config.spark.conf == {
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }


def test_a_setting_written_in_both_ways_is_refused(problems: Problems) -> None:
    """Of two values for one name neither is chosen silently."""
    text = '[spark.conf]\n"spark.ui.enabled" = true\nspark.ui.enabled = false\n' + COMPLETE
    assert problems(text) == ["spark.conf.spark.ui.enabled: spark.ui.enabled is given twice"]


def test_secrets_are_not_shown(problems: Problems) -> None:
    """A wrong value under a secret's name is reported without it."""
    text = COMPLETE.replace('"data/shop"', '"x", options = { password = ["hunter2"] }')
    [problem] = problems(text)
    assert problem == (
        "pipeline.bronze.source.options.password: found a value that is not shown,"
        " expected a text, a number, true or false"
    )


def test_configuration_needs_neither_spark_nor_the_command_line() -> None:
    """Reading a file is quick: nothing heavy is imported."""
    code = "import sys, holdfast.config; print({'pyspark', 'typer', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_two_pipelines_do_not_share_a_target(tmp_path: Path) -> None:
    """A table that two pipelines would copy to one place is named with both of them."""
    path = tmp_path / "holdfast.toml"
    path.write_text(COMPLETE + COMPLETE.replace("pipeline.bronze", "pipeline.silver"))

    with pytest.raises(ConfigError) as refused:
        load_config(path)

    said = [str(problem) for problem in refused.value.problems]
    assert any(
        text.startswith("pipeline.silver.target.path: orders is copied there by pipeline bronze")
        for text in said
    ), said
