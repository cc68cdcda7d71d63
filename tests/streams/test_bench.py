"""The benchmark measures what it says, on small data."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.stream import endurance, overhead
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_both_sides_write_every_row(spark: SparkSession, tmp_path: Path) -> None:
    """A round compares the same work; the benchmark itself counts the rows of both."""
    found = overhead(spark, tmp_path, epochs=3, rows=20, rounds=1)

    assert found.plain_seconds > 0
    assert 0 < found.commit_share < 1
    assert found.ratio == pytest.approx(found.holdfast_seconds / found.plain_seconds, rel=0.2)


def test_the_number_of_files_is_bounded(spark: SparkSession, tmp_path: Path) -> None:
    """Retention keeps ten versions, however many epochs there were."""
    found = endurance(spark, tmp_path, epochs=30)

    assert found.kept == 10
