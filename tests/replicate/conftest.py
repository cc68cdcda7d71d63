"""A fresh workshop for every test, on the one Spark session of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import failpoints

from .workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Workshop:
    """A project directory with nothing in it yet."""
    return Workshop(tmp_path, spark)


@pytest.fixture(autouse=True)
def _no_failpoint_left() -> Iterator[None]:
    """A crash that one test arms never reaches the next."""
    yield
    failpoints.observe(None)
