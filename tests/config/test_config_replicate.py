"""A replicate pipeline: source, target, tables, and how they go together."""

from __future__ import annotations

from datetime import timedelta

import pytest
from config_files import COMPLETE, PIPELINE, TABLES, Load, Problems
from pydantic import ValidationError

from holdfast.config import ReplicatePipeline, Source, TableOverride, Target

MERGE = PIPELINE + TABLES + 'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]\n'


def with_source(source: str) -> str:
    return COMPLETE.replace('{ format = "csv", path = "data/shop" }', source)


def with_target(target: str) -> str:
    return COMPLETE.replace('{ path = "lake" }', target)


def test_required_keys_say_what_they_are_for(problems: Problems) -> None:
    """A missing key is explained."""
    assert problems('[pipeline.bronze]\ntables = ["a"]\nwatermark = "ts"\n') == [
        'pipeline.bronze.type: this key is missing; expected "replicate" or "stream"',
        "pipeline.bronze.source: this key is missing; expected a table with the format and place"
        " of the rows to copy",
        "pipeline.bronze.target: this key is missing; expected a table with the place to copy"
        " them to",
    ]


def test_source_options_become_what_spark_reads(load: Load) -> None:
    """Options keep their names and become texts."""
    source = '{ format = "CSV", path = "x", options = { header = true, maxColumns = 10, sep = ";" }'
    read = load(with_source(source + ', schema = "id long" }')).replications["bronze"].source
    assert read.format == "csv"
    assert read.options == {"header": "true", "maxColumns": "10", "sep": ";"}
    assert read.schema_ddl == "id long"


@pytest.mark.parametrize("name", ["csv", "json", "parquet", "orc", "avro", "delta"])
def test_a_file_format_needs_a_path(problems: Problems, name: str) -> None:
    """Files are found below a directory."""
    assert problems(with_source(f'{{ format = "{name}" }}')) == [
        f'pipeline.bronze.source.path: this key is missing; format "{name}" needs the directory'
        " of the tables"
    ]


def test_a_format_of_a_plug_in_is_taken_as_it_is(load: Load) -> None:
    """Holdfast does not know every format there is."""
    source = load(with_source('{ format = "com.example.Mainframe" }')).replications["bronze"].source
    assert (source.format, source.path) == ("com.example.Mainframe", None)


def test_a_misspelt_format_is_recognised(problems: Problems) -> None:
    """A format that is nearly a common one is a mistake."""
    assert problems(with_source('{ format = "parqet", path = "x" }')) == [
        'pipeline.bronze.source.format: found "parqet", expected the name of a Spark format'
        ' (did you mean "parquet"?)'
    ]


def test_named_tables_have_a_namespace_instead_of_a_path(load: Load, problems: Problems) -> None:
    """Catalog and database tables are found by name."""
    source = load(with_source('{ format = "table", namespace = "main.sales" }'))
    assert source.replications["bronze"].source.table_name("orders") == "main.sales.orders"
    assert Source(format="table").table_name("orders") == "orders"
    assert problems(with_source('{ format = "table", path = "x", schema = "id long" }')) == [
        'pipeline.bronze.source.path: has no meaning with format "table"; tables are found by name'
        " (see namespace)",
        'pipeline.bronze.source.schema: cannot be set with format "table": its tables have their'
        " own types",
    ]
    assert problems(with_source('{ format = "csv", path = "x", namespace = "y" }')) == [
        'pipeline.bronze.source.namespace: has no meaning with format "csv"; use path'
    ]


def test_jdbc_needs_a_url_and_no_table_of_its_own(problems: Problems) -> None:
    """The tables are named in `tables`, once."""
    assert problems(with_source('{ format = "jdbc", options = { dbTable = "x" } }')) == [
        "pipeline.bronze.source.options.dbTable: would read the same rows for every table;"
        " name the tables in `tables`",
        'pipeline.bronze.source.options.url: this key is missing; format "jdbc" needs it,'
        ' for example "jdbc:postgresql://host/database"',
    ]


@pytest.mark.parametrize(
    "name", ["jdbc", "kafka", "console", "memory", "noop", "hive", "table", "Kafka"]
)
def test_a_target_that_cannot_hold_a_batch_is_refused(problems: Problems, name: str) -> None:
    """The reason is given."""
    [problem] = problems(with_target(f'{{ format = "{name}", path = "x" }}'))
    assert problem.startswith(f'pipeline.bronze.target.format: "{name}" cannot be a target: ')


@pytest.mark.parametrize("name", ["parquet", "orc", "csv", "json", "delta", "avro", "lance"])
def test_a_directory_format_can_be_a_target(load: Load, name: str) -> None:
    """The common formats and those of plug-ins are accepted."""
    text = with_target(f'{{ format = "{name}", path = "x", options = {{ a = 1 }} }}')
    target = load(text).replications["bronze"].target
    assert (target.format, target.options) == (name, {"a": "1"})


def test_a_target_is_not_its_own_source(problems: Problems) -> None:
    """Two ways of writing the same path are still one path."""
    assert problems(with_target('{ path = "./data//shop" }')) == [
        "pipeline.bronze.target.path: is also the source's path; rows would be copied on top of"
        " themselves"
    ]


def test_tables_are_listed_or_discovered(problems: Problems) -> None:
    """Exactly one of the two is needed."""
    assert problems(PIPELINE + 'watermark = "ts"\n') == [
        'pipeline.bronze.tables: this key is missing; name the tables, as in tables = ["orders"],'
        ' or have them found, as in discovery = { include = ["*"] }'
    ]
    assert problems(COMPLETE + "discovery = {}\n") == [
        "pipeline.bronze.discovery: give either `tables` or `discovery`, not both"
    ]
    assert problems(PIPELINE + 'watermark = "ts"\ntables = []\n') == [
        "pipeline.bronze.tables: found an empty list, expected a list of table names,"
        ' for example ["orders", "customers"]'
    ]


def test_settings_written_under_tables_belong_under_table(problems: Problems) -> None:
    """The likely slip between `tables` and `table` is recognised."""
    text = PIPELINE + 'watermark = "ts"\n[pipeline.bronze.tables.orders]\nwatermark = "x"\n'
    assert problems(text) == [
        "pipeline.bronze.tables: found a table, expected a list of table names,"
        ' for example ["orders", "customers"] (did you mean table?)'
    ]


@pytest.mark.parametrize("name", ["../up", "a/b", "a..b", ".a", "a.", " a", "a*", "a:b", "a\\\\b"])
def test_a_table_name_cannot_leave_its_directory(problems: Problems, name: str) -> None:
    """Names become paths below the target's."""
    [problem] = problems(PIPELINE + f'watermark = "ts"\ntables = ["ok", "sales.ok", "{name}"]\n')
    assert problem.startswith("pipeline.bronze.tables[2]: found ")
    assert "expected a table name such as" in problem


def test_discovery_has_defaults(load: Load) -> None:
    """Everything is included and nothing excluded."""
    discovery = (
        load(PIPELINE + 'watermark = "ts"\ndiscovery = {}\n').replications["bronze"].discovery
    )
    assert discovery is not None
    assert (discovery.include, discovery.exclude) == (("*",), ())
    assert discovery.compiled_pattern() is None


def test_discovery_patterns_must_fit_together(problems: Problems) -> None:
    """A target schema can only use what the pattern finds."""

    def found(discovery: str) -> list[str]:
        return problems(PIPELINE + f'watermark = "ts"\ndiscovery = {{ {discovery} }}\n')

    at = "pipeline.bronze.discovery"
    assert found('schema_pattern = "src__{tenant}", target_schema = "s__{tenent}"') == [
        f"{at}.target_schema: {{tenent}} does not occur in schema_pattern"
        " (did you mean {tenant}?)"
    ]
    assert found('target_schema = "s__{tenant}"') == [
        f"{at}.target_schema: needs schema_pattern beside it, whose placeholders it uses"
    ]
    assert found('schema_pattern = "src__{tenant", target_schema = "s"') == [
        f'{at}.schema_pattern: found "src__{{tenant": a {{ or }} has no partner'
    ]
    assert found('include = "*", exclude = "tmp"') == [
        f'{at}.include: found "*", expected a list of name patterns, for example ["orders_*"]',
        f'{at}.exclude: found "tmp", expected a list',
    ]


@pytest.mark.parametrize("strategy", ["incremental", "merge"])
def test_reading_new_rows_needs_a_watermark_or_a_cursor(problems: Problems, strategy: str) -> None:
    """Without one, old rows cannot be told from new ones."""
    text = PIPELINE + TABLES + f'strategy = "{strategy}"\nprimary_key = ["id"]\n'
    assert problems(text) == [
        f'pipeline.bronze.watermark: this key is missing; strategy "{strategy}" needs the column'
        ' that tells new rows from old ones, for example watermark = "updated_at"'
    ]


def test_a_full_refresh_needs_no_watermark(load: Load) -> None:
    """Everything is read every time."""
    settings = load(PIPELINE + TABLES + 'strategy = "full_refresh"\n').replications["bronze"]
    assert settings.settings_for("orders").cursor == ()


def test_watermark_and_cursor_exclude_each_other(problems: Problems) -> None:
    """The cursor already has a watermark in it."""
    assert problems(COMPLETE + 'cursor = ["updated_at", "id"]\n') == [
        "pipeline.bronze.cursor: give either `watermark` or `cursor`, not both;"
        " the first column of `cursor` is the watermark"
    ]


def test_the_cursor_is_a_watermark_and_tie_breakers(load: Load, problems: Problems) -> None:
    """Its first column is the watermark; each column stands in it once."""
    text = PIPELINE + TABLES
    settings = (
        load(text + 'cursor = ["ts", "id", "line"]\n').replications["bronze"].settings_for("orders")
    )
    assert (settings.watermark, settings.tie_breakers) == ("ts", ("id", "line"))
    assert settings.cursor == ("ts", "id", "line")
    assert problems(text + 'cursor = ["ts", "ts"]\n') == [
        'pipeline.bronze.cursor[1]: "ts" is already in the list; name it once'
    ]
    assert problems(text + 'cursor = "ts"\n') == [
        'pipeline.bronze.cursor: found "ts", expected a list of column names,'
        ' for example ["updated_at", "id"]'
    ]


def test_merge_needs_a_primary_key(problems: Problems) -> None:
    """Rows that replace each other must be recognised."""
    assert problems(COMPLETE + 'strategy = "merge"\n') == [
        'pipeline.bronze.primary_key: this key is missing; strategy "merge" needs the columns that'
        ' identify a row, for example primary_key = ["id"]'
    ]


def test_overlap_belongs_to_merge(load: Load, problems: Problems) -> None:
    """With an append it would copy rows twice; with a refresh it has no meaning."""
    settings = load(MERGE + 'overlap = "1 hour"\n').replications["bronze"].settings_for("orders")
    assert settings.overlap == timedelta(hours=1)
    assert problems(COMPLETE + "overlap = 3600\n") == [
        'pipeline.bronze.overlap: with strategy "incremental" an overlap would copy rows twice;'
        ' use strategy "merge" with a primary_key'
    ]
    assert problems(COMPLETE + 'strategy = "full_refresh"\noverlap = 3600\n') == [
        'pipeline.bronze.overlap: has no meaning with strategy "full_refresh",'
        " which reads every row"
    ]
    assert load(COMPLETE + "overlap = 0\n").replications["bronze"].overlap == timedelta()


def test_pipelines_can_be_made_in_python() -> None:
    """The models hold the same rules as the file."""
    source, target = Source(format="csv", path="in"), Target(path="out")
    pipeline = ReplicatePipeline(
        type="replicate",
        source=source,
        target=target,
        tables=("orders",),
        watermark="ts",
        table={"orders": TableOverride(watermark="at")},
    )
    assert pipeline.settings_for("orders").watermark == "at"
    with pytest.raises(ValidationError, match='strategy "incremental" needs'):
        ReplicatePipeline(type="replicate", source=source, target=target, tables=("orders",))
    with pytest.raises(ValidationError, match="frozen"):
        pipeline.concurrency = 8  # type: ignore[misc]
