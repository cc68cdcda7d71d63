"""Tables that are found at the source instead of being listed."""

from __future__ import annotations

import pytest

from holdfast.errors import SourceError, UsageError

from .workshop import Row, Workshop, at

PATTERN = """
schema_pattern = "src__{tenant}__{region}__{source}"
target_schema = "staging__{region}__{source}"
"""


def row(number: int) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number)}


def configure(shop: Workshop, discovery: str, more: str = "", **options: str) -> None:
    """A pipeline that discovers its tables."""
    shop.configure(
        f'watermark = "ts"\n[pipeline.p.discovery]\n{discovery}\n{more}', tables=None, **options
    )


def planned(shop: Workshop) -> dict[str, str]:
    """Which source table goes to which target path, below the lake."""
    lake = shop.directory / "lake"
    return {t.source: t.target.removeprefix(f"{lake}/") for t in shop.plan().tables}


def test_tables_are_chosen_by_include_and_exclude(shop: Workshop) -> None:
    """Globs over the names; hidden directories are no tables; files and directories are."""
    for table in ("orders", "orders_old", "people", "_hidden", ".hidden"):
        shop.add([row(1)], table)
    (file,) = shop.source("people").glob("*")
    file.rename(shop.directory / "source" / "orders_2.parquet")
    shop.source("people").rmdir()
    configure(shop, 'include = ["orders*", "people"]\nexclude = ["*_old"]')

    result = shop.run_all()

    assert [o.table for o in result.outcomes] == ["p.orders", "p.orders_2"]
    assert shop.ids("orders") == shop.ids("orders_2") == [1]


def test_a_table_that_appears_is_copied_by_the_next_run(shop: Workshop) -> None:
    """Discovery looks anew at every run."""
    shop.add([row(1)], "one")
    configure(shop, 'include = ["*"]')
    shop.run_all()
    shop.add([row(1)], "two")

    outcomes = {o.table: o.status for o in shop.run_all().outcomes}

    assert outcomes == {"p.one": "unchanged", "p.two": "copied"}


def test_a_schema_pattern_renames_on_the_way(shop: Workshop) -> None:
    """`src__{tenant}__{region}__{source}` becomes `staging__{region}__{source}`."""
    shop.add([row(1)], "src__acme__eu__shop/orders")
    shop.add([row(2)], "src__acme__us__shop/orders")
    shop.add([row(3)], "other__schema/orders")
    configure(shop, PATTERN)

    assert planned(shop) == {
        "src__acme__eu__shop.orders": "staging__eu__shop/orders",
        "src__acme__us__shop.orders": "staging__us__shop/orders",
    }
    shop.run_all()

    assert shop.ids("staging__eu__shop/orders") == [1]
    assert shop.ids("staging__us__shop/orders") == [2]
    assert shop.state("p.staging__eu__shop.orders").watermark is not None


def test_without_a_target_schema_the_name_stays(shop: Workshop) -> None:
    """The pattern then only chooses."""
    shop.add([row(1)], "src__a__b__c/orders")
    configure(shop, 'schema_pattern = "src__{tenant}__{region}__{source}"')

    assert planned(shop) == {"src__a__b__c.orders": "src__a__b__c/orders"}


def test_two_tables_with_one_target_are_refused(shop: Workshop) -> None:
    """Their rows would be mixed; both are named."""
    shop.add([row(1)], "src__acme__eu__shop/orders")
    shop.add([row(2)], "src__bolt__eu__shop/orders")
    configure(shop, PATTERN)

    with pytest.raises(SourceError) as caught:
        shop.run_all()

    assert "src__acme__eu__shop.orders and src__bolt__eu__shop.orders" in caught.value.message
    assert "staging__eu__shop.orders" in caught.value.message
    assert "pipeline.p.discovery.target_schema" in caught.value.hint
    assert not (shop.directory / "lake").exists()


def test_finding_nothing_is_a_mistake(shop: Workshop) -> None:
    """A run that copies no table because of a misspelt pattern must not look like a success."""
    shop.add([row(1)], "orders")
    configure(shop, 'include = ["odrers"]')

    with pytest.raises(SourceError, match="no table at the source matches") as caught:
        shop.run_all()

    assert "pipeline.p.discovery" in caught.value.hint


def test_settings_of_a_table_are_found_by_its_bare_name(shop: Workshop) -> None:
    """One section serves the table in every schema; its full name wins."""
    for schema in ("src__acme__eu__shop", "src__acme__us__shop"):
        shop.add([row(1)], f"{schema}/orders")
        shop.add([row(1)], f"{schema}/people")
    configure(
        shop,
        PATTERN,
        '[pipeline.p.table.orders]\nstrategy = "merge"\nprimary_key = ["id"]\n'
        '[pipeline.p.table."src__acme__us__shop.orders"]\nstrategy = "full_refresh"',
    )

    found = {t.source: t.strategy for t in shop.plan().tables}

    assert found == {
        "src__acme__eu__shop.orders": "merge",
        "src__acme__eu__shop.people": "incremental",
        "src__acme__us__shop.orders": "full_refresh",
        "src__acme__us__shop.people": "incremental",
    }


def test_tables_of_a_run_are_chosen_by_glob(shop: Workshop) -> None:
    """By source name, target name or full name; a glob that fits none is a mistake."""
    for region in ("eu", "us"):
        shop.add([row(1)], f"src__acme__{region}__shop/orders")
    configure(shop, PATTERN)

    def ran(pattern: str) -> list[str]:
        return [o.table for o in shop.run_all(tables=[pattern]).outcomes]

    assert ran("src__acme__eu__*") == ["p.staging__eu__shop.orders"]
    assert ran("staging__us__shop.orders") == ["p.staging__us__shop.orders"]
    assert len(ran("p.*")) == 2
    with pytest.raises(UsageError, match="has no table people") as caught:
        ran("people")
    assert "staging__eu__shop.orders" in caught.value.hint


def test_tables_of_a_catalog_are_discovered(shop: Workshop) -> None:
    """Databases are schemas; temporary views are no tables."""
    spark = shop.spark
    names = ("src__acme__eu__crm", "src__acme__us__crm")
    try:
        for number, name in enumerate(names):
            spark.sql(f"CREATE DATABASE {name}")
            spark.sql(
                f"CREATE TABLE {name}.people USING parquet AS SELECT {number} AS id, "
                "TIMESTAMP '2024-06-01 10:00:00Z' AS ts"
            )
        configure(shop, PATTERN, source='format = "table"')

        result = shop.run_all()
    finally:
        for name in names:
            spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")

    assert [o.status for o in result.outcomes] == ["copied", "copied"]
    assert shop.ids("staging__us__crm/people") == [1]
