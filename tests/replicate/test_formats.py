"""Every value survives every format, from the source and into the target."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc

from .workshop import MOMENT, OWN, Row, Workshop, arrow_table, at, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TYPES = {
    "id": pa.int32(),
    "ts": MOMENT,
    "local": pa.timestamp("us"),
    "day": pa.date32(),
    "price": pa.decimal128(12, 3),
    "ratio": pa.float64(),
    "big": pa.int64(),
    "flag": pa.bool_(),
    "text": pa.string(),
}
SCHEMA = (
    "id int, ts timestamp, local timestamp_ntz, day date, price decimal(12,3), ratio double, "
    "big bigint, flag boolean, text string"
)


def row(number: int, text: str | None) -> Row:
    """A row with a value of every kind, exact to its last digit."""
    return {
        "id": number,
        "ts": at(number, micros=123_457),
        "local": datetime(2024, 3, 31, 2, 30, 0, 120_001),  # noqa: DTZ001 - a time without a zone
        "day": date(2024, 2, 29),
        "price": Decimal("-123456789.125"),
        "ratio": 0.1 + 0.2,
        "big": 2**63 - 1,
        "flag": True,
        "text": text,
    }


def nothing(number: int) -> Row:
    """A row with nothing in it but what a row needs."""
    return {**dict.fromkeys(TYPES), "id": number, "ts": at(number)}


ROWS = [
    row(1, "plain"),
    row(2, ""),
    row(3, 'a "quoted", comma; \\ backslash'),
    row(4, "Ελληνικά 🐘 ü"),
    row(5, "  spaces and 'apostrophes'  "),
    nothing(6),
]
BROKEN_LINE = row(7, "two\nlines\r\nand a tab\t")


def without_zone(frame: DataFrame) -> list[Row]:
    """What Spark reads, with moments as moments whatever this machine's zone is."""
    found = frame.select("*", frame["ts"].cast("long").alias("_seconds")).collect()
    rows = []
    for item in found:
        plain = item.asDict()
        seconds = plain.pop("_seconds")
        micros = plain["ts"].microsecond
        plain["ts"] = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
        rows.append({name: plain[name] for name in TYPES})
    return sorted_rows(rows)


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
def test_a_target_gives_back_what_was_copied(shop: Workshop, kind: str) -> None:
    """A plain reader finds the source's values, also in rows that a merge has written again."""
    shop.configure(
        'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]',
        target=f'format = "{kind}", path = "lake"',
    )
    shop.add(ROWS[:3], types=TYPES)
    shop.copy()
    shop.add(ROWS[3:], types=TYPES)
    shop.copy()

    reader = shop.spark.read.format(kind)
    if kind in ("csv", "json"):
        reader = reader.schema(SCHEMA)
    if kind == "csv":
        reader = reader.option("header", "true").option("enforceSchema", "false")
        reader = reader.schema(
            f"{SCHEMA}, _loaded_by string, _loaded_at timestamp, _batch_id string"
        )

    assert without_zone(reader.load(str(shop.target()))) == sorted_rows(as_read(ROWS, kind))


def as_read(rows: list[Row], kind: str) -> list[Row]:
    """The rows as a format's plain reader gives them back."""
    if kind != "csv":
        return rows
    # A CSV reader takes an empty text for a null unless it is told otherwise.
    return [{**r, "text": r["text"] or None} for r in rows]


def test_a_merged_csv_keeps_what_other_readers_cannot_tell_apart(shop: Workshop) -> None:
    """Merging reads the target's own files: empty texts, nulls and line breaks survive it."""
    shop.configure(
        'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]',
        target='format = "csv", path = "lake"',
    )
    texts = {1: "", 2: None, 3: "two\nlines", 4: "ends with \\", 5: '"'}
    shop.add([{"id": i, "ts": at(1), "text": text} for i, text in texts.items()])
    shop.copy()
    for minutes in (2, 3):
        shop.add([{"id": 9, "ts": at(minutes), "text": "new"}])
        shop.copy()

    reader = shop.spark.read.option("header", "true").option("multiLine", "true")
    # Without this, Spark takes the quoted empty text for a null as well.
    found = reader.option("nullValue", "<null>").csv(str(shop.target())).collect()

    assert {int(r["id"]): r["text"] for r in found} == {**texts, 9: "new"}


def write_csv(path: Path, rows: list[Row]) -> None:
    """A CSV file as other programs write it: quotes doubled, times in ISO format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_json(path: Path, rows: list[Row]) -> None:
    """A file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(r, default=str, ensure_ascii=False) for r in rows]
    path.write_text("\n".join(lines), encoding="utf-8")


def plain(rows: list[Row]) -> list[Row]:
    """Rows without the kinds of values that only Parquet and ORC files have."""
    return [{"id": r["id"], "ts": r["ts"], "text": r["text"]} for r in rows]


def test_a_csv_source_is_copied_value_by_value(shop: Workshop) -> None:
    """Quotes, commas, line breaks and microseconds of a CSV file arrive in the target."""
    rows = [r for r in plain([*ROWS, BROKEN_LINE]) if r["text"]]
    write_csv(shop.directory / "source" / "t.csv", [{**r, "ts": r["ts"].isoformat()} for r in rows])
    shop.configure(
        'watermark = "ts"',
        source='format = "csv", path = "source", schema = "id int, ts timestamp, text string", '
        "options = { header = true, multiLine = true, escape = '\"' }",
    )

    shop.copy()

    assert shop.copied() == sorted_rows(rows)


def test_csv_columns_are_taken_by_their_header(shop: Workshop) -> None:
    """A file whose columns stand in another order than the schema is refused, not mixed up."""
    write_csv(shop.source() / "one.csv", [{"text": "x", "id": 1, "ts": at(1).isoformat()}])
    shop.configure(
        'watermark = "ts"',
        source='format = "csv", path = "source", schema = "id int, ts timestamp, text string", '
        "options = { header = true }",
    )

    failure = shop.run().failure

    assert failure is not None
    assert failure.error == "SourceError"
    assert "header" in failure.message


def test_a_json_source_is_copied_value_by_value(shop: Workshop) -> None:
    """Nulls, empty texts, line breaks and microseconds of JSON lines arrive in the target."""
    rows = plain([*ROWS, BROKEN_LINE])
    write_json(shop.directory / "source" / "t.json", rows)
    shop.configure(
        'watermark = "ts"',
        source='format = "json", path = "source", schema = "id int, ts timestamp, text string"',
    )

    shop.copy()

    assert shop.copied() == sorted_rows(rows)


def test_a_parquet_source_is_copied_value_by_value(shop: Workshop) -> None:
    """Every kind of value arrives in a Parquet target as it left."""
    shop.configure('watermark = "ts"')
    shop.add([*ROWS, BROKEN_LINE], types=TYPES)

    shop.copy()

    assert shop.copied() == sorted_rows([*ROWS, BROKEN_LINE])


def test_an_orc_source_is_copied_value_by_value(shop: Workshop) -> None:
    """Every kind of value of an ORC file arrives in the target as it left."""
    types = {**TYPES, "ts": pa.timestamp("us", tz="UTC")}
    shop.configure('watermark = "ts"', source='format = "orc", path = "source"')
    shop.source().mkdir(parents=True)
    table = arrow_table(ROWS, types).drop_columns(["local"])
    orc.write_table(table, shop.source() / "one.orc")

    shop.copy()

    wanted = [{k: v for k, v in r.items() if k != "local"} for r in ROWS]
    assert shop.copied() == sorted_rows(wanted)


def test_a_catalog_table_is_a_source(shop: Workshop) -> None:
    """A table of Spark's catalog is copied by its name, and followed as it grows."""
    spark = shop.spark
    spark.sql("CREATE DATABASE IF NOT EXISTS warehouse_of_tests")
    try:
        spark.sql(
            "CREATE TABLE warehouse_of_tests.t USING parquet AS "
            "SELECT 1 AS id, TIMESTAMP '2024-06-01 10:00:00.000001Z' AS ts"
        )
        shop.configure(
            'watermark = "ts"', source='format = "table", namespace = "warehouse_of_tests"'
        )
        shop.copy()
        spark.sql(
            "INSERT INTO warehouse_of_tests.t VALUES (2, TIMESTAMP '2024-06-01 10:00:00.000002Z')"
        )
        shop.copy()
    finally:
        spark.sql("DROP DATABASE warehouse_of_tests CASCADE")

    assert shop.copied() == [{"id": i, "ts": at(micros=i)} for i in (1, 2)]


def test_a_source_is_a_directory_or_one_file(shop: Workshop) -> None:
    """`orders/` and `orders.parquet` are both the table `orders`; a missing one is named."""
    shop.configure('watermark = "ts"', tables=("t", "u", "v"))
    shop.add([{"id": 1, "ts": at(1)}], "t")
    shop.add([{"id": 2, "ts": at(1)}], "u")
    (file,) = shop.source("u").glob("*.parquet")
    file.rename(shop.directory / "source" / "u.parquet")
    shop.source("u").rmdir()

    outcomes = {o.table: o for o in shop.run_all().outcomes}

    assert (shop.ids("t"), shop.ids("u")) == ([1], [2])
    failure = outcomes["p.v"].failure
    assert failure is not None
    assert "nor v.parquet beside it" in failure.message


def test_an_unreadable_file_is_named(shop: Workshop) -> None:
    """A damaged file ends its table with a message, not with Spark's trace."""
    shop.configure('watermark = "ts"')
    shop.add([{"id": 1, "ts": at(1)}])
    (shop.source() / "broken.parquet").write_bytes(b"this is no Parquet file, as anyone can see")

    failure = shop.run().failure

    assert failure is not None
    assert failure.error == "SourceError"
    assert "not of the configured format" in failure.message


def test_files_that_do_not_agree_on_a_type_are_refused(shop: Workshop) -> None:
    """Which of two types a column has is not guessed; the column and both types are named."""
    shop.configure('watermark = "ts"')
    shop.add([{"id": 1, "ts": at(1)}])
    shop.add([{"id": "two", "ts": at(2)}])

    failure = shop.run().failure

    assert failure is not None
    assert failure.error == "SourceError"
    assert "do not agree on the type of a column" in failure.message
    assert "bigint" in failure.message.lower()
    assert "string" in failure.message.lower()


def test_options_of_the_target_reach_its_files(shop: Workshop) -> None:
    """What the configuration says about writing wins over the defaults."""
    shop.configure(
        'watermark = "ts"\nmetadata_columns = false',
        target='format = "csv", path = "lake", options = { sep = ";", header = false }',
    )
    shop.add([{"id": 1, "ts": at(1, micros=5)}])
    shop.copy()

    (file,) = shop.target().glob("holdfast_batch=*/part-*")

    assert file.read_text() == "1;2024-06-01T10:01:00.000005Z\n"


def test_own_columns_are_the_last(shop: Workshop) -> None:
    """A format without names in its rows shows the source's columns first."""
    shop.configure('watermark = "ts"', target='format = "csv", path = "lake"')
    shop.add([{"id": 1, "ts": at(1)}])
    shop.copy()

    (file,) = shop.target().glob("holdfast_batch=*/part-*")

    assert file.read_text().splitlines()[0].split(",") == ["id", "ts", *OWN]
