"""Typed access to a ledger."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from holdfast.errors import LedgerDamaged, LedgerError, VersionConflict
from holdfast.ledger import ABSENT, Collection, Ledger, open_ledger


@dataclass(frozen=True, slots=True)
class Bound:
    """A value inside another one."""

    value: int | str | float | None


@dataclass(frozen=True, slots=True)
class Position:
    """A value of the kind that Holdfast stores."""

    table: str
    high: Bound
    seen_at: datetime
    day: date = date(2025, 3, 15)
    price: Decimal = Decimal("1.10")
    columns: tuple[str, ...] = ()


POSITIONS = Collection("positions", Position)


def position(value: int | str | float | None = 1) -> Position:
    """Return a position that differs by its bound."""
    return Position(
        "été", Bound(value), datetime(2025, 3, 15, 14, 30, tzinfo=UTC), columns=("id", "name")
    )


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """An empty ledger."""
    with open_ledger(":memory:") as ledger:
        yield ledger


@pytest.mark.parametrize("value", [1, 2**70, "text", 1.5, float("inf"), None])
def test_a_value_comes_back_equal(ledger: Ledger, value: int | str | float | None) -> None:
    """A nested frozen value with times, decimals and tuples survives being stored."""
    with ledger.writing() as tx:
        assert POSITIONS.put(tx, "orders", position(value)) == 1
    with ledger.reading() as tx:
        assert POSITIONS.get(tx, "orders") == position(value)
        assert POSITIONS.get(tx, "unknown") is None


def test_equal_values_are_equal_bytes(ledger: Ledger) -> None:
    """Values are stored as compact JSON with sorted keys."""
    with ledger.writing() as tx:
        POSITIONS.put(tx, "orders", position())
        stored = tx.get("positions", "orders")
    assert stored is not None
    assert (
        stored.value
        == (
            '{"columns":["id","name"],"day":"2025-03-15","high":{"value":1},"price":"1.10",'
            '"seen_at":"2025-03-15T14:30:00Z","table":"été"}'
        ).encode()
    )


def test_history_is_typed(ledger: Ledger) -> None:
    """Old versions, deletions and the history are read as values, newest first."""
    with ledger.writing() as tx:
        POSITIONS.put(tx, "orders", position(1))
        POSITIONS.put(tx, "orders", position(2))
        assert POSITIONS.delete(tx, "orders") is True
        assert POSITIONS.delete(tx, "orders") is False
        assert POSITIONS.get(tx, "orders") is None
        assert POSITIONS.read(tx, "orders", 1) == position(1)
        assert POSITIONS.read(tx, "orders", 3) is None
        assert POSITIONS.read(tx, "orders", 9) is None
        history = POSITIONS.history(tx, "orders")
        assert [(info.version, value) for info, value in history] == [
            (3, None),
            (2, position(2)),
            (1, position(1)),
        ]
        assert POSITIONS.history(tx, "orders", limit=2) == history[:2]
        assert POSITIONS.prune(tx, "orders", keep=1) == 2
        assert POSITIONS.history(tx, "orders") == history[:1]


def test_items_are_typed(ledger: Ledger) -> None:
    """Live values are walked with their keys, by prefix and in order."""
    with ledger.writing() as tx:
        for key in ("shop.b", "shop.a", "other", "shop.gone"):
            POSITIONS.put(tx, key, position(key))
        POSITIONS.delete(tx, "shop.gone")
        assert list(POSITIONS.items(tx, "shop.")) == [
            ("shop.a", position("shop.a")),
            ("shop.b", position("shop.b")),
        ]
        assert [key for key, _ in POSITIONS.items(tx)] == ["other", "shop.a", "shop.b"]


def test_compare_and_set_is_passed_on(ledger: Ledger) -> None:
    """`expect` works on typed puts and deletes as it does on plain ones."""
    with ledger.writing() as tx:
        version = POSITIONS.put(tx, "orders", position(), expect=ABSENT)
        with pytest.raises(VersionConflict):
            POSITIONS.put(tx, "orders", position(), expect=ABSENT)
        with pytest.raises(VersionConflict):
            POSITIONS.delete(tx, "orders", expect=version + 1)
        assert POSITIONS.delete(tx, "orders", expect=version) is True


@pytest.mark.parametrize("stored", [b"", b"\xff", b"{", b"{}", b'{"table": 1}', b"null"])
def test_a_value_of_another_shape_is_named(ledger: Ledger, stored: bytes) -> None:
    """A stored value that does not decode is refused with its address and version."""
    with ledger.writing() as tx:
        POSITIONS.put(tx, "orders", position())
        tx.put("positions", "orders", stored)
        with pytest.raises(LedgerDamaged, match="positions/orders version 2") as refused:
            POSITIONS.get(tx, "orders")
        assert "Position" in refused.value.message
        assert POSITIONS.read(tx, "orders", 1) == position()


def test_a_value_of_another_type_is_not_stored(ledger: Ledger) -> None:
    """A value that could not be read back is refused before it is written."""
    wrong = Position("orders", Bound(1), "yesterday")  # type: ignore[arg-type]
    with ledger.writing() as tx:
        for value in (wrong, {"table": "orders"}, None):
            with pytest.raises(LedgerError, match="positions/orders"):
                POSITIONS.put(tx, "orders", value)  # type: ignore[arg-type]
        assert tx.versions("positions", "orders") == []


def test_a_ledger_needs_neither_spark_nor_the_test_suites() -> None:
    """Commands that only look at the ledger start without Spark, and without pytest installed."""
    check = (
        "import sys; from holdfast.ledger import open_ledger; open_ledger(':memory:'); "
        "sys.exit(bool({'pyspark', 'pytest', 'hypothesis'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
