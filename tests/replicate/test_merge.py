"""The merge strategy: one row per key, the latest."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from .workshop import MOMENT, Row, Workshop, at

MERGE = 'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]\n'


def row(key: Any, minutes: float, value: str) -> Row:
    """A version of a row."""
    return {"id": key, "ts": at(minutes), "value": value}


def values(shop: Workshop) -> dict[Any, str]:
    """The value the target has for each key, each key once."""
    rows = shop.rows()
    found = {r["id"]: r["value"] for r in rows}
    assert len(found) == len(rows), "a key occurs twice"
    return found


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop whose table is merged on `id`."""
    shop.configure(MERGE)
    return shop


def test_the_latest_version_within_a_batch_wins(shop: Workshop) -> None:
    """A key that comes several times in one batch is written once."""
    shop.add([row(1, 2, "new"), row(1, 1, "old"), row(2, 1, "only")])

    assert shop.copy().rows == 3

    assert values(shop) == {1: "new", 2: "only"}


def test_a_newer_version_replaces_the_one_in_the_target(shop: Workshop) -> None:
    """Keys that do not come again stay as they are, with the batch that brought them."""
    shop.add([row(1, 1, "old"), row(2, 1, "kept")])
    first = shop.copy().batch_ids[0]
    shop.add([row(1, 2, "new"), row(3, 2, "added")])
    second = shop.copy().batch_ids[0]

    assert values(shop) == {1: "new", 2: "kept", 3: "added"}
    brought = {r["id"]: r["_batch_id"] for r in shop.rows()}
    assert brought == {1: second, 2: first, 3: second}


def test_of_versions_with_equal_cursors_the_choice_is_always_the_same(shop: Workshop) -> None:
    """A tie is decided by the rows' content, so a repeated batch gives the same table."""
    tied = [row(1, 1, value) for value in ("a", "b", "c", "d")]
    for version in tied:
        shop.add([version])
    shop.copy()
    chosen = values(shop)

    shop.rewrite(tied[::-1])
    shop.copy(full_refresh=True)

    assert values(shop) == chosen


def test_a_tie_breaker_decides_between_versions_of_one_instant(shop: Workshop) -> None:
    """The cursor's second column orders versions that share their time."""
    shop.configure(
        'cursor = ["ts", "version"]\nstrategy = "merge"\nprimary_key = ["id"]\n',
    )
    shop.add([{**row(1, 1, "first"), "version": 1}, {**row(1, 1, "second"), "version": 2}])
    shop.copy()
    assert values(shop) == {1: "second"}
    shop.add([{**row(1, 1, "third"), "version": 3}])
    shop.copy()
    assert values(shop) == {1: "third"}


def test_late_rows_within_the_overlap_arrive(shop: Workshop) -> None:
    """A row below the watermark is merged, though nothing is new above it and not over newer."""
    shop.configure(MERGE + 'overlap = "1 hour"\n')
    shop.add([row(1, 60, "newest")])
    shop.copy()
    shop.add([row(1, 50, "older"), row(2, 1, "late"), row(3, 60, "same instant")])

    outcome = shop.copy()

    assert outcome.reason == "late_rows"
    assert values(shop) == {1: "newest", 2: "late", 3: "same instant"}
    assert shop.watermark() == ("2024-06-01T11:00:00.000000Z",)


def test_rows_before_the_overlap_are_not_read(shop: Workshop) -> None:
    """The overlap bounds what is read again, exclusively."""
    shop.configure(MERGE + 'overlap = "10 minutes"\n')
    shop.add([row(1, 30, "a")])
    shop.copy()
    shop.add([row(2, 20, "too late"), row(3, 40, "new")])

    assert shop.copy().rows == 2
    assert values(shop) == {1: "a", 3: "new"}


def test_a_run_without_changes_writes_nothing_despite_the_overlap(shop: Workshop) -> None:
    """What the overlap holds is remembered: reading it again is no reason to write."""
    shop.configure(MERGE + 'overlap = "1 hour"\n')
    shop.add([row(1, 1, "a"), row(2, 2, "b")])
    shop.copy()
    shop.add([row(3, 1, "late")])
    shop.copy()
    before = shop.batches()

    assert shop.run().status == "unchanged"
    assert shop.batches() == before


def test_an_overlap_over_days_is_rounded_up(shop: Workshop) -> None:
    """A cursor of dates is re-read by whole days, rather too many than too few."""
    shop.configure('watermark = "day"\nstrategy = "merge"\nprimary_key = ["id"]\noverlap = "1h"\n')
    shop.add([{"id": 1, "day": date(2024, 5, 20)}])
    shop.copy()
    shop.add([{"id": 2, "day": date(2024, 5, 20)}])
    shop.copy()

    assert shop.ids() == [1, 2]


def test_an_overlap_over_numbers_is_refused(shop: Workshop) -> None:
    """A span of time before a number means nothing."""
    shop.configure('watermark = "id"\nstrategy = "merge"\nprimary_key = ["id"]\noverlap = "1h"\n')
    shop.add([row(1, 1, "a")])

    failure = shop.run().failure

    assert failure is not None
    assert "An overlap needs a time column, but id is bigint" in failure.message


def test_a_composite_key_is_compared_as_a_whole(shop: Workshop) -> None:
    """Two rows are the same if all key columns are; a null is one key like any other."""
    shop.configure('watermark = "ts"\nstrategy = "merge"\nprimary_key = ["a", "B"]\n')
    types = {"a": pa.int32(), "b": pa.string()}
    keys = [(1, "x"), (1, "y"), (2, "x"), (1, None), (None, None)]
    for minutes, value in ((1, "old"), (2, "new")):
        shop.add(
            [
                {"a": a, "b": b, "ts": at(minutes), "value": value}
                for a, b in (keys if value == "old" else keys[1::2])
            ],
            types=types,
        )
        shop.copy()

    found = {(r["a"], r["b"]): r["value"] for r in shop.rows()}

    assert found == {
        (1, "x"): "old",
        (1, "y"): "new",
        (2, "x"): "old",
        (1, None): "new",
        (None, None): "old",
    }
    assert len(shop.rows()) == 5


KEYS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "text": (pa.string(), "", "ü"),
    "amount": (pa.decimal128(9, 2), Decimal("1.00"), Decimal("1.10")),
    "day": (pa.date32(), date(2024, 1, 1), date(2024, 1, 2)),
    "moment": (MOMENT, at(0), at(0, micros=1)),
    "raw": (pa.binary(), b"\x00", b"\x00\x00"),
    "flag": (pa.bool_(), False, True),
    "small": (pa.int8(), -1, 1),
}


def test_a_key_may_be_of_any_type(shop: Workshop) -> None:
    """Keys are compared in their own type: rows that differ in one column alone are two rows."""
    shop.configure(f'watermark = "ts"\nstrategy = "merge"\nprimary_key = {json.dumps(list(KEYS))}')
    types = {name: kind for name, (kind, _, _) in KEYS.items()}
    usual = {name: one for name, (_, one, _) in KEYS.items()}
    others = [{**usual, name: other} for name, (_, _, other) in KEYS.items()]

    shop.add([{**key, "ts": at(1), "value": "old"} for key in (usual, *others)], types=types)
    shop.copy()
    shop.add([{**key, "ts": at(2), "value": "new"} for key in (usual, *others[::2])], types=types)
    shop.copy()

    found = {tuple(r[name] for name in KEYS): r["value"] for r in shop.rows()}
    assert len(shop.rows()) == len(KEYS) + 1
    assert {key for key, value in found.items() if value == "new"} == {
        tuple(key.values()) for key in (usual, *others[::2])
    }


def test_rows_may_hold_maps_structs_and_lists(shop: Workshop) -> None:
    """A column Spark cannot hash does not stop rows from being told apart."""
    types = {
        "m": pa.map_(pa.string(), pa.int64()),
        "s": pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}),
    }

    def nested(key: int, minutes: float, number: int) -> Row:
        return {
            "id": key,
            "ts": at(minutes),
            "m": [("k", number)],
            "s": {"x": number, "y": [str(number), None]},
        }

    shop.add([nested(1, 1, 1), nested(2, 1, 2), nested(1, 1, 3)], types=types)
    shop.copy()
    shop.add([nested(2, 2, 4)], types=types)
    shop.copy()

    found = {r["id"]: r for r in shop.copied()}
    assert set(found) == {1, 2}
    assert found[2]["m"] == [("k", 4)]
    assert found[2]["s"] == {"x": 4, "y": ["4", None]}


def test_a_missing_key_column_is_named(shop: Workshop) -> None:
    """A misspelt primary key is refused before anything is read."""
    shop.configure(MERGE.replace('"id"', '"idd"'))
    shop.add([row(1, 1, "a")])

    failure = shop.run().failure

    assert failure is not None
    assert "primary key column idd is not in the source. Did you mean id?" in failure.message


def test_a_rewound_merge_reads_again_and_ends_the_same(shop: Workshop) -> None:
    """Merging rows a second time changes nothing but who brought them."""
    shop.add([row(1, 1, "a"), row(2, 2, "b")])
    shop.copy()
    shop.add([row(1, 3, "c")])
    shop.copy()
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(1).isoformat()])

    assert shop.copy().reason == "rewound"
    assert values(shop) == {1: "c", 2: "b"}
