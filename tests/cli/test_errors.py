"""A user's mistake, or the world's: a clear message, the right exit code, and nothing lost.

Every test ends with the trouble gone and a run that makes the copy equal to its source.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from holdfast import failpoints

from .harness import HOLDFAST, Commands, Done, Shop, copied, rows, write_rows

pytestmark = pytest.mark.spark

JAVA_TRACE = re.compile(r"\tat |\bat org\.apache\.|\bat java\.|Caused by:|py4j|Py4J")


def assert_told(done: Done, *expected: str, code: int = 1) -> None:
    """The user was told all of this, and no stack trace of any language."""
    assert done.code == code, done.said
    for text in expected:
        assert text in done.said, done.said
    assert "Traceback" not in done.said
    assert not JAVA_TRACE.search(done.out + done.err), done.said
    assert "mistake in Holdfast" not in done.said


def assert_nothing_lost(shop: Shop, cli: Commands, table: str = "orders") -> None:
    """Once the trouble is over, a run makes the copy equal to its source."""
    good = cli("run")
    assert good.code == 0, good.said
    assert shop.copy(table) == shop.source(table)


@contextmanager
def at_step(step: str, happens: Callable[[], object]) -> Iterator[None]:
    """Let something happen, once, when a table reaches a step of its copy."""
    left = [happens]

    def observe(reached: str, _table: str) -> None:
        if reached == step and left:
            left.pop()()

    failpoints.observe(observe)
    try:
        yield
    finally:
        failpoints.observe(None)
    assert left == [], f"no table reached {step}"


def test_a_bad_source_path(shop: Shop, spark_cli: Commands) -> None:
    """A path that is not there is named, with the key to look at."""
    shop.configure(source='{ format = "parquet", path = "soruce" }')

    refused = spark_cli("run")

    assert_told(
        refused,
        "shop.orders: the source is not there",
        str(shop.root / "soruce" / "orders"),
        "Check pipeline.shop.source.path",
    )
    shop.configure()
    assert_nothing_lost(shop, spark_cli)


def test_a_bad_source_path_with_discovery(shop: Shop, spark_cli: Commands) -> None:
    """A directory that is not there is told apart from one in which nothing matches."""
    for path, message in (
        ("soruce", f"shop: the source is not there: {shop.root / 'soruce'}."),
        ("source", "shop: no table at the source matches the discovery settings."),
    ):
        source = f'{{ format = "parquet", path = "{path}" }}'
        shop.configure(tables=None, source=source, discovery='{ include = ["x*"] }')

        assert_told(spark_cli("run"), message, "Check pipeline.shop.")
    shop.configure(tables=None, discovery="{}")
    assert_nothing_lost(shop, spark_cli)


def test_a_missing_watermark_column(shop: Shop, spark_cli: Commands) -> None:
    """The nearest column is suggested and the columns there are listed."""
    shop.configure(watermark='"updated"')

    refused = spark_cli("run")

    assert_told(
        refused,
        "shop.orders: the cursor column updated is not in the source. Did you mean updated_at?",
        "The source has: id, updated_at, note.",
    )
    shop.configure()
    assert_nothing_lost(shop, spark_cli)


def test_a_missing_primary_key_column(shop: Shop, spark_cli: Commands) -> None:
    """The role of the missing column is said."""
    shop.configure(strategy='"merge"', primary_key='["idd"]')

    refused = spark_cli("run")

    assert_told(
        refused, "shop.orders: the primary key column idd is not in the source. Did you mean id?"
    )
    shop.configure(strategy='"merge"', primary_key='["id"]')
    assert_nothing_lost(shop, spark_cli)


def test_a_watermark_that_cannot_order_rows(shop: Shop, spark_cli: Commands) -> None:
    """A column of a type without an order cannot be a watermark."""
    path = shop.root / "source" / "orders" / "a.parquet"
    parquet.write_table(pa.table({"id": [1], "updated_at": [True]}), path)

    assert_told(
        spark_cli("run"),
        "shop.orders: column updated_at is boolean, which cannot order rows.",
        "must be an integer, decimal, date, timestamp or string",
    )
    shop.add("orders", "a", rows(1, 5))
    assert_nothing_lost(shop, spark_cli)


def test_a_damaged_file(shop: Shop, spark_cli: Commands) -> None:
    """A Parquet file that is none is named; the copy stays as it was."""
    assert spark_cli("run").code == 0
    before = shop.copy()
    damaged = shop.root / "source" / "orders" / "b.parquet"
    damaged.write_bytes(b"this is no parquet file at all")

    refused = spark_cli("run")

    assert_told(refused, "shop.orders", "b.parquet", "damaged or not of the configured format")
    assert shop.copy() == before
    shop.add("orders", "b", rows(6, 8))
    assert_nothing_lost(shop, spark_cli)


def test_a_file_damaged_in_the_middle(shop: Shop, spark_cli: Commands) -> None:
    """A file whose footer is right but whose pages are not is found when it is read."""
    content = [(i, moment, f"{note} {os.urandom(20).hex()}") for i, moment, note in rows(1, 3000)]
    path = shop.add("orders", "a", content)
    good = path.read_bytes()
    path.write_bytes(good[:4] + b"\xff" * 20_000 + good[20_004:])

    refused = spark_cli("run")

    assert_told(refused, "shop.orders", "a.parquet", "damaged", "Nothing was committed")
    assert not (shop.root / "lake" / "orders").exists()
    path.write_bytes(good)
    assert_nothing_lost(shop, spark_cli)


def test_an_unreadable_json_file_with_a_schema(shop: Shop, spark_cli: Commands) -> None:
    """Text that does not fit the table's schema is an error of the source, not of Spark."""
    options = 'options = { mode = "FAILFAST" }, schema = "id long, updated_at timestamp"'
    shop.configure(source=f'{{ format = "json", path = "source", {options} }}')
    path = shop.root / "source" / "orders.json"
    shutil.rmtree(shop.root / "source" / "orders")
    path.write_text('{"id": 1, "updated_at": "2026-01-01T00:00:01Z"}\n{"id": 2, "upd')

    refused = spark_cli("run")

    assert_told(refused, "shop.orders")
    path.write_text('{"id": 1, "updated_at": "2026-01-01T00:00:01Z"}\n')
    assert spark_cli("run").code == 0
    assert sum(shop.copy().values()) == 1


def test_a_corrupt_configuration(shop: Shop, spark_cli: Commands) -> None:
    """A file that is no TOML is refused with the line to look at."""
    good = shop.config.read_text()
    shop.config.write_text(good + "\n[pipeline.shop\n")

    refused = spark_cli("run")

    assert_told(refused, "holdfast.toml:12:", "not valid TOML")
    shop.config.write_bytes(b"\xff\xfe" + good.encode())
    assert_told(spark_cli("run"), "holdfast.toml")
    shop.config.write_text(good)
    assert_nothing_lost(shop, spark_cli)


def test_an_unknown_format(shop: Shop, spark_cli: Commands) -> None:
    """A format Spark has no plug-in for is named, with how to add one."""
    shop.configure(source='{ format = "excel", path = "source" }')

    refused = spark_cli("run")

    assert_told(refused, "Spark has no format called excel", "spark.jars")
    shop.configure()
    assert_nothing_lost(shop, spark_cli)


def test_an_unknown_jdbc_driver(shop: Shop, spark_cli: Commands) -> None:
    """A database without a driver is refused with how to add the jar; so is a missing class."""
    for options in (
        'url = "jdbc:acme://host/db"',
        'url = "jdbc:x://h/d", driver = "no.such.Driver"',
    ):
        shop.configure(source=f'{{ format = "jdbc", options = {{ {options} }} }}')

        assert_told(spark_cli("run"), "no JDBC driver for this database", "spark.jars")
    shop.configure()
    assert_nothing_lost(shop, spark_cli)


def test_a_missing_catalog_table(shop: Shop, spark_cli: Commands) -> None:
    """A table the catalog does not know is named, with a key that exists."""
    shop.configure(source='{ format = "table", namespace = "default" }')

    assert_told(spark_cli("run"), "there is no table", "orders", "source.namespace")
    shop.configure()
    assert_nothing_lost(shop, spark_cli)


def test_a_target_below_a_file(shop: Shop, spark_cli: Commands) -> None:
    """A target that cannot be a directory is named."""
    (shop.root / "file").write_text("in the way")
    shop.configure(target='{ path = "file/lake" }')

    refused = spark_cli("run")

    assert_told(refused, "shop.orders", f"{shop.root}/file is a file, not a directory")
    assert (shop.root / "file").read_text() == "in the way"
    shop.configure()
    assert_nothing_lost(shop, spark_cli)


def test_a_target_with_foreign_files(shop: Shop, spark_cli: Commands) -> None:
    """Files Holdfast did not write are neither overwritten nor mixed with."""
    foreign = shop.root / "lake" / "orders" / "mine.parquet"
    write_rows(foreign, rows(1, 2))

    refused = spark_cli("run")

    assert_told(refused, "has files that Holdfast did not write", "--full-refresh")
    foreign.unlink()
    assert_nothing_lost(shop, spark_cli)


def test_a_target_that_vanished(shop: Shop, spark_cli: Commands) -> None:
    """A copy that was removed is missed: going on would lose what was in it."""
    assert spark_cli("run").code == 0
    shutil.rmtree(shop.root / "lake")
    shop.add("orders", "b", rows(6, 6))

    refused = spark_cli("run")

    assert_told(refused, "is gone", "holdfast run --full-refresh --table shop.orders")
    assert spark_cli("run", "--full-refresh").code == 0
    assert shop.copy() == shop.source()


def test_a_file_that_disappears_during_the_read(shop: Shop, spark_cli: Commands) -> None:
    """A source rewritten under the reader is a failed table; the next run reads the new files."""
    shop.add("orders", "b", rows(6, 9))

    with at_step("before_read", (shop.root / "source" / "orders" / "b.parquet").unlink):
        refused = spark_cli("run")

    assert_told(refused, "shop.orders", "a file disappeared during the read", "b.parquet")
    assert not (shop.root / "lake" / "orders").exists()
    shop.add("orders", "c", rows(6, 9, "rewritten"))
    assert_nothing_lost(shop, spark_cli)


def test_a_file_that_changes_during_the_read(shop: Shop, spark_cli: Commands) -> None:
    """Rows that vanish between the look and the copy keep the batch back."""
    shop.configure(strategy='"merge"', primary_key='["id"]')
    with at_step("before_read", lambda: shop.add("orders", "a", rows(1, 2))):
        refused = spark_cli("run")

    assert_told(refused, "shop.orders", "5 planned, 2 read; the source changed during the read")
    assert not (shop.root / "lake" / "orders").exists()
    assert_nothing_lost(shop, spark_cli)


def test_a_file_that_is_replaced_by_a_longer_one(shop: Shop, spark_cli: Commands) -> None:
    """Rows that come between the look and the copy are copied once, now or by the next run."""
    with at_step("before_read", lambda: shop.add("orders", "a", rows(1, 500))):
        spark_cli("run")

    assert_nothing_lost(shop, spark_cli)


def test_csv_files_with_different_headers(shop: Shop, spark_cli: Commands) -> None:
    """Columns in another order are refused instead of being mixed up."""
    options = "{ header = true, inferSchema = true }"
    shop.configure(source=f'{{ format = "csv", path = "csv", options = {options} }}')
    folder = shop.root / "csv" / "orders"
    folder.mkdir(parents=True)
    first, second = folder / "a.csv", folder / "b.csv"
    first.write_text("id,updated_at,note\n1,2026-01-01T00:00:01Z,a\n")
    second.write_text("id,note,updated_at\n2,b,2026-01-01T00:00:02Z\n")

    refused = spark_cli("run")

    assert_told(refused, "shop.orders", "CSV files do not all have the same header")
    second.write_text("id,updated_at,note\n2,2026-01-01T00:00:02Z,b\n")
    assert spark_cli("run").code == 0
    assert {row[0] for row in shop.copy()} == {1, 2}


def test_columns_that_differ_in_case_only(shop: Shop, spark_cli: Commands) -> None:
    """Two columns Spark cannot tell apart are named."""
    options = "{ header = true, inferSchema = true }"
    shop.configure(source=f'{{ format = "csv", path = "csv", options = {options} }}')
    (shop.root / "csv").mkdir()
    path = shop.root / "csv" / "orders.csv"
    path.write_text("id,updated_at,note,Note\n1,2026-01-01T00:00:01Z,a,b\n")

    refused = spark_cli("run")

    assert_told(refused, "shop.orders", "note", "Rename one of them at the source.")
    path.write_text("id,updated_at,note\n1,2026-01-01T00:00:01Z,a\n")
    assert spark_cli("run").code == 0


def test_parquet_columns_that_differ_in_case_only(shop: Shop, spark_cli: Commands) -> None:
    """The same in a format that has the two columns in its schema."""
    path = shop.root / "source" / "orders" / "b.parquet"
    table = parquet.read_table(shop.root / "source" / "orders" / "a.parquet", partitioning=None)
    parquet.write_table(table.append_column("Note", table["note"]), path)

    refused = spark_cli("run")

    assert_told(refused, "shop.orders", "note", "Rename one of them at the source.")
    path.unlink()
    assert_nothing_lost(shop, spark_cli)


def test_a_table_called_cancelled(shop: Shop, spark_cli: Commands) -> None:
    """A word in a table's name is not taken for what happened to it."""
    shop.configure(tables=["cancelled"], source='{ format = "parquet", path = "source" }')
    damaged = shop.root / "source" / "cancelled" / "a.parquet"
    damaged.parent.mkdir()
    damaged.write_bytes(b"no parquet file")

    refused = spark_cli("run")

    assert_told(refused, "damaged or not of the configured format")


def test_rows_without_a_watermark(shop: Shop, spark_cli: Commands) -> None:
    """A null where the watermark should be is refused, with both ways out."""
    shop.add("orders", "b", [(6, None, "no time")])  # type: ignore[list-item]  # the null is the point

    refused = spark_cli("run")

    assert_told(refused, "1 row(s) have no updated_at", 'null_watermark = "skip"')
    (shop.root / "source" / "orders" / "b.parquet").unlink()
    assert_nothing_lost(shop, spark_cli)


def test_a_type_that_does_not_widen(shop: Shop, spark_cli: Commands) -> None:
    """A column that changed its type is refused and the copy stays readable."""
    assert spark_cli("run").code == 0
    path = shop.root / "source" / "orders" / "a.parquet"
    table = parquet.read_table(path, partitioning=None)
    parquet.write_table(table.set_column(2, "note", pa.array([1.5] * 5)), path)

    refused = spark_cli("run")

    assert_told(refused, "column note was string, is double", "--full-refresh")
    shop.add("orders", "a", rows(1, 6))
    assert_nothing_lost(shop, spark_cli)


def test_two_runs_at_once(shop: Shop, spark_cli: Commands) -> None:
    """The second run is refused at once, and is told which process is in its way."""
    second: list[subprocess.CompletedProcess[str]] = []

    def run_again() -> None:
        words = [HOLDFAST, "run"]
        second.append(
            subprocess.run(words, cwd=shop.root, capture_output=True, text=True, check=False)
        )
        words = [HOLDFAST, "state", "delete", "shop.orders", "--yes"]
        second.append(
            subprocess.run(words, cwd=shop.root, capture_output=True, text=True, check=False)
        )

    with at_step("after_write", run_again):
        first = spark_cli("run")

    assert first.code == 0
    for refused in second:
        told = Done(refused.returncode, refused.stdout, refused.stderr)
        assert_told(
            told, f"Pipeline shop is being run by process {os.getpid()} on", f"kill {os.getpid()}"
        )
    assert_nothing_lost(shop, spark_cli)


def test_a_locked_ledger(shop: Shop, spark_cli: Commands) -> None:
    """A ledger that another process holds says which one, and is as before afterwards."""
    assert spark_cli("run").code == 0
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", program, str(shop.ledger)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused = spark_cli("run")
        shown = spark_cli("state", "show")
        holder.communicate()

    assert_told(refused, str(shop.ledger), f"is being written by process {holder.pid} (", "Wait")
    assert shown.code == 0
    assert_nothing_lost(shop, spark_cli)


def test_a_ledger_that_is_no_database(shop: Shop, spark_cli: Commands) -> None:
    """Somebody else's file is neither read nor overwritten."""
    shop.ledger.parent.mkdir()
    text = "These are my notes, and they are longer than a header of a database.\n" * 20
    shop.ledger.write_text(text)

    refused = spark_cli("run")

    assert_told(refused, str(shop.ledger))
    assert shop.ledger.read_text() == text
    shop.ledger.unlink()
    assert_nothing_lost(shop, spark_cli)


def test_a_ledger_of_another_program(shop: Shop, spark_cli: Commands) -> None:
    """Another program's database is refused by the name of its tables."""
    shop.ledger.parent.mkdir()
    with sqlite3.connect(shop.ledger) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")

    assert_told(spark_cli("run"), "a database of another program", "bookmarks")
    shop.ledger.unlink()
    assert_nothing_lost(shop, spark_cli)


def test_a_ledger_of_a_newer_format(shop: Shop, spark_cli: Commands) -> None:
    """A ledger from the future names the command that helps, and is not touched."""
    assert spark_cli("run").code == 0
    with sqlite3.connect(shop.ledger) as database:
        database.execute("PRAGMA user_version = 99")

    for words in (("run",), ("state", "show"), ("state", "migrate")):
        assert_told(spark_cli(*words), "has format 99", "pip install --upgrade .")

    with sqlite3.connect(shop.ledger) as database:
        database.execute("PRAGMA user_version = 1")
    assert_nothing_lost(shop, spark_cli)


def test_a_ledger_below_a_file(shop: Shop, cli: Commands) -> None:
    """A ledger that cannot be made is refused before Spark is started."""
    (shop.root / ".holdfast").write_text("in the way")

    refused = cli("run")

    assert_told(refused, str(shop.ledger), "not a directory")


def test_full_disks(shop: Shop, spark_cli: Commands) -> None:
    """Without space for a batch or the ledger a run says so; with more space nothing is lost."""
    program = Path(__file__).with_name("full_disks.py")
    # Small disks of our own: nobody else sees what is mounted in there.
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, program],
        cwd=shop.root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    full = {name: Done(*found) for name, found in json.loads(done.stdout).items()}
    assert_told(full["target"], "target.orders", "no space left on the disk", "Free some space")
    assert_told(full["ledger"], "ledger/state/ledger.db", "Free some space")
    # What was on the small disks is on a big one now.
    for name in full:
        good = spark_cli("--state-path", f"{name}/state/ledger.db", "run", name)
        assert good.code == 0, good.said
        assert copied(shop.root / name / "lake" / "orders") == shop.source()
