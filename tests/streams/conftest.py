"""What the tests of streams share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import failpoints

from .world import World


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A project of the test's own, in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)
    made = World(tmp_path, spark)
    made.configure()
    yield made
    failpoints.observe(None)
    # The modules of this project must not be taken for those of the next one.
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
