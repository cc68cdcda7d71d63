"""Commands in a directory of their own, on the session all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .harness import Commands, Shop, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline `shop` with one table of five rows."""
    shop = Shop(tmp_path)
    shop.configure()
    shop.add("orders", "a", rows(1, 5))
    return shop


@pytest.fixture
def cli(tmp_path: Path) -> Commands:
    """Commands that need no Spark."""
    return Commands(tmp_path)


@pytest.fixture
def spark_cli(cli: Commands, spark: SparkSession) -> Commands:
    """Commands that run on the session of the tests, which outlives them."""
    return cli


@pytest.fixture(scope="session")
def shop_copied_twice(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Shop:
    """Two tables, copied twice: five rows each, then two more; not to be changed by tests."""
    shop = Shop(tmp_path_factory.mktemp("copied"))
    shop.configure(tables=["orders", "customers"])
    for name, content in (("a", rows(1, 5)), ("b", rows(6, 7))):
        for table in ("orders", "customers"):
            shop.add(table, name, content)
        assert Commands(shop.root)("run").code == 0
    return shop


@pytest.fixture
def copied_shop(shop_copied_twice: Shop, tmp_path: Path) -> Shop:
    """Two tables, copied twice, to be changed freely."""
    return shop_copied_twice.duplicate(tmp_path)
