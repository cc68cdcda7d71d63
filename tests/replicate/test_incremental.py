"""The incremental strategy: every row past the watermark, once."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from .workshop import MOMENT, NOON, OWN, Row, Workshop, at


def row(number: int, minutes: float, **more: Any) -> Row:
    """A row of the usual table: an id and a time."""
    return {"id": number, "ts": at(minutes), **more}


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop whose table is appended to by its time."""
    shop.configure('watermark = "ts"')
    return shop


def test_the_first_run_copies_every_row(shop: Workshop) -> None:
    """Without a watermark the whole source is new."""
    shop.add([row(1, 1), row(2, 2)])

    outcome = shop.copy()

    assert (outcome.reason, outcome.rows, outcome.low) == ("first_run", 2, None)
    assert shop.copied() == [row(1, 1), row(2, 2)]
    assert shop.watermark() == ("2024-06-01T10:02:00.000000Z",)


def test_the_next_run_copies_only_newer_rows(shop: Workshop) -> None:
    """What lies at or before the watermark is not read again."""
    shop.add([row(1, 1), row(2, 2)])
    shop.copy()
    shop.add([row(3, 3)])

    outcome = shop.copy()

    assert (outcome.reason, outcome.rows) == ("watermark", 1)
    assert outcome.low is not None
    assert str(outcome.low) == "2024-06-01T10:02:00.000000Z"
    assert shop.ids() == [1, 2, 3]
    assert len(shop.batches()) == 2


def test_a_run_without_new_rows_changes_nothing(shop: Workshop) -> None:
    """The watermark and the files stay, and no batch is made."""
    shop.add([row(1, 1)])
    shop.copy()
    version, batches = shop.state().version, shop.batches()

    outcome = shop.run()

    assert (outcome.status, outcome.rows, outcome.batch_ids) == ("unchanged", 0, ())
    assert shop.state().version == version
    assert shop.batches() == batches


def test_an_emptied_source_keeps_the_watermark(shop: Workshop) -> None:
    """No row is no reason to forget how far the copy got."""
    shop.add([row(1, 1)])
    shop.copy()
    shop.rewrite([], types={"id": pa.int64(), "ts": MOMENT})

    assert shop.run().status == "unchanged"

    assert shop.watermark() == ("2024-06-01T10:01:00.000000Z",)
    assert shop.ids() == [1]


def test_a_source_that_starts_empty_is_copied_when_rows_come(shop: Workshop) -> None:
    """An empty first batch leaves a readable target and no watermark to miss rows by."""
    shop.add([], types={"id": pa.int64(), "ts": MOMENT})
    assert shop.copy().rows == 0
    assert shop.spark.read.parquet(str(shop.target())).count() == 0

    shop.add([row(1, 1), row(2, -500)])

    assert shop.copy().rows == 2
    assert shop.ids() == [1, 2]


def test_rows_that_tie_with_the_watermark_need_a_tie_breaker(shop: Workshop) -> None:
    """With one column, a row of exactly the watermark's value looks copied."""
    shop.add([row(1, 5)])
    shop.copy()
    shop.add([row(2, 5)])

    assert shop.run().status == "unchanged"


def test_a_tie_breaker_tells_rows_of_the_same_instant_apart(shop: Workshop) -> None:
    """With a second cursor column rows that share the watermark's time are copied, once."""
    shop.configure('cursor = ["ts", "id"]')
    shop.add([row(1, 5), row(2, 5)])
    shop.copy()
    shop.add([row(3, 5), row(4, 5), row(5, 4)])

    assert shop.copy().rows == 2

    assert shop.ids() == [1, 2, 3, 4]
    assert shop.watermark() == ("2024-06-01T10:05:00.000000Z", "4")


def test_a_row_below_the_watermark_is_not_copied(shop: Workshop) -> None:
    """Late rows need `merge` with an overlap; an append has no way to take them."""
    shop.add([row(1, 5)])
    shop.copy()
    shop.add([row(2, 4)])

    assert shop.run().status == "unchanged"
    assert shop.ids() == [1]


def test_microseconds_count(shop: Workshop) -> None:
    """A row one microsecond past the watermark is new, and comes back to the microsecond."""
    first, second = at(5, micros=999_998), at(5, micros=999_999)
    shop.add([{"id": 1, "ts": first}])
    shop.copy()
    shop.add([{"id": 2, "ts": second}])

    assert shop.copy().rows == 1

    assert [r["ts"] for r in shop.copied()] == [first, second]
    assert shop.watermark() == ("2024-06-01T10:05:00.999999Z",)


def test_rows_from_the_future_wait_until_their_time_comes(shop: Workshop) -> None:
    """A wrong clock at the source never becomes the watermark, and its rows are not lost."""
    tomorrow = {"id": 2, "ts": NOON + timedelta(days=1)}
    shop.add([row(1, 1), tomorrow])

    first = shop.copy()
    assert first.rows == 1
    assert any("1 row(s)" in note and "future" in note for note in first.notes)
    assert shop.watermark() == ("2024-06-01T10:01:00.000000Z",)

    shop.add([row(3, 2)])
    assert shop.copy().rows == 1

    shop.clock.advance(days=1)
    assert shop.copy().rows == 1
    assert shop.ids() == [1, 2, 3]


def test_a_little_skew_is_tolerated(shop: Workshop) -> None:
    """Rows up to `max_future_skew` ahead of this clock are copied at once."""
    shop.configure('watermark = "ts"\nmax_future_skew = "1 hour"')
    shop.add([{"id": 1, "ts": NOON + timedelta(hours=1)}])
    shop.add([{"id": 2, "ts": NOON + timedelta(hours=1, microseconds=1)}])

    assert shop.copy().rows == 1
    assert shop.ids() == [1]


def test_a_refresh_leaves_rows_from_the_future_out_too(shop: Workshop) -> None:
    """After `--full-refresh` the next run still finds the rows that had to wait."""
    shop.add([row(1, 1), {"id": 2, "ts": NOON + timedelta(days=1)}])
    shop.copy(full_refresh=True)
    assert shop.ids() == [1]

    shop.clock.advance(days=2)
    shop.copy()

    assert shop.ids() == [1, 2]


CURSORS = [
    pytest.param(MOMENT, [at(1), at(2), at(3, micros=1)], id="timestamp"),
    pytest.param(
        pa.timestamp("us"),
        [datetime(2024, 1, 1, micro, 0, 0, micro * 100_000) for micro in (1, 2, 3)],  # noqa: DTZ001
        id="timestamp_ntz",
    ),
    pytest.param(pa.date32(), [date(2023, 12, 31), date(2024, 1, 1), date(2024, 6, 1)], id="date"),
    pytest.param(pa.int32(), [-5, 9, 10], id="int"),
    pytest.param(pa.int64(), [9, 10, 2**62], id="bigint"),
    pytest.param(
        pa.decimal128(20, 6),
        [Decimal("-1.500000"), Decimal("9.000001"), Decimal("10.000000")],
        id="decimal",
    ),
    pytest.param(pa.string(), ["a'1", "b", "é"], id="string"),
]


@pytest.mark.parametrize(("kind", "values"), CURSORS)
def test_a_cursor_may_be_of_any_ordered_type(
    shop: Workshop, kind: pa.DataType, values: list[Any]
) -> None:
    """Each type is compared by its own order, not by its text's, and copied unchanged."""
    shop.configure('watermark = "pos"')
    for i, value in enumerate(values[:2]):
        shop.add([{"id": i, "pos": value}], types={"pos": kind})
    assert shop.copy().rows == 2

    shop.add([{"id": 2, "pos": values[2]}], types={"pos": kind})

    assert shop.copy().rows == 1
    assert [r["pos"] for r in sorted(shop.copied(), key=lambda r: r["id"])] == values


def test_a_cursor_of_an_unordered_type_is_refused(shop: Workshop) -> None:
    """A float or a boolean cannot say how far a copy got."""
    shop.configure('watermark = "pos"')
    shop.add([{"id": 1, "pos": 1.5}])

    failure = shop.run().failure

    assert failure is not None
    assert failure.error == "SourceError"
    assert "pos is double" in failure.message


def test_a_row_without_a_watermark_stops_the_table(shop: Workshop) -> None:
    """By default a null is a mistake: the row could be placed nowhere."""
    shop.add([row(1, 1), {"id": 2, "ts": None}])

    outcome = shop.run()

    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert "1 row(s) have no ts" in outcome.failure.message
    assert 'null_watermark = "skip"' in outcome.failure.hint
    assert not shop.target().exists()


def test_a_row_without_a_tie_breaker_stops_the_table(shop: Workshop) -> None:
    """Every cursor column counts, and the message names them."""
    shop.configure('cursor = ["ts", "id"]')
    shop.add([row(1, 1), {"id": None, "ts": at(2)}], types={"id": pa.int64()})

    failure = shop.run().failure

    assert failure is not None
    assert "1 row(s) have no ts or no id" in failure.message


def test_rows_without_a_watermark_can_be_skipped(shop: Workshop) -> None:
    """With `null_watermark = "skip"` they are left out and counted."""
    shop.configure('watermark = "ts"\nnull_watermark = "skip"')
    shop.add([row(1, 1), {"id": 2, "ts": None}])

    outcome = shop.copy()

    assert shop.ids() == [1]
    assert any("1 row(s) without a watermark were skipped" in note for note in outcome.notes)


def test_copied_rows_say_who_when_and_in_which_batch(shop: Workshop) -> None:
    """All rows of a batch carry the same three values, those of its intent."""
    shop.configure('watermark = "ts"\nloaded_by = "nightly"')
    for number in range(4):
        shop.add([row(number, number)])
    first = shop.copy()
    shop.clock.advance(hours=1)
    shop.add([row(9, 9)])
    second = shop.copy()

    stamps = {tuple(r[name] for name in OWN) for r in shop.rows()}

    assert stamps == {
        ("nightly", NOON, first.batch_ids[0]),
        ("nightly", NOON + timedelta(hours=1), second.batch_ids[0]),
    }
    assert shop.batches() == [*first.batch_ids, *second.batch_ids]


def test_metadata_columns_can_be_left_out(shop: Workshop) -> None:
    """With `metadata_columns = false` the target has the source's columns and no others."""
    shop.configure('watermark = "ts"\nmetadata_columns = false')
    shop.add([row(1, 1)])
    shop.copy()

    assert shop.rows() == [row(1, 1)]


def test_metadata_columns_can_be_switched_on_later(shop: Workshop) -> None:
    """A plain reader then sees them, null in the rows from before."""
    shop.configure('watermark = "ts"\nmetadata_columns = false')
    shop.add([row(1, 1)])
    shop.copy()
    shop.configure('watermark = "ts"')
    shop.add([row(2, 2)])
    batch = shop.copy().batch_ids[0]

    found = shop.spark.read.parquet(str(shop.target())).orderBy("id").collect()

    assert [r["_batch_id"] for r in found] == [None, batch]


def test_columns_are_found_whatever_their_case(shop: Workshop) -> None:
    """The configuration names columns the way Spark finds them."""
    shop.configure('cursor = ["UPDATED_AT", "iD"]')
    shop.add([{"Id": 1, "Updated_At": at(1)}])
    shop.copy()
    shop.add([{"Id": 2, "Updated_At": at(1)}])

    assert shop.copy().rows == 1
    assert [r["Id"] for r in shop.copied()] == [1, 2]


def test_a_missing_cursor_column_is_named_with_the_nearest_one(shop: Workshop) -> None:
    """A misspelt column is a mistake one can correct from the message."""
    shop.configure('watermark = "updated"')
    shop.add([{"id": 1, "updated_at": at(1)}])

    failure = shop.run().failure

    assert failure is not None
    assert "cursor column updated is not in the source. Did you mean updated_at?" in failure.message
    assert "id, updated_at" in failure.hint


def test_source_columns_named_like_ours_describe_another_copy(shop: Workshop) -> None:
    """Copying a copy replaces its metadata columns and takes no partition column along."""
    stamp = {"_Loaded_By": "someone", "_loaded_at": at(0), "_batch_id": "x", "holdfast_batch": "y"}
    shop.add([row(1, 1, **stamp)])
    batch = shop.copy().batch_ids[0]

    (found,) = shop.rows()

    assert set(found) == {"id", "ts", *OWN}
    assert found["_batch_id"] == batch
    assert shop.spark.read.parquet(str(shop.target())).count() == 1


def test_column_names_may_hold_any_character(shop: Workshop) -> None:
    """Dots, spaces, backticks and accents are part of a name."""
    shop.configure('cursor = ["up.dated at", "nº`"]')
    shop.add([{"nº`": 1, "up.dated at": at(1), "a.b": "x"}])
    shop.copy()
    shop.add([{"nº`": 2, "up.dated at": at(1), "a.b": "y"}])

    assert shop.copy().rows == 1
    assert [r["a.b"] for r in sorted(shop.copied(), key=lambda r: r["nº`"])] == ["x", "y"]
