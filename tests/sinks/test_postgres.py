"""Batches delivered to a table in a real PostgreSQL, exactly once."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest

from holdfast import failpoints
from holdfast.config.sinks import PostgresSink as PostgresConfig
from holdfast.errors import ConfigError, SinkRefused, SinkUnavailable, SparkFailed
from holdfast.model import Token
from holdfast.spark.sinks import postgres_batches, postgres_staging
from holdfast.spark.sinks.contract import Delivery, Receipt
from holdfast.spark.sinks.postgres import PostgresSink
from holdfast.testing.sinks import Row, SinkConformance
from postgres.server import PASSWORD, USER, Server, find_programs, free_port, running_server

from .postgres_server import outage, stopped_at_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

ORDERS = pa.schema({"id": pa.int64(), "item": pa.string(), "qty": pa.int32()})
FAILPOINTS = ["postgres.staged", "postgres.before_commit", "postgres.after_commit"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all tests; without one they are skipped here, and fail in CI."""
    programs = find_programs()
    if programs is None:
        reason = "needs PostgreSQL in /usr/lib/postgresql"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with running_server(programs) as running, stopped_at_the_end(running):
        with running.connect() as admin:
            admin.execute("CREATE DATABASE warehouse TEMPLATE template0")
        yield running


@dataclass
class Database:
    """A database, and what is in it, seen without the sink."""

    server: Server
    name: str
    spark: SparkSession

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.server.port}/{self.name}"

    def sink(self, table: str = "public.orders", **settings: Any) -> PostgresSink:
        """Open a sink, as a process that starts does."""
        url = settings.pop("url", self.url)
        values = {"name": "out", "type": "postgres", "url": self.url, "table": table, **settings}
        config = PostgresConfig(**values).model_copy(update={"url": url})
        return PostgresSink(config, pipeline="shop", spark=self.spark)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute and commit one statement, and return its rows."""
        with self.server.connect(self.name) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(self, table: str = "public.orders") -> Counter[tuple[Any, ...]]:
        """The rows of a table, as a multiset."""
        return Counter(self.execute(f"SELECT * FROM {table}"))

    def token(self) -> tuple[Any, ...]:
        """The last token and its number of rows."""
        (row,) = self.execute("SELECT generation, epoch, rows FROM holdfast.tokens")
        return row

    def staging(self) -> list[str]:
        """The staging tables there are."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'"
        return sorted(name for (name,) in self.execute(query) if name != "tokens")

    def orders(self, *rows: tuple[Any, ...]) -> DataFrame:
        """A batch of orders, in two partitions if there are two."""
        return self.spark.createDataFrame(
            pa.Table.from_pylist(
                [dict(zip(ORDERS.names, row, strict=True)) for row in rows], schema=ORDERS
            )
        )


@pytest.fixture
def database(server: Server, spark: SparkSession) -> Iterator[Database]:
    """A database as empty as a new one, and sooner ready."""
    empty = Database(server, "warehouse", spark)
    empty.execute("DROP SCHEMA IF EXISTS public, holdfast, attic CASCADE")
    empty.execute("CREATE SCHEMA public")
    empty.execute("GRANT USAGE ON SCHEMA public TO public")
    empty.execute("ALTER DATABASE warehouse RESET ALL")
    yield empty
    failpoints.observe(None)


@pytest.fixture(params=["handed over", "staged"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows that are few go by the driver; here they are once made to go the way of the many."""
    if request.param == "staged":
        monkeypatch.setattr(postgres_staging, "INLINE_BYTES", 0)
    return str(request.param)


class TestTable(SinkConformance):
    """The conformance suite over a table that rows are appended to."""

    takes_rows_back = True
    secrets = (PASSWORD,)

    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def open(self, spark: SparkSession) -> PostgresSink:
        del spark
        return self.database.sink(epoch_column="epoch")

    def read(self) -> list[Row]:
        if self.database.execute("SELECT to_regclass('public.orders')") == [(None,)]:
            return []
        return [(i, name) for i, name in self.database.execute("SELECT id, name FROM orders")]


def deliver(
    sink: PostgresSink, frame: DataFrame, epoch: int = 1, generation: int = 1, batch: str = ""
) -> Receipt:
    return sink.deliver(Delivery(Token("shop", generation, epoch, batch), frame, frame.schema))


def keyed(mode: str, key: str) -> dict[str, Any]:
    return {"mode": mode, "key": [key]} if mode == "upsert" else {}


FIRST = ((1, "tea", 2), (2, "rice", None), (2, "rice", None))
SECOND = ((3, "salt", 1), (1, "tea", 5))


def test_append(database: Database, route: str) -> None:
    """Every row of every batch is added, equal ones as often as they come."""
    sink = database.sink()

    assert deliver(sink, database.orders(*FIRST), 1) == Receipt(3)
    assert deliver(sink, database.orders(*SECOND), 2) == Receipt(2)

    assert database.rows() == Counter([*FIRST, *SECOND])
    assert database.token() == (1, 2, 2)
    assert database.staging() == []


def test_upsert(database: Database, route: str) -> None:
    """A row replaces the one of its key; of several of one key in a batch one is taken."""
    sink = database.sink(mode="upsert", key=["id"])

    deliver(sink, database.orders((1, "tea", 2), (2, "rice", 1), (2, "rice", 9)), 1)
    one_of_two = database.execute("SELECT qty FROM orders WHERE id = 2")
    deliver(sink, database.orders((3, "salt", 1), (2, None, None)), 2)

    assert one_of_two in ([(1,)], [(9,)])
    assert database.rows() == Counter([(1, "tea", 2), (2, None, None), (3, "salt", 1)])
    assert database.staging() == []


def test_upsert_of_nothing_but_keys(database: Database) -> None:
    """A table whose columns are all key keeps one row each."""
    sink = database.sink(mode="upsert", key=["id", "item", "qty"])
    for epoch in (1, 2):
        deliver(sink, database.orders((1, "tea", 2)), epoch)

    assert database.rows() == Counter([(1, "tea", 2)])


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_replay(database: Database, mode: str) -> None:
    """A token that comes again changes nothing, whichever process brings it."""
    settings = keyed(mode, "id")
    batch = database.orders((1, "tea", 2), (2, "rice", 1))
    deliver(database.sink(**settings), batch)

    assert deliver(database.sink(**settings), batch) == Receipt(2, repeated=True)
    assert database.rows() == Counter([(1, "tea", 2), (2, "rice", 1)])


@pytest.mark.parametrize(("generation", "epoch"), [(2, 4), (1, 9)])
def test_overtaken(database: Database, generation: int, epoch: int) -> None:
    """A token before the last one is refused: its process was overtaken."""
    sink = database.sink()
    deliver(sink, database.orders(*FIRST), epoch=5, generation=2)

    with pytest.raises(SinkRefused, match="comes too late"):
        deliver(sink, database.orders(*SECOND), epoch, generation)

    assert database.rows() == Counter(FIRST)
    assert database.token() == (2, 5, 3)


def test_overtaken_in_the_middle(database: Database, route: str) -> None:
    """A process that is overtaken while it delivers writes nothing."""
    newer = database.orders(*SECOND)

    def overtake(step: str, _: str) -> None:
        if step == "postgres.staged":
            failpoints.observe(None)
            deliver(database.sink(), newer, epoch=1, generation=2)

    failpoints.observe(overtake)
    with pytest.raises(SinkRefused, match="comes too late"):
        deliver(database.sink(), database.orders(*FIRST), epoch=1, generation=1)

    assert database.rows() == Counter(SECOND)


def test_two_at_the_same_time(database: Database) -> None:
    """A process that comes while another one loads its rows waits, and sees what it did."""
    deliver(database.sink(), database.orders(*FIRST), epoch=1)
    database.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END'"
    )
    database.execute("CREATE TRIGGER slow BEFORE INSERT ON orders EXECUTE FUNCTION wait()")
    with ThreadPoolExecutor(2) as processes, psycopg.connect(database.url) as gate:
        gate.execute("SELECT pg_advisory_xact_lock(1)")
        newer = processes.submit(deliver, database.sink(), database.orders(*SECOND), epoch=3)
        wait_for_waiting(database, 1)
        older = processes.submit(deliver, database.sink(), database.orders(*FIRST), epoch=2)
        wait_for_waiting(database, 2)
        gate.commit()

        assert newer.result(30) == Receipt(2)
        with pytest.raises(SinkRefused, match="comes too late"):
            older.result(30)
    assert database.rows() == Counter([*FIRST, *SECOND])


def wait_for_waiting(database: Database, count: int) -> None:
    """Return once so many connections wait for a lock."""
    query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    deadline = time.monotonic() + 20
    while len(database.execute(query)) < count:
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.02)


def test_the_same_batch_from_two_processes(database: Database, route: str) -> None:
    """Two processes that deliver the same batch at the same time deliver it once."""
    batch = database.orders(*FIRST)

    def deliver_too(step: str, _: str) -> None:
        if step == "postgres.staged":
            failpoints.observe(None)
            deliver(database.sink(), batch)

    failpoints.observe(deliver_too)

    assert deliver(database.sink(), batch) == Receipt(3, repeated=True)
    assert database.rows() == Counter(FIRST)


def test_other_rows_from_two_processes(database: Database, route: str) -> None:
    """Of two ledgers that drive one table at the same time the slower one is refused."""
    quick = database.orders(*SECOND)

    def deliver_too(step: str, _: str) -> None:
        if step == "postgres.staged":
            failpoints.observe(None)
            deliver(database.sink(), quick, batch="quick")

    failpoints.observe(deliver_too)

    with pytest.raises(SinkRefused, match="other rows under epoch 1 of generation 1"):
        deliver(database.sink(), database.orders(*FIRST), batch="slow")
    assert database.rows() == Counter(SECOND)


def test_tokens_without_a_batch(database: Database) -> None:
    """A table of tokens from before they named a batch is used as it is, and gets the column."""
    batch = database.orders(*FIRST)
    deliver(database.sink(), batch)
    database.execute("ALTER TABLE holdfast.tokens DROP COLUMN batch")

    assert deliver(database.sink(), batch, batch="first") == Receipt(3, repeated=True)
    deliver(database.sink(), database.orders(*SECOND), epoch=2, batch="second")

    assert database.execute("SELECT epoch, batch FROM holdfast.tokens") == [(2, "second")]


class Crash(Exception):
    """The process ends here."""


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("step", FAILPOINTS)
def test_crash(database: Database, mode: str, step: str, route: str) -> None:
    """After a crash at any step the same batch arrives exactly once, and no staging is left."""
    settings = keyed(mode, "id")
    deliver(database.sink(**settings), database.orders((1, "tea", 2)), 1)
    batch = database.orders((2, "rice", 1), (3, "salt", 1), (4, "salt", 1))

    def crash(reached: str, _: str) -> None:
        if reached == step:
            raise Crash

    failpoints.observe(crash)
    with pytest.raises(Crash):
        deliver(database.sink(**settings), batch, 2)
    failpoints.observe(None)
    delivered = step == "postgres.after_commit"
    assert sum(database.rows().values()) == (4 if delivered else 1)

    assert deliver(database.sink(**settings), batch, 2) == Receipt(3, repeated=delivered)
    assert database.rows() == Counter(
        [(1, "tea", 2), (2, "rice", 1), (3, "salt", 1), (4, "salt", 1)]
    )
    assert database.staging() == []


def test_staging_of_others_stays(database: Database) -> None:
    """What a newer process, or another sink, has staged is not swept away."""
    sink = database.sink()
    deliver(sink, database.orders(*FIRST), 1)
    tokens = sink._tokens
    older, newer = (tokens.new_prefix(Token("shop", 1, epoch)) + "0_0" for epoch in (1, 3))
    for name in (older, newer, "s_of_another_1_1_0_0_0"):
        database.execute(f"CREATE TABLE holdfast.{name} (id bigint)")

    deliver(sink, database.orders(*SECOND), 2)

    assert database.staging() == sorted([newer, "s_of_another_1_1_0_0_0"])


@pytest.mark.parametrize("loss", ["TRUNCATE", "DROP TABLE"])
def test_staged_rows_that_are_gone(
    database: Database, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that crashes empties unlogged tables: such a batch is not taken for delivered."""
    monkeypatch.setattr(postgres_staging, "INLINE_BYTES", 0)
    sink = database.sink()

    def lose(step: str, _: str) -> None:
        if step == "postgres.staged":
            database.execute(f"{loss} holdfast.{database.staging()[0]}")

    failpoints.observe(lose)
    with pytest.raises(SinkUnavailable, match="staged rows are gone"):
        deliver(sink, database.orders(*FIRST))
    failpoints.observe(None)

    assert deliver(sink, database.orders(*FIRST)) == Receipt(3)
    assert database.rows() == Counter(FIRST)


def test_sizes_that_change(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, a large one and small ones again all arrive whole."""
    monkeypatch.setattr(postgres_batches, "DIRECT_ROWS", 50)
    sink = database.sink("sizes")
    for epoch, count in enumerate((50, 50, 60, 3, 0, 0, 1)):
        frame = database.spark.range(count, numPartitions=3)
        assert deliver(sink, frame, epoch) == Receipt(count)

    assert sum(database.rows("sizes").values()) == 164


def test_many_partitions(database: Database) -> None:
    """Tasks with much stage it, tasks with little hand it over, and all of it arrives."""
    frame = database.spark.range(40_000, numPartitions=5).selectExpr(
        "id", "if(id < 8000, repeat('x', 200), 'y') AS filler"
    )
    seen: list[str] = []

    def look(step: str, _: str) -> None:
        if step == "postgres.staged":
            seen.extend(database.staging())

    failpoints.observe(look)

    assert deliver(database.sink("many"), frame) == Receipt(40_000)
    assert len(seen) == 1
    assert database.execute(
        "SELECT count(*), count(DISTINCT id), sum(length(filler)) FROM many"
    ) == [(40_000, 40_000, 8000 * 200 + 32_000)]


def test_an_empty_batch(database: Database, route: str) -> None:
    """A batch without rows makes the table and moves the token."""
    assert deliver(database.sink(), database.orders()) == Receipt(0)
    assert database.rows() == Counter()
    assert database.token() == (1, 1, 0)


TYPES = """
SELECT true AS a_boolean, 1Y AS a_tinyint, 2S AS a_smallint, 3 AS an_int, 4L AS a_bigint,
  float('0.1') AS a_float, double('NaN') AS a_double, double('-Infinity') AS an_infinity,
  123.450BD AS a_decimal, 'text' AS a_string, X'00ff5c' AS a_binary, DATE'2024-02-29' AS a_date,
  timestamp_micros(1603586400123456L) AS a_timestamp, timestamp_micros(1603590000000000L) AS later,
  TIMESTAMP_NTZ'2024-03-31 02:30:00.000001' AS a_wall_clock,
  array(1, null) AS ints, array('a,"b"', '\\\\', null, '', 'NULL') AS strings,
  array(X'5c22') AS binaries, array(DATE'2024-02-29') AS dates, array(array(1), null) AS nested,
  array(timestamp_micros(1603586400123456L)) AS instants,
  named_struct('x', 1, 'y', CAST(null AS string), 'z', 'a"\\t') AS a_struct, map('k', 1.5D) AS a_map
"""


def test_types(database: Database, spark: SparkSession) -> None:
    """Every type has its own in PostgreSQL, and no value changes on the way."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    # Both instants are 2:00 or so in Berlin: the hour that came twice.
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        deliver(database.sink("kinds"), spark.sql(TYPES))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    instant = datetime(2020, 10, 25, 0, 40, 0, 123456, tzinfo=UTC)
    expected: dict[str, tuple[str, Any]] = {
        "a_boolean": ("boolean", True),
        "a_tinyint": ("smallint", 1),
        "a_smallint": ("smallint", 2),
        "an_int": ("integer", 3),
        "a_bigint": ("bigint", 4),
        "a_float": ("real", 0.1),
        "a_double": ("double precision", "NaN"),
        "an_infinity": ("double precision", float("-inf")),
        "a_decimal": ("numeric(6,3)", Decimal("123.450")),
        "a_string": ("text", "text"),
        "a_binary": ("bytea", b"\x00\xff\\"),
        "a_date": ("date", date(2024, 2, 29)),
        "a_timestamp": ("timestamp with time zone", instant),
        "later": ("timestamp with time zone", datetime(2020, 10, 25, 1, 40, tzinfo=UTC)),
        "a_wall_clock": (
            "timestamp without time zone",
            datetime(2024, 3, 31, 2, 30, 0, 1),  # noqa: DTZ001 - it has none
        ),
        "ints": ("integer[]", [1, None]),
        "strings": ("text[]", ['a,"b"', "\\", None, "", "NULL"]),
        "binaries": ("bytea[]", [b'\\"']),
        "dates": ("date[]", [date(2024, 2, 29)]),
        "nested": ("jsonb", [[1], None]),
        "instants": ("timestamp with time zone[]", [instant]),
        "a_struct": ("jsonb", {"x": 1, "y": None, "z": 'a"\t'}),
        "a_map": ("jsonb", {"k": 1.5}),
    }
    kinds = database.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'kinds'::regclass AND attnum > 0 ORDER BY attnum"
    )
    (values,) = database.execute("SELECT * FROM kinds")
    found = {
        name: (kind, "NaN" if isinstance(value, float) and isnan(value) else value)
        for (name, kind), value in zip(kinds, values, strict=True)
    }
    assert found == expected


def test_nulls(database: Database, spark: SparkSession) -> None:
    """A null of any type arrives as one."""
    kinds = spark.sql(TYPES).limit(0)
    row = spark.createDataFrame([(None,) * len(kinds.columns)], kinds.schema.simpleString()[7:-1])

    deliver(database.sink("kinds"), row)

    assert database.rows("kinds") == Counter([(None,) * len(kinds.columns)])


def test_years_beyond_four_digits(database: Database, spark: SparkSession) -> None:
    """Dates that Spark writes in its own way arrive as the same day."""
    frame = spark.sql(
        "SELECT date_from_unix_date(4000000) AS late, date_from_unix_date(-800000) AS early, "
        "timestamp_micros(253402300801500000) AS instant"
    )

    deliver(database.sink("years"), frame)

    assert database.execute("SELECT late::text, early::text, instant::text FROM years") == [
        ("12921-08-18", "0222-09-04 BC", "10000-01-01 00:00:01.5+00")
    ]


STRANGE = [
    "a\tb",
    "a\nb",
    "a\r\nb",
    "\\",
    "\\N",
    "\\.",
    "\\t",
    '"',
    "'",
    "",
    " ",
    "日本 😀",
    "%s{}",
]


def test_special_characters(database: Database, spark: SparkSession, route: str) -> None:
    """Characters that mean something to COPY arrive as they are."""
    frame = spark.createDataFrame([(text,) for text in STRANGE], "text string")

    deliver(database.sink("strange"), frame)

    assert database.rows("strange") == Counter((text,) for text in STRANGE)


def test_a_new_column(database: Database, spark: SparkSession) -> None:
    """A column the table does not have is added; older rows have none of it."""
    sink = database.sink()
    deliver(sink, database.orders((1, "tea", 2)), 1)
    deliver(sink, spark.sql("SELECT 2L AS id, 'rice' AS item, 1.5D AS price"), 2)

    assert database.execute("SELECT id, item, qty, price FROM orders ORDER BY id") == [
        (1, "tea", 2, None),
        (2, "rice", None, 1.5),
    ]


def test_a_table_that_is_not_to_be_made(database: Database, spark: SparkSession) -> None:
    """With create_table = false, what is missing is refused with the SQL that makes it."""
    sink = database.sink(create_table=False, mode="upsert", key=["id"])
    with pytest.raises(SinkRefused) as no_table:
        deliver(sink, database.orders(*FIRST))
    with pytest.raises(SinkRefused, match=r"there is no table public[.]orders"):
        sink.check()
    statement = no_table.value.hint.partition(": ")[2]
    assert statement.startswith('CREATE TABLE "public"."orders" ("id" bigint, "item" text')

    database.execute(statement)
    deliver(sink, database.orders((1, "tea", 2)))
    with pytest.raises(SinkRefused, match="has no column price") as no_column:
        deliver(sink, spark.sql("SELECT 2L AS id, 1.5D AS price"), 2)

    statement = no_column.value.hint.partition(": ")[2]
    assert statement == 'ALTER TABLE "public"."orders" ADD COLUMN "price" double precision'
    assert database.rows() == Counter([(1, "tea", 2)])


def test_a_table_of_the_users_own(database: Database, spark: SparkSession) -> None:
    """The types, the spelling and the defaults of a table that is there are respected."""
    database.execute("CREATE TYPE mood AS ENUM ('fine', 'grim')")
    database.execute(
        "CREATE TABLE orders (n serial, orderid uuid, mood mood, doc jsonb, note varchar(5), "
        "tags jsonb, labels text, amount numeric(10,2))"
    )
    key = "8c7f1a9e-0000-4000-8000-000000000001"
    frame = spark.sql(
        f"SELECT '{key}' AS orderId, 'grim' AS mood, '[1]' AS doc, 'short' AS note, "
        "array('a') AS tags, array('b') AS labels, 1.5D AS amount"
    )

    deliver(database.sink(), frame)

    assert database.execute(
        "SELECT n, orderid::text, mood::text, doc, note, tags, labels, amount FROM orders"
    ) == [(1, key, "grim", [1], "short", ["a"], '["b"]', Decimal("1.50"))]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("SELECT 1L AS id, concat('a', char(0)) AS item, 1 AS qty", r"0x00"),
        ("SELECT 1L AS id, 'a' AS item, 5000000000L AS qty", r"5000000000.*integer.*column qty"),
        ("SELECT 1L AS id, 'a' AS item, 'many' AS qty", r"many.*column qty"),
        ("SELECT 1L AS id, 'far too long' AS item, 1 AS qty", r"too long.*column item"),
        ("SELECT CAST(null AS bigint) AS id, 'a' AS item, 1 AS qty", r"null value.*column id"),
        ("SELECT 7L AS id, 'a' AS item, 1 AS qty", r"duplicate key.*\(id\)=\(7\)"),
        ("SELECT 1L AS id, 'a' AS item, -1 AS qty", r"check constraint"),
        ("SELECT 1L AS id, date_from_unix_date(2147000000) AS item, 1 AS qty", r"column item"),
    ],
)
def test_bad_rows(database: Database, spark: SparkSession, row: str, words: str) -> None:
    """A row that PostgreSQL can never take is refused in its own words, and nothing is written."""
    database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, item varchar(5), qty int CHECK (qty > 0))"
    )
    database.execute("INSERT INTO orders VALUES (7, 'here', 1)")
    sink = database.sink()

    with pytest.raises(SinkRefused, match=words) as refused:
        deliver(sink, spark.sql(row))

    assert refused.value.hint
    assert database.rows() == Counter([(7, "here", 1)])
    assert deliver(sink, database.orders((1, "tea", 2))) == Receipt(1)


def test_a_bad_row_that_a_task_meets(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task is told while it stages is what the user is told."""
    monkeypatch.setattr(postgres_staging, "INLINE_BYTES", 0)
    database.execute("CREATE TABLE orders (id bigint, item varchar(5), qty int)")

    with pytest.raises(SinkRefused, match=r"value too long.*column item"):
        deliver(database.sink(), database.orders((1, "tea", 1), (2, "cinnamon", 1)))

    assert database.rows() == Counter()


@pytest.mark.parametrize(
    ("row", "settings", "words"),
    [
        ("SELECT 1 AS id, INTERVAL 1 DAY AS age", {}, "column age is of the type interval"),
        ("SELECT 1 AS id, null AS nothing", {}, "column nothing is of the type void"),
        (f"SELECT 1 AS {'x' * 64}", {}, "too long a name"),
        ("SELECT 1 AS id, 2 AS ID", {}, "twice"),
        ("SELECT 1 AS item", {"mode": "upsert", "key": ["id"]}, "no column id"),
        ("SELECT CAST(null AS int) AS id", {"mode": "upsert", "key": ["id"]}, "without a value"),
        ("SELECT 1 AS id, 2 AS Epoch", {"epoch_column": "epoch"}, "column epoch of its own"),
    ],
)
def test_batches_that_do_not_fit(
    database: Database, spark: SparkSession, row: str, settings: dict[str, Any], words: str
) -> None:
    """A batch whose columns cannot go into any table is refused before anything is written."""
    with pytest.raises(SinkRefused, match=words):
        deliver(database.sink(**settings), spark.sql(row))


def test_rows_that_cannot_be_made(database: Database, spark: SparkSession) -> None:
    """A query that fails is not called a fault of the sink, and writes nothing."""
    frame = spark.range(10).selectExpr("id", "CAST(raise_error('boom') AS int) AS qty")

    with pytest.raises(SparkFailed, match="boom"):
        deliver(database.sink(), frame)

    assert database.rows() == Counter()


def test_a_key_that_is_none(database: Database) -> None:
    """An upsert into a table where nothing keeps the key unique is refused with the SQL for it."""
    database.execute("CREATE TABLE orders (id bigint, item text, qty int)")
    sink = database.sink(mode="upsert", key=["id"])
    for attempt in (sink.check, lambda: deliver(sink, database.orders((1, "tea", 2)))):
        with pytest.raises(SinkRefused, match="no unique index on its key, id") as refused:
            attempt()

    database.execute(refused.value.hint.partition(": ")[2])
    sink.check()
    assert deliver(sink, database.orders((1, "tea", 2))) == Receipt(1)


def test_a_view(database: Database) -> None:
    """A view is not a table."""
    database.execute("CREATE VIEW orders AS SELECT 1 AS id")
    with pytest.raises(SinkRefused, match=r"public[.]orders is not a table"):
        deliver(database.sink(), database.orders(*FIRST))


def test_roll_back_by_epoch(database: Database) -> None:
    """Rows of later epochs are deleted, and their epochs are new again; once or twice."""
    sink = database.sink(epoch_column="epoch")
    for epoch in (1, 2, 3):
        deliver(sink, database.orders((epoch, "tea", 1)), epoch)
    to = Token("shop", 2, 1)

    assert "2 rows" in sink.roll_back(to)
    assert "0 rows" in sink.roll_back(to)
    assert database.rows() == Counter([(1, "tea", 1, 1)])
    assert database.token() == (2, 1, None)

    assert deliver(sink, database.orders((20, "rice", 1)), epoch=2, generation=2) == Receipt(1)
    assert database.rows() == Counter([(1, "tea", 1, 1), (20, "rice", 1, 2)])
    with pytest.raises(SinkRefused, match="comes too late"):
        sink.roll_back(to)
    with pytest.raises(SinkRefused, match="comes too late"):
        deliver(sink, database.orders((4, "tea", 1)), epoch=4, generation=1)


@pytest.mark.parametrize(
    ("settings", "words", "after"),
    [
        ({}, "second time", [(1, "tea", 2), (1, "tea", 2)]),
        ({"mode": "upsert", "key": ["id"]}, "overwrites them by their key", [(1, "tea", 2)]),
    ],
)
def test_roll_back_that_keeps_the_rows(
    database: Database, settings: dict[str, Any], words: str, after: list[tuple[Any, ...]]
) -> None:
    """Without an epoch column the rows stay, which is said; the epochs are new again."""
    sink = database.sink(**settings)
    deliver(sink, database.orders((1, "tea", 2)))

    assert words in sink.roll_back(Token("shop", 2, 0))
    assert words in sink.takes_back
    assert deliver(sink, database.orders((1, "tea", 2)), epoch=1, generation=2) == Receipt(1)

    assert database.rows() == Counter(after)


def test_roll_back_before_the_first_batch(database: Database) -> None:
    """Where nothing was delivered yet nothing is deleted, and the token holds."""
    sink = database.sink(epoch_column="epoch")

    assert "no table" in sink.roll_back(Token("shop", 2, 5))
    assert database.token() == (2, 5, None)
    assert deliver(sink, database.orders(*FIRST), epoch=6, generation=2) == Receipt(3)


def test_a_server_that_is_down(database: Database, route: str) -> None:
    """While the server is down the sink is unavailable; once it is back the batch arrives."""
    sink = database.sink()
    deliver(sink, database.orders(*FIRST), 1)
    with outage(database.server):
        for attempt in (sink.check, lambda: deliver(sink, database.orders(*SECOND), 2)):
            with pytest.raises(SinkUnavailable, match=f"127.0.0.1:{database.server.port}") as down:
                attempt()
            assert "Check that the server runs" in down.value.hint

    assert deliver(sink, database.orders(*SECOND), 2) == Receipt(2)
    assert database.rows() == Counter([*FIRST, *SECOND])


def test_a_server_that_restarts_in_the_middle(database: Database, route: str) -> None:
    """A connection that is lost between two steps is worth another try, which loses nothing."""
    sink = database.sink()

    def restart(step: str, _: str) -> None:
        if step == "postgres.staged":
            with outage(database.server):
                pass

    failpoints.observe(restart)
    with pytest.raises(SinkUnavailable):
        deliver(sink, database.orders(*FIRST))
    failpoints.observe(None)

    assert deliver(sink, database.orders(*FIRST)) == Receipt(3)
    assert database.rows() == Counter(FIRST)


def test_a_lost_connection_of_a_task(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that cannot connect says so as the driver would, without a stack trace."""
    monkeypatch.setattr(postgres_staging, "INLINE_BYTES", 0)
    database.execute("CREATE ROLE single LOGIN PASSWORD 'alone' CONNECTION LIMIT 1")
    database.execute(f"GRANT CREATE ON DATABASE {database.name} TO single")
    database.execute("GRANT CREATE ON SCHEMA public TO single")
    url = database.url.replace(f"{USER}:{PASSWORD}", "single:alone")
    sink = database.sink(url=url)
    try:
        with pytest.raises(SinkUnavailable, match="too many connections") as refused:
            deliver(sink, database.orders(*FIRST))
        assert "max_connections" in refused.value.hint

        database.execute("ALTER ROLE single CONNECTION LIMIT 9")
        assert deliver(sink, database.orders(*FIRST)) == Receipt(3)
        assert database.rows() == Counter(FIRST)
    finally:
        database.execute("DROP OWNED BY single; DROP ROLE single")


def test_logins_that_are_refused(database: Database) -> None:
    """Whatever an operator can put right is worth waiting for; no message has the password."""
    url = database.url
    port = f":{database.server.port}/"
    cases = {
        url.replace(PASSWORD, "wr0ng-gue55"): ("password authentication failed", "check the user"),
        url.replace(database.name, "nowhere"): ('database "nowhere" does not', "Create the data"),
        url.replace(port, f":{free_port()}/"): ("refused", "Check that the server runs"),
    }
    for wrong, (words, hint) in cases.items():
        sink = database.sink(url=wrong)
        for attempt in (sink.check, lambda s=sink: deliver(s, database.orders(*FIRST))):
            with pytest.raises(SinkUnavailable, match=words) as refused:
                attempt()
            assert hint in refused.value.hint
            assert "wr0ng-gue55" not in str(refused.value)
            assert PASSWORD not in str(refused.value)


def test_privileges_that_are_missing(database: Database) -> None:
    """A user who may not write is told what to grant; having been granted it, the batch arrives."""
    database.execute("CREATE TABLE orders (id bigint, item text, qty int)")
    database.execute("CREATE ROLE clerk LOGIN PASSWORD 'p3n'")
    sink = database.sink(url=database.url.replace(f"{USER}:{PASSWORD}", "clerk:p3n"))
    try:
        for _ in range(2):
            with pytest.raises(SinkUnavailable) as checked:
                sink.check()
            with pytest.raises(SinkUnavailable, match="permission denied") as refused:
                deliver(sink, database.orders(*FIRST))
            assert "Grant" in refused.value.hint
            hint = checked.value.hint
            database.execute(hint.partition(": ")[2] if hint.startswith("Let") else hint)

        sink.check()
        assert deliver(sink, database.orders(*FIRST)) == Receipt(3)
    finally:
        database.execute("DROP OWNED BY clerk; DROP ROLE clerk")


def test_check_writes_nothing(database: Database) -> None:
    """Checking a sink leaves the database as it was."""
    database.sink().check()

    assert database.execute("SELECT to_regnamespace('holdfast'), to_regclass('orders')") == [
        (None, None)
    ]
    with pytest.raises(SinkRefused, match="no schema attic") as refused:
        database.sink("attic.orders").check()
    database.execute(refused.value.hint.partition(": ")[2])
    database.sink("attic.orders").check()


NASTY = [
    'orders"; DROP TABLE victims; --',
    "orders'; DROP TABLE victims; --",
    "Orders",
    "%s %(x)s {} {0}",
    "select",
    "日本 `x`",
]


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_names_that_look_like_sql(
    database: Database,
    spark: SparkSession,
    name: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name is a name, whatever is in it, on every way the rows can go."""
    database.execute("CREATE TABLE victims (id int)")
    quoted = '"' + name.replace('"', '""') + '"'
    settings = keyed(mode, name) or {"epoch_column": f"{name}.e"}
    sink = database.sink(f"public.{quoted}", **settings)
    frame = spark.createDataFrame([(1, "a")], "x int, y string").toDF(name, f"{name}.y")
    sink.check()

    deliver(sink, frame, 1)
    monkeypatch.setattr(postgres_staging, "INLINE_BYTES", 0)
    sink = database.sink(f"public.{quoted}", **settings)
    deliver(sink, frame.selectExpr("*", "7 AS new"), 2)
    sink.check()
    sink.roll_back(Token("shop", 2, 1))

    found = database.rows(f"public.{quoted}")
    assert found == Counter([(1, "a", 7) if mode == "upsert" else (1, "a", 1, None)])
    assert database.rows("victims") == Counter()


@pytest.mark.parametrize("table", ["a.b.c", "a.", ".a", 'a"b', "x" * 64])
def test_names_that_are_none(database: Database, table: str) -> None:
    """What cannot be the name of a table is refused when the sink is opened."""
    with pytest.raises(ConfigError):
        database.sink(table)


def test_a_url_that_is_none(database: Database) -> None:
    """A url that cannot be read is refused when the sink is opened, without showing it."""
    with pytest.raises(ConfigError, match="not one of PostgreSQL") as refused:
        database.sink(url=f"postgresql://keeper:{PASSWORD}%zz@host/db")

    assert PASSWORD not in str(refused.value)


def test_description(database: Database) -> None:
    """People are told where the rows go, without secrets, for both ways to write a url."""
    port = database.server.port
    conninfo = f"host=127.0.0.1 port={port} user={USER} password={PASSWORD} dbname={database.name}"
    for url in (database.url, conninfo):
        sink = database.sink(url=url, mode="upsert", key=["id"])
        sink.check()

        assert sink.guarantee == "exactly_once"
        assert sink.description == (
            f"table public.orders in postgresql://127.0.0.1:{port}/{database.name} (upsert)"
        )
        assert PASSWORD not in repr(vars(sink))


def test_a_table_without_a_schema(database: Database) -> None:
    """A bare name is looked up as the database does it."""
    deliver(database.sink("orders"), database.orders(*FIRST))

    assert database.rows("public.orders") == Counter(FIRST)


def test_a_table_that_is_locked(database: Database) -> None:
    """Somebody else's lock is waited for, but not for ever."""
    sink = database.sink()
    deliver(sink, database.orders(*FIRST), 1)
    database.execute(f"ALTER DATABASE {database.name} SET statement_timeout = '500ms'")
    with psycopg.connect(database.url) as other:
        other.execute("LOCK TABLE orders")
        with pytest.raises(SinkUnavailable, match="timeout"):
            deliver(sink, database.orders(*SECOND), 2)

    assert deliver(sink, database.orders(*SECOND), 2) == Receipt(2)
