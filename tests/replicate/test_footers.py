"""What Parquet footers spare: Spark jobs, never rows.

Each source here is one the footers answer for in another way, or do not answer for. Whatever they
say, the copy must be right.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from .workshop import NOON, Row, Workshop, arrow_table, at, sorted_rows


def jobs(shop: Workshop) -> set[int]:
    """The Spark jobs there have been, those of any group."""
    tracker = shop.spark.sparkContext.statusTracker()
    return set(tracker.getJobIdsForGroup(None))


def rows(first: int, last: int, **more: Any) -> list[Row]:
    """Rows a minute apart."""
    return [{"id": n, "ts": at(n), **more} for n in range(first, last + 1)]


def test_nothing_new_takes_no_spark_job(shop: Workshop) -> None:
    """When every file was copied, the footers say so."""
    shop.configure('watermark = "ts"')
    shop.add(rows(1, 5))
    shop.copy()
    before = jobs(shop)

    assert shop.run().status == "unchanged"
    assert jobs(shop) == before


def test_new_files_take_one_spark_job(shop: Workshop) -> None:
    """When the new rows are in new files, only they are read, once."""
    shop.configure('watermark = "ts"')
    shop.add(rows(1, 5))
    shop.copy()
    shop.add(rows(6, 8))
    before = jobs(shop)

    outcome = shop.copy()

    assert len(jobs(shop) - before) == 1
    assert (outcome.rows, outcome.source_rows) == (3, 8)
    assert shop.watermark() == (at(8).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),)
    assert shop.copied() == sorted_rows(rows(1, 8))


def test_a_rewritten_file_is_read_through(shop: Workshop) -> None:
    """A file with old and new rows does not say how many are new; they are copied all the same."""
    shop.configure('watermark = "ts"')
    shop.add(rows(1, 5))
    shop.copy()
    shop.rewrite(rows(1, 9))

    assert shop.copy().rows == 4
    assert shop.run().status == "unchanged"
    assert shop.copied() == sorted_rows(rows(1, 9))


@pytest.mark.parametrize("rewritten", [False, True])
def test_times_without_statistics(shop: Workshop, rewritten: bool) -> None:
    """Spark's older kind of timestamp has no statistics; its rows are counted as they are read."""
    shop.configure('watermark = "ts"')

    def write(name: str, found: list[Row]) -> None:
        shop.source().mkdir(parents=True, exist_ok=True)
        place = shop.source() / name
        parquet.write_table(arrow_table(found), place, use_deprecated_int96_timestamps=True)

    write("a.parquet", rows(1, 5))
    shop.copy()
    write("a.parquet" if rewritten else "b.parquet", rows(1 if rewritten else 6, 8))

    assert shop.copy().rows == 3
    assert shop.run().status == "unchanged"
    assert shop.ids() == list(range(1, 9))


def test_a_null_among_the_new_rows_is_found(shop: Workshop) -> None:
    """Statistics leave nulls out; a row without a watermark is still refused."""
    shop.configure('watermark = "ts"')
    shop.add(rows(1, 2))
    shop.copy()
    shop.add([{"id": 3, "ts": at(3)}, {"id": 4, "ts": None}])

    outcome = shop.run()

    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert "1 row(s) have no ts" in outcome.failure.message
    assert shop.ids() == [1, 2]


def test_a_row_from_the_future_waits(shop: Workshop) -> None:
    """A file that reaches into the future is read up to the present."""
    shop.configure('watermark = "ts"')
    shop.add([{"id": 1, "ts": at(1)}, {"id": 2, "ts": NOON + timedelta(hours=1)}])
    outcome = shop.copy()
    assert "1 row(s) lie more than 5 minutes in the future" in outcome.notes[0]
    shop.clock.advance(hours=2)

    assert shop.copy().rows == 1
    assert shop.ids() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (pa.int32(), -5, 7),
        (pa.int64(), 2**40, 2**41),
        (pa.uint32(), 5, 2**31 + 7),
        (pa.date32(), at(1).date(), at(60 * 30).date()),
        (pa.timestamp("ms", tz="UTC"), at(1), at(2)),
        (pa.timestamp("us"), at(1).replace(tzinfo=None), at(2).replace(tzinfo=None)),
        (pa.string(), "a", "b"),
        (pa.decimal128(9, 2), 1, 2),
    ],
    ids=str,
)
def test_cursors_of_every_kind(
    shop: Workshop, kind: pa.DataType, first: object, second: object
) -> None:
    """Whether or not the footers order a type as Spark does, only new rows are copied."""
    shop.configure('watermark = "c"\nmax_future_skew = "10 days"')
    shop.add([{"id": 1, "c": first}], types={"c": kind})
    shop.copy()
    shop.add([{"id": 2, "c": second}], types={"c": kind})

    assert shop.copy().rows == 1
    assert shop.run().status == "unchanged"
    assert shop.ids() == [1, 2]


def test_a_new_column_is_noticed(shop: Workshop) -> None:
    """Files of a new kind make Spark learn the columns again."""
    shop.configure('watermark = "ts"')
    shop.add(rows(1, 2))
    shop.copy()
    shop.add(rows(3, 4, note="new"))

    outcome = shop.copy()

    assert outcome.drift == ("column note (string) is new: null in earlier rows",)
    assert [row.get("note") for row in shop.rows()] == [None, None, "new", "new"]


def test_a_table_that_has_always_been_empty_is_published_once(shop: Workshop) -> None:
    """An empty source gives an empty target, and then nothing more until it has rows."""
    shop.configure('watermark = "ts"')
    shop.add([], types={"id": pa.int64(), "ts": pa.timestamp("us", tz="UTC")})
    shop.copy()
    published = shop.batches()

    assert shop.run().status == "unchanged"
    assert shop.batches() == published
    shop.add(rows(1, 2))
    assert shop.copy().rows == 2
    assert shop.ids() == [1, 2]


def test_an_appended_table_is_not_merged_into(shop: Workshop) -> None:
    """What was appended may hold several versions of a row: a merge wants it copied again."""
    shop.configure('watermark = "ts"')
    shop.add([{"id": 1, "ts": at(1)}, {"id": 1, "ts": at(2)}])
    shop.copy()
    shop.configure('watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]')

    refused = shop.run()

    assert refused.failure is not None
    assert "may hold several versions of a row" in refused.failure.message
    assert "--full-refresh" in refused.failure.hint
    shop.copy(full_refresh=True)
    assert shop.copied() == [{"id": 1, "ts": at(2)}]


def test_a_schema_that_reads_other_types_than_the_files_have(shop: Workshop) -> None:
    """Footers count in the file's unit; a column read as another type is not left to them."""
    settings = 'watermark = "ts"\nmax_future_skew = "10000 days"'
    source = 'format = "parquet", path = "source", schema = "id bigint, ts bigint"'
    shop.configure(settings, source=source)
    shop.add(rows(1, 2), types={"ts": pa.timestamp("ms", tz="UTC")})
    assert shop.copy().rows == 2
    shop.add(rows(3, 4), types={"ts": pa.timestamp("ms", tz="UTC")})

    assert shop.copy().rows == 2
    assert shop.ids() == [1, 2, 3, 4]


def test_a_partition_column_hides_one_in_the_files(shop: Workshop) -> None:
    """Where directories name columns, the files' own values are not what Spark reads."""
    shop.configure('watermark = "id"')
    for name, ids in (("5", [100, 101]), ("6", [102, 103])):
        place = shop.source() / f"id={name}"
        place.mkdir(parents=True)
        parquet.write_table(pa.table({"id": ids, "v": ids}), place / "a.parquet")
        assert shop.run().status == "copied"

    assert shop.ids() == [5, 5, 6, 6]


def test_another_watermark_column_is_not_compared_with_the_old_value(shop: Workshop) -> None:
    """A value of one column says nothing about another: a person has to say where it stands."""
    shop.configure('watermark = "id"')
    shop.add([{"id": 100, "seq": 1}, {"id": 200, "seq": 2}])
    shop.copy()
    shop.configure('watermark = "seq"')
    shop.add([{"id": 300, "seq": 3}])

    refused = shop.run()

    assert refused.failure is not None
    assert "the cursor is seq now" in refused.failure.message
    assert "holdfast state set p.t" in refused.failure.hint
    with shop.open() as project:
        project.state.set("p.t", ["2"])
    assert shop.copy().rows == 1
    assert shop.ids() == [100, 200, 300]


def test_a_path_that_spark_takes_for_a_pattern_is_refused(shop: Workshop) -> None:
    """Spark would read `source1` for `source[1]`."""
    shop.configure('watermark = "ts"', source='format = "parquet", path = "source[1]"')

    outcome = shop.run()

    assert outcome.failure is not None
    assert "take the source's path for a pattern" in outcome.failure.message
