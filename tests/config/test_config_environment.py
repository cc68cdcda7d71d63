"""Environment variables inside the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_files import COMPLETE, PIPELINE, TABLES, Load, Problems

from holdfast.config import load_config

JDBC = """
[pipeline.erp]
type = "replicate"
source = { format = "jdbc", options = { url = "${URL}", password = "${PASSWORD}" } }
target = { path = "lake" }
tables = ["orders"]
watermark = "updated_at"
"""


def test_a_variable_is_put_in_place(load: Load) -> None:
    """Variables stand anywhere in a text, also deep inside tables and lists."""
    text = COMPLETE.replace('["orders"', '["${PREFIX}_orders"').replace('"lake"', '"/${A}/${B}"')
    config = load(text, {"PREFIX": "eu", "A": "mnt", "B": "lake"})
    assert config.replications["bronze"].tables == ("eu_orders", "customers")
    assert config.replications["bronze"].target.path == "/mnt/lake"


def test_the_environment_is_the_process_own_unless_given(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a mapping the variables of the process count."""
    monkeypatch.setenv("HOLDFAST_TEST_COLUMN", "changed_at")
    file.write_text(COMPLETE.replace("updated_at", "${HOLDFAST_TEST_COLUMN}"), encoding="utf-8")
    assert load_config(file).replications["bronze"].watermark == "changed_at"


@pytest.mark.parametrize(
    ("environ", "column"), [({}, "ts"), ({"COLUMN": ""}, "ts"), ({"COLUMN": "at"}, "at")]
)
def test_a_default_stands_in_for_an_unset_or_empty_variable(
    load: Load, environ: dict[str, str], column: str
) -> None:
    """`${VAR:-default}` works as it does in a shell."""
    config = load(COMPLETE.replace("updated_at", "${COLUMN:-ts}"), environ)
    assert config.replications["bronze"].watermark == column


def test_a_doubled_dollar_is_a_plain_one(load: Load) -> None:
    """`$${` is how to write `${` itself, and other dollars mean nothing."""
    config = load(COMPLETE + 'loaded_by = "$${USER} $5 $$"\n', {"USER": "x"})
    assert config.replications["bronze"].loaded_by == "${USER} $5 $$"


def test_the_value_of_a_variable_is_not_expanded_again(load: Load) -> None:
    """A password with `${` in it is taken as it is."""
    config = load(JDBC, {"URL": "jdbc:x", "PASSWORD": "${URL}"})
    assert config.replications["erp"].source.options["password"] == "${URL}"


def test_a_missing_variable_names_itself_and_its_key(problems: Problems) -> None:
    """Every variable that is not set is reported, with one of a like name when there is one."""
    assert problems(JDBC, {"PASSWORDS": "x"}) == [
        "pipeline.erp.source.options.url: the environment variable URL is not set;"
        " set it, or write ${URL:-default}",
        "pipeline.erp.source.options.password: the environment variable PASSWORD is not set;"
        " set it, or write ${PASSWORD:-default} (did you mean ${PASSWORDS}?)",
    ]


def test_a_missing_variable_is_reported_beside_other_mistakes(problems: Problems) -> None:
    """One mistake does not hide another, and nothing follows from the missing value."""
    text = PIPELINE + TABLES + 'strategy = "${S}"\nconcurrency = "${N}"\noverlp = 0\n'
    assert problems(text) == [
        "pipeline.bronze.strategy: the environment variable S is not set;"
        " set it, or write ${S:-default}",
        "pipeline.bronze.concurrency: the environment variable N is not set;"
        " set it, or write ${N:-default}",
        "pipeline.bronze.overlp: unknown key (did you mean overlap?)",
    ]


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A", "${A-b}", "${A B}"])
def test_a_broken_reference_is_refused(problems: Problems, text: str) -> None:
    """A `${` that is not a variable is never passed on as it is."""
    assert problems(COMPLETE + f'loaded_by = "{text}"\n', {"A": "a"}) == [
        "pipeline.bronze.loaded_by: a reference that starts with ${ is broken,"
        " expected ${VAR} or ${VAR:-default} (write $${ for a plain ${)"
    ]


def test_numbers_and_flags_may_come_from_a_variable(load: Load) -> None:
    """The environment has only texts, so a text from there may stand for another type."""
    text = COMPLETE + 'concurrency = "${N}"\nmetadata_columns = "${M}"\nmax_future_skew = "${S}"\n'
    text += '[pipeline.bronze.checks]\nanomaly_threshold_pct = "${P:-12.5}"\n'
    bronze = load(text, {"N": "8", "M": "False", "S": "90"}).replications["bronze"]
    assert (bronze.concurrency, bronze.metadata_columns) == (8, False)
    assert bronze.max_future_skew.total_seconds() == 90
    assert bronze.checks.anomaly_threshold_pct == 12.5


def test_texts_from_the_environment_are_plain_texts(load: Load) -> None:
    """What reaches Spark or JSON does not remember where it came from."""
    config = load(JDBC.replace('"updated_at"', '"${W}"'), {"URL": "u", "PASSWORD": "p", "W": "ts"})
    erp = config.replications["erp"]
    assert {type(value) for value in (*erp.source.options.values(), erp.watermark)} == {str}


def test_a_wrong_value_names_the_variable_it_came_from(problems: Problems) -> None:
    """The place to correct is the environment; a variable that sounds secret is not shown."""
    text = COMPLETE + 'concurrency = "${N}"\nmetadata_columns = "${API_KEY}"\n'
    assert problems(text, {"N": "many", "API_KEY": "hunter2"}) == [
        'pipeline.bronze.concurrency: found "many" (from ${N}),'
        " expected a whole number from 1 to 64",
        "pipeline.bronze.metadata_columns: found a value (from ${API_KEY}), expected true or false",
    ]
