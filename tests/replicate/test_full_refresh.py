"""The full_refresh strategy: the target is what the source is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from .workshop import Row, Workshop, at


def numbered(count: int) -> list[Row]:
    """A table of so many rows."""
    return [{"id": number, "value": f"v{number}"} for number in range(count)]


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop whose table is copied whole."""
    shop.configure('strategy = "full_refresh"')
    return shop


def test_rows_that_left_the_source_leave_the_target(shop: Workshop) -> None:
    """Deleted, changed and new rows are all as in the source."""
    shop.rewrite(numbered(3))
    shop.copy()
    changed = [{"id": 0, "value": "changed"}, {"id": 7, "value": "new"}]
    shop.rewrite(changed)

    outcome = shop.copy()

    assert (outcome.reason, outcome.rows) == ("refresh", 2)
    assert shop.copied() == changed
    assert len(shop.batches()) == 1


def test_duplicates_and_rows_without_anything_are_rows(shop: Workshop) -> None:
    """A table without a key is copied as the multiset it is."""
    rows: list[Row] = [
        {"id": 1, "value": None},
        {"id": 1, "value": None},
        {"id": None, "value": None},
    ]
    types = {"id": pa.int64(), "value": pa.string()}
    shop.rewrite(rows, types=types)
    shop.copy()

    assert shop.copied() == rows


def test_an_empty_source_is_refused(shop: Workshop) -> None:
    """Erasing a target is never done on the word of a source that may only be broken."""
    shop.rewrite(numbered(3))
    shop.copy()
    shop.rewrite([], types={"id": pa.int64(), "value": pa.string()})

    failure = shop.run().failure

    assert failure is not None
    assert failure.error == "SourceError"
    assert "would erase the 3 rows" in failure.message
    assert "--full-refresh" in failure.hint
    assert shop.copied() == numbered(3)


def test_an_empty_source_is_believed_when_asked_to(shop: Workshop) -> None:
    """`--full-refresh` says that the emptiness is meant."""
    shop.rewrite(numbered(3))
    shop.copy()
    shop.rewrite([], types={"id": pa.int64(), "value": pa.string()})

    assert shop.copy(full_refresh=True).rows == 0
    assert shop.copied() == []


def test_a_truncated_source_is_blocked_once_there_is_history(shop: Workshop) -> None:
    """After three row counts a source that lost most of its rows does not replace the target."""
    shop.rewrite(numbered(20))
    for _ in range(3):
        shop.copy()
    shop.rewrite(numbered(3))

    for _ in range(2):
        outcome = shop.run()
        assert outcome.status == "failed"
        assert outcome.failure is not None
        assert outcome.failure.error == "CheckFailed"
        assert "-85 %" in outcome.failure.message
        assert [c.status for c in outcome.checks if c.check == "anomaly"] == ["fail"]
    assert shop.copied() == sorted(numbered(20), key=repr)

    assert shop.copy(allow_failed_checks=True).rows == 3
    assert shop.copied() == numbered(3)


def test_a_refresh_with_a_watermark_column_copies_rows_without_one(shop: Workshop) -> None:
    """The column then only tells how fresh the table is."""
    shop.configure('strategy = "full_refresh"\nwatermark = "ts"')
    shop.rewrite([{"id": 1, "ts": None}, {"id": 2, "ts": at(1)}])

    assert shop.copy().rows == 2

    assert shop.ids() == [1, 2]
    assert shop.watermark() == ("2024-06-01T10:01:00.000000Z",)


def test_changed_columns_follow_the_source(shop: Workshop) -> None:
    """A refresh starts over: any change of columns or types is taken."""
    shop.rewrite(numbered(2))
    shop.copy()
    shop.rewrite([{"id": "one", "other": 1.5}])

    shop.copy()

    assert shop.copied() == [{"id": "one", "other": 1.5}]
    assert "value" not in shop.spark.read.parquet(str(shop.target())).columns
