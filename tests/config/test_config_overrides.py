"""Settings of single tables over those of their pipeline."""

from __future__ import annotations

from datetime import timedelta

import pytest
from config_files import COMPLETE, PIPELINE, TABLES, Load, Problems

from holdfast.errors import UsageError

ORDERS = "[pipeline.bronze.table.orders]\n"
CURSOR = PIPELINE + TABLES + 'cursor = ["ts", "id"]\n'


def test_a_table_without_settings_has_the_pipelines(load: Load) -> None:
    """Nothing set means nothing changed."""
    bronze = load(COMPLETE + ORDERS + 'watermark = "at"\n').replications["bronze"]
    settings = bronze.settings_for("customers")
    assert (settings.table, settings.strategy, settings.watermark) == (
        "customers",
        "incremental",
        "updated_at",
    )
    assert settings.checks == bronze.checks


def test_every_setting_can_be_overridden(load: Load) -> None:
    """What the table sets goes before what the pipeline sets."""
    text = COMPLETE.replace('"data/shop"', '"x", options = { header = true, sep = ";" }')
    text += (
        ORDERS
        + """
strategy = "merge"
cursor = ["at", "id"]
primary_key = ["id", "line"]
overlap = "2h"
max_future_skew = 0
null_watermark = "skip"
schema = "id long, line int, at timestamp"
options = { sep = ",", quote = "'" }
"""
    )
    settings = load(text).replications["bronze"].settings_for("orders")
    assert settings.strategy == "merge"
    assert settings.cursor == ("at", "id")
    assert settings.primary_key == ("id", "line")
    assert settings.overlap == timedelta(hours=2)
    assert settings.max_future_skew == timedelta()
    assert settings.null_watermark == "skip"
    assert settings.schema_ddl == "id long, line int, at timestamp"
    assert settings.options == {"header": "true", "sep": ",", "quote": "'"}


def test_a_watermark_replaces_a_cursor_and_the_other_way_round(load: Load) -> None:
    """A table has one or the other, never a mixture of two levels."""
    replaced = load(CURSOR + ORDERS + 'watermark = "at"\n').replications["bronze"]
    assert replaced.settings_for("orders").cursor == ("at",)
    assert replaced.settings_for("customers").cursor == ("ts", "id")
    replaced = load(COMPLETE + ORDERS + 'cursor = ["at", "id"]\n').replications["bronze"]
    assert replaced.settings_for("orders").cursor == ("at", "id")


def test_checks_are_merged_key_by_key(load: Load) -> None:
    """A table changes single checks and keeps the others, down to columns and severities."""
    text = (
        COMPLETE
        + """
[pipeline.bronze.checks]
anomaly_threshold_pct = 30
freshness = { threshold_seconds = 60 }
growth = { max_flat_runs = 3 }
null_rate = { email = 0.1, name = 0.2 }
severity = { growth = "fail", anomaly = "fail" }
[pipeline.bronze.table.orders.checks]
anomaly_window = 20
freshness = false
null_rate = { email = 0 }
severity = { anomaly = "warn" }
"""
    )
    checks = load(text).replications["bronze"].settings_for("orders").checks
    assert (checks.anomaly_threshold_pct, checks.anomaly_window) == (30, 20)
    assert checks.freshness is None
    assert checks.growth is not None
    assert checks.null_rate == {"email": 0.0, "name": 0.2}
    assert checks.severity_of("growth", "merge") == "fail"
    assert checks.severity_of("anomaly", "full_refresh") == "warn"


def test_a_table_that_is_not_listed_is_refused(problems: Problems) -> None:
    """Settings that nothing would use are a mistake."""
    assert problems(COMPLETE + '[pipeline.bronze.table.ordrs]\nwatermark = "at"\n') == [
        "pipeline.bronze.table.ordrs: these are settings for a table that is not in `tables`"
        " (did you mean orders?)"
    ]


def test_a_misspelt_table_name_is_one_mistake(problems: Problems) -> None:
    """What was meant for a table is not reported as missing from it."""
    text = PIPELINE + 'tables = ["orders"]\n[pipeline.bronze.table.ordrs]\nwatermark = "at"\n'
    assert len(problems(text)) == 1


def test_the_merged_settings_of_each_table_are_checked(problems: Problems) -> None:
    """A table's own strategy needs what the pipeline does not have."""
    assert problems(COMPLETE + ORDERS + 'strategy = "merge"\n') == [
        'pipeline.bronze.table.orders.primary_key: this key is missing; strategy "merge" needs the'
        ' columns that identify a row, for example primary_key = ["id"]'
    ]
    text = PIPELINE + TABLES + 'strategy = "full_refresh"\n' + ORDERS + 'strategy = "incremental"\n'
    assert problems(text) == [
        "pipeline.bronze.table.orders.watermark: this key is missing; strategy"
        ' "incremental" needs the column that tells new rows from old ones,'
        ' for example watermark = "updated_at"'
    ]


def test_a_misspelt_key_of_a_table_is_one_mistake(problems: Problems) -> None:
    """The key that was meant is not called missing as well."""
    assert problems(COMPLETE + ORDERS + 'strategy = "merge"\nprimry_key = ["id"]\n') == [
        "pipeline.bronze.table.orders.primry_key: unknown key (did you mean primary_key?)"
    ]


def test_a_mistake_of_the_pipeline_is_told_once(problems: Problems) -> None:
    """Tables that only inherit it do not repeat it."""
    text = PIPELINE + TABLES + ORDERS + 'null_watermark = "skip"\n'
    assert [problem.split(":")[0] for problem in problems(text)] == ["pipeline.bronze.watermark"]


def test_tables_may_each_bring_their_own_watermark(load: Load) -> None:
    """The pipeline's settings need not be complete when no table uses them as they are."""
    text = PIPELINE + TABLES + ORDERS + 'watermark = "a"\n'
    text += '[pipeline.bronze.table.customers]\nwatermark = "b"\n'
    bronze = load(text).replications["bronze"]
    assert [bronze.settings_for(name).watermark for name in ("orders", "customers")] == ["a", "b"]


def test_an_inherited_overlap_is_refused_for_an_append(load: Load, problems: Problems) -> None:
    """The message says how to take it back for the table; a refresh simply ignores it."""
    text = COMPLETE + 'strategy = "merge"\nprimary_key = ["id"]\noverlap = "1h"\n' + ORDERS
    assert problems(text + 'strategy = "incremental"\n') == [
        'pipeline.bronze.table.orders.overlap: with strategy "incremental" an overlap would copy'
        ' rows twice; use strategy "merge" with a primary_key, or set overlap = 0 for this table'
    ]
    taken_back = load(text + 'strategy = "incremental"\noverlap = 0\n').replications["bronze"]
    assert taken_back.settings_for("orders").overlap == timedelta()
    refreshed = load(text + 'strategy = "full_refresh"\n').replications["bronze"]
    assert refreshed.settings_for("orders").overlap == timedelta()
    assert refreshed.settings_for("customers").overlap == timedelta(hours=1)


def test_both_positions_in_one_table_are_refused(problems: Problems) -> None:
    """The rule holds inside a table as it does in the pipeline."""
    [problem] = problems(COMPLETE + ORDERS + 'watermark = "a"\ncursor = ["a", "b"]\n')
    assert problem.startswith("pipeline.bronze.table.orders.cursor: give either")


def test_wrong_values_carry_the_tables_key(problems: Problems) -> None:
    """A name with a dot in it is quoted, as in the file."""
    text = COMPLETE.replace('"orders"', '"sales.orders"')
    text += '[pipeline.bronze.table."sales.orders"]\nstrategy = "mrege"\n'
    text += "checks = { anomaly_window = 2 }\n"
    assert problems(text) == [
        'pipeline.bronze.table."sales.orders".strategy: found "mrege", expected "incremental",'
        ' "merge" or "full_refresh" (did you mean "merge"?)',
        'pipeline.bronze.table."sales.orders".checks.anomaly_window: found 2, expected a whole'
        " number from 3 to 1000",
    ]


def test_a_schema_is_refused_where_tables_have_their_own(problems: Problems) -> None:
    """A table of the catalog keeps its types."""
    text = COMPLETE.replace('{ format = "csv", path = "data/shop" }', '{ format = "table" }')
    assert problems(text + ORDERS + 'schema = "id long"\n') == [
        'pipeline.bronze.table.orders.schema: cannot be set with format "table": its tables have'
        " their own types"
    ]


def test_discovered_tables_go_by_their_last_or_full_name(load: Load) -> None:
    """A bare name stands for the table in every schema; the full name goes before it."""
    text = PIPELINE + 'watermark = "ts"\ndiscovery = {}\n' + ORDERS + 'watermark = "a"\n'
    text += '[pipeline.bronze.table."eu.orders"]\nwatermark = "b"\n'
    bronze = load(text).replications["bronze"]
    names = ("orders", "us.orders", "eu.orders", "eu.customers")
    assert [bronze.settings_for(name).watermark for name in names] == ["a", "a", "b", "ts"]


def test_overrides_are_checked_with_discovery_too(problems: Problems) -> None:
    """Which tables there are is not known yet, but what is written is."""
    text = PIPELINE + "discovery = {}\n" + ORDERS + 'strategy = "merge"\nwatermark = "a"\n'
    text += '[pipeline.bronze.table."a/b"]\nwatermark = "a"\n'
    assert [problem.split(":")[0] for problem in problems(text)] == [
        "pipeline.bronze.table.orders.primary_key",
        'pipeline.bronze.table."a/b"',
        "pipeline.bronze.watermark",
    ]


def test_asking_for_an_unknown_table_is_answered_with_the_known_ones(load: Load) -> None:
    """A misspelt name on the command line gets a suggestion."""
    bronze = load(COMPLETE).replications["bronze"]
    with pytest.raises(UsageError) as caught:
        bronze.settings_for("ordrs")
    assert str(caught.value) == "The pipeline has no table ordrs.\nDid you mean orders?"
    with pytest.raises(UsageError, match="There are orders, customers"):
        bronze.settings_for("zzz")


def test_asking_for_an_unknown_pipeline_is_answered_with_the_known_ones(load: Load) -> None:
    """A misspelt pipeline gets a suggestion too."""
    with pytest.raises(UsageError) as caught:
        load(COMPLETE).pipeline_named("bronz")
    assert str(caught.value) == "There is no pipeline bronz.\nDid you mean bronze?"
