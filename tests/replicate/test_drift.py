"""Columns that come, go and change: added, filled with null, widened, or refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from .workshop import OWN, Row, Workshop, at


def row(number: int, **more: Any) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number), **more}


def seen(shop: Workshop, *columns: str) -> list[tuple[Any, ...]]:
    """What a plain reader of a Parquet target sees, by id."""
    frame = shop.spark.read.parquet(str(shop.target()))
    return [tuple(r[c] for c in columns) for r in frame.orderBy("id").collect()]


def type_of(shop: Workshop, column: str) -> str:
    """The type a plain reader of a Parquet target sees."""
    return shop.spark.read.parquet(str(shop.target())).schema[column].dataType.simpleString()


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop whose table is appended to by its time."""
    shop.configure('watermark = "ts"')
    return shop


def test_a_new_column_is_added_and_null_before(shop: Workshop) -> None:
    """A plain reader sees it at once, whichever file it looks at first."""
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2, colour="red")])

    outcome = shop.copy()

    assert outcome.drift == ("column colour (string) is new: null in earlier rows",)
    assert seen(shop, "id", "colour") == [(1, None), (2, "red")]


def test_columns_can_be_added_again_and_again(shop: Workshop) -> None:
    """Each batch shows what has been added so far, also after batches that added nothing."""
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2, a=1)])
    shop.copy()
    shop.add([row(3)])
    assert shop.copy().drift == ()
    shop.add([row(4, b=True)])
    shop.copy()

    assert seen(shop, "id", "a", "b") == [
        (1, None, None),
        (2, 1, None),
        (3, None, None),
        (4, None, True),
    ]


def test_added_columns_survive_a_rewind(shop: Workshop) -> None:
    """A table whose batches are replaced still shows every column it has had."""
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2, a=1)])
    shop.copy()
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(1).isoformat()])
    shop.rewrite([row(1), row(2)])
    shop.copy()

    assert seen(shop, "id", "a") == [(1, None), (2, None)]


def test_a_merge_gives_new_columns_to_every_row(shop: Workshop) -> None:
    """Rows that were merged before have the column too, as null."""
    shop.configure('watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]')
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2, colour="red")])

    assert shop.copy().drift
    assert seen(shop, "id", "colour") == [(1, None), (2, "red")]


def test_a_dropped_column_is_null_from_then_on(shop: Workshop) -> None:
    """What was copied of it stays; the change is reported at every run that meets it."""
    shop.rewrite([row(1, colour="red")])
    shop.copy()
    shop.rewrite([row(1), row(2)])

    said = "column colour is no longer in the source: null from now on"
    assert shop.copy().drift == (said,)
    assert shop.run().drift == (said,)
    assert seen(shop, "id", "colour") == [(1, "red"), (2, None)]


WIDER: dict[str, tuple[pa.DataType, Any, pa.DataType, Any, str]] = {
    "int_to_bigint": (pa.int32(), 7, pa.int64(), 2**40, "bigint"),
    "tinyint_to_smallint": (pa.int8(), 7, pa.int16(), 300, "smallint"),
    "float_to_double": (pa.float32(), 0.5, pa.float64(), 0.1, "double"),
    "int_to_double": (pa.int32(), 7, pa.float64(), 0.5, "double"),
    "more_digits": (
        pa.decimal128(5, 2),
        Decimal("1.25"),
        pa.decimal128(12, 4),
        Decimal("12345678.1234"),
        "decimal(12,4)",
    ),
    "more_digits_on_both_sides": (
        pa.decimal128(9, 1),
        Decimal("12345678.5"),
        pa.decimal128(5, 3),
        Decimal("12.345"),
        "decimal(11,3)",
    ),
    "int_to_decimal": (
        pa.int32(),
        2**31 - 1,
        pa.decimal128(5, 2),
        Decimal("1.25"),
        "decimal(12,2)",
    ),
}


def test_a_wider_type_is_taken(shop: Workshop) -> None:
    """Earlier rows are rewritten with the type that holds both, in their own batches."""
    old = {name: kind for name, (kind, _, _, _, _) in WIDER.items()}
    new = {name: kind for name, (_, _, kind, _, _) in WIDER.items()}
    first = {name: value for name, (_, value, _, _, _) in WIDER.items()}
    second = {name: value for name, (_, _, _, value, _) in WIDER.items()}
    shop.rewrite([row(1, **first)], types=old)
    shop.copy()
    before = shop.batches()
    shop.rewrite([row(2, **second)], types=new)

    drift = shop.copy().drift

    wider = {name: kind for name, (_, _, _, _, kind) in WIDER.items()}
    assert [said.split(" widened from ")[0] for said in drift] == [f"column {n}" for n in WIDER]
    assert [said.split(" to ")[1] for said in drift] == list(wider.values())
    assert {name: type_of(shop, name) for name in WIDER} == wider
    assert seen(shop, *WIDER) == [tuple(first.values()), tuple(second.values())]
    assert shop.batches()[:1] == before
    assert {r["_batch_id"] for r in shop.rows()} == set(shop.batches())


def test_a_wider_type_without_new_rows_changes_nothing_yet(shop: Workshop) -> None:
    """The table is not written again for nothing; the change is reported all the same."""
    shop.rewrite([row(1, x=7)], types={"x": pa.int32()})
    shop.copy()
    before = shop.batches()
    shop.rewrite([row(1, x=7)], types={"x": pa.int64()})

    outcome = shop.run()

    assert (outcome.status, shop.batches()) == ("unchanged", before)
    assert outcome.drift == ("column x widened from int to bigint",)
    assert type_of(shop, "x") == "int"
    shop.add([row(2, x=2**40)], types={"x": pa.int64()})
    shop.copy()
    assert seen(shop, "x") == [(7,), (2**40,)]


def test_a_narrower_source_leaves_the_target_as_it_is(shop: Workshop) -> None:
    """Values that fit need no change, and none is reported."""
    shop.rewrite([row(1, x=2**40)], types={"x": pa.int64()})
    shop.copy()
    shop.rewrite([row(2, x=7)], types={"x": pa.int8()})

    assert shop.copy().drift == ()
    assert type_of(shop, "x") == "bigint"
    assert seen(shop, "x") == [(2**40,), (7,)]


def test_a_type_that_does_not_widen_is_refused(shop: Workshop) -> None:
    """All columns are named with both types, and the two ways out; nothing is changed."""
    shop.rewrite([row(1, price="1.5", size=1, note="x")])
    shop.copy()
    watermark, batches = shop.watermark(), shop.batches()
    shop.rewrite([row(2, price=2.5, size="L", note="y")])

    outcome = shop.run()

    assert outcome.status == "failed"
    failure = outcome.failure
    assert failure is not None
    assert failure.error == "SchemaConflict"
    assert "column price was string, is double" in failure.message
    assert "column size was bigint, is string" in failure.message
    assert "note" not in failure.message
    assert "Cast it back at the source" in failure.hint
    assert "--full-refresh --table p.t" in failure.hint
    assert (shop.watermark(), shop.batches()) == (watermark, batches)


def test_a_refused_type_is_taken_by_a_full_refresh(shop: Workshop) -> None:
    """The second way out rebuilds the target with the new type."""
    shop.rewrite([row(1, price="1.5")])
    shop.copy()
    shop.rewrite([row(2, price=2.5)])
    assert shop.run().status == "failed"

    shop.copy(full_refresh=True)

    assert type_of(shop, "price") == "double"
    assert seen(shop, "id", "price") == [(2, 2.5)]


def test_a_field_added_to_a_struct_is_null_before(shop: Workshop) -> None:
    """Nested columns follow the same rules as the others."""
    old = pa.struct({"x": pa.int32()})
    new = pa.struct({"x": pa.int64(), "y": pa.string()})
    shop.rewrite([row(1, s={"x": 1})], types={"s": old})
    shop.copy()
    shop.rewrite([row(2, s={"x": 2**40, "y": "new"})], types={"s": new})

    (said,) = shop.copy().drift

    assert said == "column s widened from struct<x:int> to struct<x:bigint,y:string>"
    found = [(s["x"], s["y"]) for (s,) in seen(shop, "s")]
    assert found == [(1, None), (2**40, "new")]


@pytest.mark.parametrize("kind", ["orc", "csv", "json"])
def test_other_formats_show_a_new_column_in_every_row(shop: Workshop, kind: str) -> None:
    """Where a reader would not find the column by itself, earlier batches are written again."""
    shop.configure('watermark = "ts"', target=f'format = "{kind}", path = "lake"')
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2)])
    shop.copy()
    before = shop.batches()
    shop.add([row(3, colour="red")])
    outcome = shop.copy()

    reader = shop.spark.read.format(kind).option("header", "true")
    found = reader.load(str(shop.target())).orderBy("id").collect()

    assert [r["colour"] for r in found] == [None, None, "red"]
    assert shop.batches() == [*before, *outcome.batch_ids]
    assert [r["_batch_id"] for r in found] == shop.batches()


def write_csv(path: Path, *lines: str) -> None:
    """A CSV file with a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


CSV = 'format = "csv", path = "source", options = { header = true, inferSchema = true }'


def test_an_emptied_csv_is_no_change_of_type(shop: Workshop) -> None:
    """Without rows every column looks like a text; the known types still hold."""
    file = shop.directory / "source" / "t.csv"
    shop.configure('watermark = "ts"', source=CSV)
    write_csv(file, "id,ts", "1,2024-06-01T10:01:00Z")
    shop.copy()
    write_csv(file, "id,ts")

    assert shop.run().status == "unchanged"

    write_csv(file, "id,ts", "1,2024-06-01T10:01:00Z", "2,2024-06-01T10:02:00Z")
    assert shop.copy().drift == ()
    assert shop.ids() == [1, 2]


def test_an_emptied_csv_can_be_refreshed_on_purpose(shop: Workshop) -> None:
    """The table is then empty, with the columns it had."""
    file = shop.directory / "source" / "t.csv"
    shop.configure('watermark = "ts"', source=CSV)
    write_csv(file, "id,ts", "1,2024-06-01T10:01:00Z")
    shop.copy()
    write_csv(file, "id,ts")

    shop.copy(full_refresh=True)

    assert seen(shop, "id") == []
    assert (type_of(shop, "id"), type_of(shop, "ts")) == ("int", "timestamp")


def test_a_column_that_differs_in_case_is_the_same_column(shop: Workshop) -> None:
    """The target keeps the name it had."""
    shop.rewrite([row(1, Colour="red")])
    shop.copy()
    shop.rewrite([row(2, colour="blue")])

    assert shop.copy().drift == ()
    assert seen(shop, "Colour") == [("red",), ("blue",)]


def test_a_column_that_was_only_null_gets_a_type_later(shop: Workshop) -> None:
    """A column without a type is kept as text, which every type of text fits."""
    shop.configure(
        'watermark = "id"', source='format = "json", path = "source"', target='path = "lake"'
    )
    file = shop.directory / "source" / "t.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"id": 1, "note": null}\n')
    shop.copy()
    file.write_text('{"id": 1, "note": null}\n{"id": 2, "note": "x"}\n')

    assert shop.copy().drift == ()
    assert seen(shop, "id", "note") == [(1, None), (2, "x")]


def test_drift_is_remembered_with_the_schema(shop: Workshop) -> None:
    """The ledger knows which columns the target has had, since which batch, and why."""
    shop.add([row(1)])
    first = shop.copy().batch_ids[0]
    shop.add([row(2)])
    shop.copy()
    shop.add([row(3, colour="red")])
    third = shop.copy()

    with shop.open() as project, project.ledger.reading() as view:
        schemas = [s for _, s in project.records.schemas.history(view, "p.t") if s is not None]

    assert [s.batch_id for s in schemas] == [third.batch_ids[0], first]
    assert [s.changes for s in schemas] == [third.drift, ()]
    assert all(name in schemas[0].schema for name in ("colour", *OWN))
