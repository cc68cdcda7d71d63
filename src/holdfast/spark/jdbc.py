"""What a database can answer itself, so that Spark need not fetch a table to count it."""

from __future__ import annotations

import re
from typing import Any, Final

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from holdfast.config import Source
from holdfast.model import Position
from holdfast.spark.cursor import Cursor, quoted
from holdfast.spark.measures import Census, Probe, Window, probe_frame

# Options for reading a table in parts name a column that the answer to a question does not have.
# A reader cannot be rid of options, but it can be given others.
_IN_ONE_PART: Final = {
    "partitionColumn": "total",
    "lowerBound": "0",
    "upperBound": "1",
    "numPartitions": "1",
}
_BARE: Final = re.compile(r"[a-z_][a-z0-9_$]*|[A-Z_][A-Z0-9_$]*|[\"`\[].*")
_BARE_IN_POSTGRESQL: Final = re.compile(r"[a-z_][a-z0-9_$]*|\".*")
PARTITION_OPTIONS: Final = frozenset(name.lower() for name in _IN_ONE_PART)


def probe(
    frame: DataFrame,
    cursor: Cursor,
    *,
    reader: DataFrameReader,
    source: Source,
    table: str,
    low: Position | None,
    ceiling: Position | None,
    skew_limit: Position | None,
    window: Window | None,
) -> Probe:
    """Let the database count, and fetch only the cursor of rows that may be new.

    The first query needs no literal, so it reads the same in every dialect. The second is a
    Spark filter, which Spark writes in the dialect of the database.
    """
    url = url_of(source)
    names = [quote_identifier(frame.sparkSession, url, name) for name in cursor.columns]
    complete = " AND ".join(f"{name} IS NOT NULL" for name in names)
    # A relation, not the `query` option: that one excludes options for partitioned reads.
    place = relation(frame.sparkSession, source, table)
    question = (
        f"(SELECT COUNT(*) AS total, COUNT(CASE WHEN {complete} THEN 1 END) AS present, "
        f"MAX({names[0]}) AS newest FROM {place}) holdfast_probe"
    )
    totals = reader.options(**_IN_ONE_PART).option("dbtable", question).load()
    newest_only = Cursor(cursor.columns[:1], cursor.types[:1])
    found = totals.selectExpr(
        quoted(totals.columns[0]),
        quoted(totals.columns[1]),
        newest_only.text(quoted(totals.columns[2]), 0),
    ).collect()[0]
    total, missing = int(found[0]), int(found[0]) - int(found[1])
    if found[2] is None:
        return Probe(Census(total, missing), 0, None)
    newest = newest_only.position([found[2]])
    if window is None and low is not None and len(cursor.columns) == 1 and not low < newest:
        return Probe(Census(total, missing), 0, None)
    after = window.after if window is not None else low
    needed = sorted({*cursor.columns, *(window.identity if window else ())})
    recent = frame.select(*(quoted(name) for name in needed)).where(cursor.after(after))
    new = probe_frame(
        recent, cursor, low=low, ceiling=ceiling, skew_limit=skew_limit, window=window
    )
    return Probe(Census(total, missing, new.census.in_future), new.rows, new.high, new.digest)


def relation(spark: SparkSession, source: Source, name: str) -> str:
    """What stands for a table in a FROM clause.

    A name is quoted where the database would otherwise take it for another: all of them fold the
    case of a bare name, PostgreSQL to lower case, most others to upper case.
    """
    url = url_of(source)
    bare = _BARE_IN_POSTGRESQL if url.startswith("jdbc:postgresql:") else _BARE
    parts = source.table_name(name).split(".")
    return ".".join(p if bare.fullmatch(p) else quote_identifier(spark, url, p) for p in parts)


def url_of(source: Source) -> str:
    """The database's address; Spark takes its options in any case."""
    return next(value for name, value in source.options.items() if name.lower() == "url")


def quote_identifier(spark: SparkSession, url: str, name: str) -> str:
    """Quote a name the way the database at `url` wants it."""
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url).quoteIdentifier(name))
