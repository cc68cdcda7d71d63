"""Copying from a real PostgreSQL through JDBC."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cli.harness import HOLDFAST, at, read_files, visible_files
from holdfast import failpoints

from .conftest import Database
from .server import JDBC_JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, updated_at timestamptz, note text)"
ALL = "SELECT id, updated_at, note FROM orders"


def insert(database: Database, first: int, last: int, *, table: str = "orders") -> None:
    """Add rows, one a second, each a microsecond past it."""
    for i in range(first, last + 1):
        database.execute(
            f"INSERT INTO {table} VALUES (%s, %s, %s)", i, at(i + 0.000001), f"row {i}"
        )


def succeed(database: Database, *words: str) -> dict[str, Any]:
    """Run the pipeline and return what it says of its only run."""
    done = database.run("run", *words, "--output", "json")
    assert done.code == 0, done.said
    [run] = done.json["runs"]
    assert isinstance(run, dict)
    return run


def test_incremental_with_ties(database: Database) -> None:
    """Microseconds are kept, and rows that share one are told apart by the second column."""
    database.execute(ORDERS)
    insert(database, 1, 5)
    database.shop.configure(source=database.source(), watermark="", cursor='["updated_at", "id"]')
    first = succeed(database)
    moment = at(5.000001)
    for i in (6, 7):
        database.execute("INSERT INTO orders VALUES (%s, %s, 'tie')", i, moment)
    second = succeed(database)
    third = succeed(database)

    assert (first["rows"], second["rows"], third["rows"]) == (5, 2, 0)
    assert second["tables"][0]["high"] == {
        "updated_at": "2026-01-01T00:00:05.000001Z",
        "id": "7",
    }
    assert database.copied("orders") == database.rows(ALL)


def test_rows_without_a_tie_breaker_are_refused(database: Database) -> None:
    """A null in any column of the cursor can be placed nowhere, so it is not passed over."""
    database.execute("CREATE TABLE orders (id bigint, updated_at timestamptz, note text)")
    insert(database, 1, 3)
    database.execute("INSERT INTO orders VALUES (NULL, %s, 'no id')", at(3.000001))
    database.shop.configure(source=database.source(), watermark="", cursor='["updated_at", "id"]')

    refused = database.run("run")
    database.execute("UPDATE orders SET id = 4 WHERE id IS NULL")
    succeed(database)

    assert refused.code == 1
    assert "1 row(s) have no updated_at" in refused.said
    assert database.copied("orders") == database.rows(ALL)


def test_a_machine_that_is_not_in_utc(database: Database) -> None:
    """Times with and without a zone arrive unchanged from a machine in another time zone."""
    database.execute(
        "CREATE TABLE events (id bigint, with_zone timestamptz, without_zone timestamp)"
    )
    # In New York the first of these local times does not exist, and the second is there twice.
    texts = ["2026-03-08 02:30:00.000001", "2025-11-02 01:30:00.123456", "2026-03-08 07:00:00"]
    for i, text in enumerate(texts):
        database.execute("INSERT INTO events VALUES (%s, %s, %s)", i, f"{text}+00", text)
    shop = database.shop
    shop.write_config(
        *(
            shop.section(
                f"by_{column}",
                tables=["events"],
                source=database.source(),
                target=f'{{ path = "lake/{column}" }}',
                watermark=f'"{column}"',
            )
            for column in ("with_zone", "without_zone")
        )
    )
    text = shop.config.read_text()
    shop.config.write_text(text.replace("conf = {", f'conf = {{ "spark.jars" = "{JDBC_JAR}",'))
    elsewhere = {**os.environ, "TZ": "America/New_York"}

    done = subprocess.run(
        [HOLDFAST, "run"], cwd=shop.root, env=elsewhere, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
    assert "2026-03-08T07:00:00" in done.stdout
    # What a first run over there remembered, a second one over here goes on from.
    database.execute("INSERT INTO events VALUES (9, '2026-03-08 07:00:00.000001+00', %s)", texts[2])
    database.execute("UPDATE events SET without_zone = '2026-03-08 07:00:00.000001' WHERE id = 9")
    again = database.run("run", "-o", "json")
    assert [run["rows"] for run in again.json["runs"]] == [1, 1]
    expected = {
        (row[0], row[1], row[2].replace(tzinfo=UTC))
        for row in database.rows("SELECT id, with_zone, without_zone FROM events")
    }
    for column in ("with_zone", "without_zone"):
        assert set(database.copied(f"{column}/events")) == expected


def test_merge_with_overlap(database: Database) -> None:
    """Updates replace rows, and a transaction that committed late is found in the overlap."""
    database.execute(ORDERS)
    insert(database, 1, 5)
    database.shop.configure(
        source=database.source(),
        strategy='"merge"',
        primary_key='["id"]',
        overlap='"10 seconds"',
    )
    assert succeed(database)["rows"] == 5
    database.execute("UPDATE orders SET note = 'new', updated_at = %s WHERE id = 2", at(6))
    succeed(database)
    assert database.copied("orders") == database.rows(ALL)
    # Stamped before the watermark, committed after the run that passed it.
    database.execute("INSERT INTO orders VALUES (7, %s, 'late')", at(5.5))

    late = succeed(database)

    assert late["tables"][0]["reason"] == "late_rows"
    assert database.copied("orders") == database.rows(ALL)
    assert succeed(database)["tables"][0]["status"] == "unchanged"


def test_names_in_mixed_case(database: Database) -> None:
    """Columns with capitals, spaces and quotes in their names are found and kept."""
    database.execute(
        'CREATE TABLE orders ("Id" bigint, "updatedAt" timestamptz, "it\'s a ""note""" text)'
    )
    insert(database, 1, 3)
    database.shop.configure(source=database.source(), watermark="", cursor='["updatedAt", "Id"]')
    succeed(database)
    insert(database, 4, 5)
    succeed(database)

    [*columns, _, _, _] = read_files(visible_files(database.shop.root / "lake" / "orders"))[0]
    assert columns == ["Id", "updatedAt", 'it\'s a "note"']
    assert database.copied("orders") == database.rows("SELECT * FROM orders")


def test_a_listed_table_in_mixed_case(database: Database) -> None:
    """A table's name is taken as it is written, though PostgreSQL would fold its case."""
    database.execute('CREATE TABLE "Orders" (id int, updated_at timestamptz, n text)')
    insert(database, 1, 3, table='"Orders"')
    database.shop.configure(source=database.source(), tables=["Orders"])

    succeed(database)

    assert database.copied("Orders") == database.rows('SELECT * FROM "Orders"')


def test_discovery_by_schema(database: Database) -> None:
    """Tables of the schemas that fit are copied to where they are renamed to; views are not."""
    for schema in ("src__acme__eu__shop", "src__acme__us__shop", "other"):
        database.execute(f"CREATE SCHEMA {schema}")
        for table in ("orders", "tmp_orders", '"MixedCase"'):
            database.execute(
                f"CREATE TABLE {schema}.{table} (id int, updated_at timestamptz, n text)"
            )
            insert(database, 1, 2, table=f"{schema}.{table}")
        database.execute(f"CREATE VIEW {schema}.recent AS SELECT * FROM {schema}.orders")
    database.shop.configure(
        source=database.source(),
        discovery='{ schema_pattern = "src__{tenant}__{region}__{source}", '
        'target_schema = "staging__{region}__{source}", exclude = ["tmp_*"] }',
        tables=None,
    )

    run = succeed(database)

    assert [table["table"] for table in run["tables"]] == [
        "shop.staging__eu__shop.MixedCase",
        "shop.staging__eu__shop.orders",
        "shop.staging__us__shop.MixedCase",
        "shop.staging__us__shop.orders",
    ]
    expected = database.rows("SELECT * FROM src__acme__eu__shop.orders")
    assert database.copied("staging__eu__shop/orders") == expected
    assert database.copied("staging__us__shop/MixedCase") == expected


def test_discovery_without_a_pattern(database: Database) -> None:
    """With a namespace only its tables are found, also when another schema has the same names."""
    database.execute("CREATE SCHEMA sales")
    database.execute("CREATE SCHEMA archive")
    for schema in ("sales", "archive"):
        database.execute(f"CREATE TABLE {schema}.orders (id int, updated_at timestamptz, n text)")
        insert(database, 1, 2, table=f"{schema}.orders")
    insert(database, 3, 3, table="sales.orders")
    shop = database.shop
    for namespace, tables in (
        ("sales", ["shop.orders"]),
        ("", ["shop.archive.orders", "shop.sales.orders"]),
    ):
        shop.configure(
            source=database.source(namespace=namespace),
            target=f'{{ path = "lake/{namespace or "all"}" }}',
            discovery="{}",
            tables=None,
        )

        found = database.run("--state-path", f"{namespace or 'all'}.db", "run", "-o", "json")

        assert found.code == 0, found.said
        assert [table["table"] for table in found.json["runs"][0]["tables"]] == tables
    assert database.copied("sales/orders") == database.rows("SELECT * FROM sales.orders")
    assert database.copied("all/sales/orders") == database.rows("SELECT * FROM sales.orders")


def test_partitioned_reads(database: Database) -> None:
    """The options for reading a table in parts work, also with discovery."""
    database.execute(ORDERS)
    insert(database, 1, 30)
    options = (
        'partitionColumn = "id", lowerBound = "1", upperBound = "31", numPartitions = "3", '
        'fetchsize = "5"'
    )
    database.shop.configure(source=database.source(options), discovery="{}", tables=None)
    since = database.log_size()

    succeed(database)

    parts = [s for s in database.statements(since) if '"id" >= 11' in s or '"id" >= 21' in s]
    assert parts
    assert database.copied("public/orders") == database.rows(ALL)
    insert(database, 31, 33)
    assert succeed(database)["rows"] == 3
    assert succeed(database)["tables"][0]["status"] == "unchanged"


def test_types(database: Database) -> None:
    """Every common type arrives with its value."""
    database.execute(
        "CREATE TABLE orders (id bigint, updated_at timestamptz, money numeric(20, 4), "
        "any_number numeric, identity uuid, document jsonb, plain json, numbers int[], "
        "words text[], bytes bytea, day date, yes boolean, ratio double precision, small smallint)"
    )
    database.execute(
        "INSERT INTO orders VALUES (1, %s, 1234567890123456.7891, 0.000000000000000001, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": [1, null]}', '{\"b\":  2}', "
        "'{1,2,NULL}', '{\"a b\",c}', '\\x00ff10', '2026-02-28', true, 0.1, -7)",
        at(1),
    )
    database.execute("INSERT INTO orders (id, updated_at) VALUES (2, %s)", at(2))
    database.shop.configure(source=database.source(), strategy='"merge"', primary_key='["id"]')
    succeed(database)
    database.execute("UPDATE orders SET updated_at = %s WHERE id = 2", at(3))
    succeed(database)

    full, empty = sorted(
        read_files(visible_files(database.shop.root / "lake" / "orders")), key=lambda r: r["id"]
    )
    assert full["money"] == Decimal("1234567890123456.7891")
    assert full["any_number"] == Decimal("0.000000000000000001")
    assert full["identity"] == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert (full["document"], full["plain"]) == ('{"a": [1, null]}', '{"b":  2}')
    assert (full["numbers"], full["words"]) == ([1, 2, None], ["a b", "c"])
    assert full["bytes"] == b"\x00\xff\x10"
    assert (str(full["day"]), full["yes"], full["ratio"], full["small"]) == (
        "2026-02-28",
        True,
        0.1,
        -7,
    )
    assert {name for name, value in empty.items() if value is not None} == {
        "id",
        "updated_at",
        "_loaded_by",
        "_loaded_at",
        "_batch_id",
    }


@pytest.mark.parametrize("step", ["before_read", "after_write"])
def test_rows_committed_during_the_read(database: Database, step: str) -> None:
    """Rows that commit while a batch is read are in the next one, each exactly once."""
    database.execute(ORDERS)
    insert(database, 1, 3)
    database.shop.configure(source=database.source(), watermark="", cursor='["updated_at", "id"]')

    def commit_meanwhile(reached: str, _table: str) -> None:
        if reached == step:
            failpoints.observe(None)
            # One that ties with the upper bound of the batch, one past it.
            database.execute("INSERT INTO orders VALUES (4, %s, 'tie')", at(3.000001))
            insert(database, 5, 5)

    failpoints.observe(commit_meanwhile)
    try:
        first = succeed(database)
    finally:
        failpoints.observe(None)
    second = succeed(database)

    assert (first["rows"], second["rows"]) == (3, 2)
    assert database.copied("orders") == database.rows(ALL)


def test_the_database_does_the_filtering(database: Database) -> None:
    """Only new rows leave the database: it counts, and it applies the watermark."""
    database.execute(ORDERS)
    insert(database, 1, 5)
    database.shop.configure(source=database.source())
    succeed(database)
    insert(database, 6, 7)
    since = database.log_size()

    succeed(database)

    asked = database.statements(since)
    counts = [s for s in asked if "COUNT(*)" in s and 'MAX("updated_at")' in s]
    assert len(counts) == 1
    reads = [s for s in asked if "FROM orders" in s and "COUNT" not in s]
    assert reads
    for statement in reads:
        assert """"updated_at" > '2026-01-01 00:00:05.000001'""" in statement
    assert any("""<= '2026-01-01 00:00:07.000001'""" in statement for statement in reads)


@pytest.mark.parametrize("cursor", ['["updated_at"]', '["updated_at", "id"]'])
def test_no_change_is_two_jobs_at_most(
    database: Database, spark: SparkSession, cursor: str
) -> None:
    """Finding out that there is nothing new costs at most two Spark jobs."""
    database.execute(ORDERS)
    insert(database, 1, 5)
    database.shop.configure(source=database.source(), watermark="", cursor=cursor)
    succeed(database)
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())

    assert succeed(database)["tables"][0]["status"] == "unchanged"

    assert len(set(tracker.getJobIdsForGroup()) - before) <= 2


def test_rows_from_the_future_wait(database: Database) -> None:
    """A row stamped far ahead neither moves the watermark nor gets lost once its time comes."""
    database.execute(ORDERS)
    insert(database, 1, 2)
    ahead = datetime.now(UTC) + timedelta(days=1)
    database.execute("INSERT INTO orders VALUES (9, %s, 'ahead')", ahead)
    database.shop.configure(source=database.source())

    first = succeed(database)
    database.execute("UPDATE orders SET updated_at = %s WHERE id = 9", at(9))
    second = succeed(database)

    assert (first["rows"], second["rows"]) == (2, 1)
    assert "1 row(s) lie more than" in first["tables"][0]["notes"][0]
    assert database.copied("orders") == database.rows(ALL)


def test_full_refresh_of_a_table_without_a_cursor(database: Database) -> None:
    """A table without a watermark is copied whole."""
    database.execute("CREATE TABLE orders (id int, note text)")
    database.execute("INSERT INTO orders VALUES (1, 'a'), (1, 'a'), (2, NULL)")
    database.shop.configure(source=database.source(), watermark="", strategy='"full_refresh"')
    succeed(database)
    database.execute("DELETE FROM orders WHERE id = 2")
    succeed(database)

    assert database.copied("orders") == database.rows("SELECT * FROM orders")
