"""What moved between two checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkpoint import Moved, MovedSink, MovedState, diff, schema_changes
from holdfast.errors import UsageError
from holdfast.model import Checkpoint, SinkPosition, Token

from .workshop import Workshop, schema


def test_nothing_moved(workshop: Workshop) -> None:
    """A checkpoint does not differ from itself."""
    made = workshop.make(None)
    found = diff(made, made)
    assert found.empty
    assert found.rows == 0


def test_everything_moved(workshop: Workshop) -> None:
    """Positions, schemas, state, sinks and rows are compared."""
    base = workshop.objects.store("payments/files/base.run", b"base")
    one = workshop.commit(carried=(base,), schemas={"input": schema(a="long", b="string")})
    workshop.commit(rows=7)
    three = workshop.commit(rows=5, schemas={"input": schema(a="string", c="date")})
    book = workshop.checkpoints
    a, b = book.load(one), book.load(three)
    found = diff(a, b, book.entries())
    assert not found.empty
    assert found.epochs == 2
    assert found.same_source
    assert found.positions == (Moved("events", {"logOffset": 0}, {"logOffset": 2}),)
    assert found.schemas == {
        "input": (
            "column a was bigint, is string",
            "column b (string) was removed",
            "column c (date) was added",
        )
    }
    size = a.operators[0].files[-1].bytes
    assert found.state == (MovedState("totals", 1, size, 2, size + 4),)
    assert found.sinks == (
        MovedSink(
            "lake",
            SinkPosition("exactly_once", Token("payments", 1, 0)),
            SinkPosition("exactly_once", Token("payments", 1, 2)),
        ),
    )
    assert found.rows == 12
    back = diff(b, a, book.entries())
    assert (back.epochs, back.rows) == (-2, 12)
    assert diff(a, b).rows is None


def test_rows_that_are_not_known(workshop: Workshop) -> None:
    """Rows are counted along a line only, and only if every epoch of it is known."""
    one, _, three = workshop.commits(3)
    workshop.roll_back(one)
    four = workshop.commit()
    five = workshop.commit(rows=None)
    book = workshop.checkpoints
    loaded: dict[int, Checkpoint] = {e.version: book.load(e) for e in book.entries()}
    entries = book.entries()
    assert diff(loaded[1], loaded[four.version], entries).rows == 10
    assert diff(loaded[three.version], loaded[four.version], entries).rows is None
    assert diff(loaded[1], loaded[five.version], entries).rows is None
    without = [entry for entry in entries if entry.version != 2]
    assert diff(loaded[1], loaded[3], without).rows is None


def test_another_source(workshop: Workshop) -> None:
    """Positions of different sources cannot be compared, which is said."""
    made = workshop.make(None)
    found = diff(made, replace(made, source="another", schemas={}, sinks={}))
    assert not found.same_source
    assert not found.empty
    assert found.schemas == {"input": ("there was no input schema after",)}
    assert found.sinks[0].after is None


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    """Return a struct as Spark writes it."""
    return {"type": "struct", "fields": list(fields)}


def column(name: str, kind: Any, nullable: bool = True) -> dict[str, Any]:
    """Return a column as Spark writes it."""
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


ARRAY = {"type": "array", "elementType": "long", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([column("a", "long")], [column("a", "long")], []),
        ([], [column("a", "decimal(10,2)")], ["column a (decimal(10,2)) was added"]),
        (
            [column("a", "integer")],
            [column("a", MAP)],
            ["column a was int, is map<string,array<bigint>>"],
        ),
        (
            [column("a", struct(column("b", "byte"), column("c", "short")))],
            [column("a", struct(column("b", "string"), column("d", ARRAY)))],
            [
                "column a.b was tinyint, is string",
                "column a.c (smallint) was removed",
                "column a.d (array<bigint>) was added",
            ],
        ),
        (
            [column("a", "long"), column("b", "long", nullable=False)],
            [column("a", "long", nullable=False), column("b", "long")],
            ["column a may no longer be null", "column b may be null now"],
        ),
        (
            [column("a", "long"), column("b", "long")],
            [column("b", "long"), column("a", "long")],
            ["the columns are in another order: b, a"],
        ),
        (
            [column("a", ARRAY)],
            [column("a", {**ARRAY, "containsNull": False})],
            ["column a (array<bigint>) holds nulls differently within it"],
        ),
        (
            [column("a", struct(column("b", "long")))],
            [column("a", "long")],
            ["column a was struct<b:bigint>, is bigint"],
        ),
    ],
)
def test_schemas(before: list[Any], after: list[Any], said: list[str]) -> None:
    """Every change of a column is a sentence."""
    texts = (json.dumps(struct(*before)), json.dumps(struct(*after)))
    assert list(schema_changes(*texts)) == said


@pytest.mark.parametrize("text", ["", "[]", "{}", '"long"', '{"fields": [1]}', '{"fields": 1}'])
def test_schemas_that_are_none(text: str) -> None:
    """What is no schema is refused as such."""
    with pytest.raises(UsageError, match="not what Spark writes"):
        schema_changes(text, text)
