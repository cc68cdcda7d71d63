"""What a database can answer itself, so that Spark need not fetch a table to count it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from holdfast.model import Position
from holdfast.spark.cursor import Cursor, quoted
from holdfast.spark.measures import Probe, Window, probe_frame


def probe(
    frame: DataFrame,
    cursor: Cursor,
    *,
    reader: DataFrameReader,
    url: str,
    relation: str,
    low: Position | None,
    ceiling: Position | None,
    skew_limit: Position | None,
    window: Window | None,
) -> Probe:
    """Let the database count, and fetch only the cursor of rows that may be new.

    The first query needs no literal, so it reads the same in every dialect. The second is a
    Spark filter, which Spark writes in the dialect of the database.
    """
    first = quote_identifier(frame.sparkSession, url, cursor.columns[0])
    # A relation, not the `query` option: that one excludes options for partitioned reads.
    totals = reader.option(
        "dbtable",
        f"(SELECT COUNT(*) AS total, COUNT({first}) AS present, MAX({first}) AS newest "
        f"FROM {relation}) holdfast_probe",
    ).load()
    newest_only = Cursor(cursor.columns[:1], cursor.types[:1])
    newest_text = newest_only.texts(F.struct(F.col(totals.columns[2]).alias("c0")))
    found = totals.select(totals.columns[0], totals.columns[1], newest_text).collect()[0]
    total, missing = int(found[0]), int(found[0]) - int(found[1])
    if found[2]["c0"] is None:
        return Probe(total, 0, None, missing, 0)
    newest = newest_only.position([found[2]["c0"]])
    if window is None and low is not None and len(cursor.columns) == 1 and not low < newest:
        return Probe(total, 0, None, missing, 0)
    after = window.after if window is not None else low
    needed = sorted({*cursor.columns, *(window.identity if window else ())})
    recent = frame.select(*(quoted(name) for name in needed)).where(cursor.after(after))
    new = probe_frame(
        recent, cursor, low=low, ceiling=ceiling, skew_limit=skew_limit, window=window
    )
    return Probe(total, new.rows, new.high, missing, new.in_future, new.digest)


def quote_identifier(spark: SparkSession, url: str, name: str) -> str:
    """Quote a column's name the way the database at `url` wants it."""
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url).quoteIdentifier(name))
