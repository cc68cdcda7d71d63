"""Whatever happens to a source and to the runs that copy it, the target ends equal to it.

Three tables live through the same random story of inserts, ties, late rows, updates, runs and
crashes. At its end, after one run that nothing disturbs, each target is compared with its source
as a multiset.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast import failpoints
from holdfast.pipelines.replicating import STEPS

from .crashes import Crash
from .workshop import Row, Workshop, at, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVERLAP_S = 600
SETTINGS = """
concurrency = 3
checks = { anomaly = false }

[pipeline.p.table.ticks]            # appended by time, ties told apart by their number
cursor = ["ts", "id"]

[pipeline.p.table.log]              # appended by number, whatever their time
watermark = "id"

[pipeline.p.table.people]           # changed in place, and some changes come late
strategy = "merge"
watermark = "ts"
primary_key = ["id"]
overlap = "10 minutes"
"""
TABLES = ("ticks", "log", "people")


@dataclass
class Source:
    """The three source tables, as a database that is written to would hold them."""

    shop: Workshop
    random: random.Random
    second: int = 0
    ticks: list[Row] = field(default_factory=list)
    log: list[Row] = field(default_factory=list)
    people: dict[int, Row] = field(default_factory=dict)

    def insert(self, rows: int) -> None:
        """New rows everywhere, at a new time."""
        self.second += self.random.randint(1, OVERLAP_S * 2)
        self._append(rows, self.second)
        for _ in range(rows):
            self._person(len(self.people), self.second)

    def tie(self, rows: int) -> None:
        """New rows at exactly the time of the newest ones."""
        self._append(rows, self.second)
        for _ in range(rows):
            self._person(len(self.people), self.second)

    def come_late(self, rows: int) -> None:
        """Rows with a time that was already passed, where a table can take them."""
        for _ in range(rows):
            late = self.second - self.random.randrange(OVERLAP_S)
            self._add_log(late)
            self._person(len(self.people), late)

    def update(self, rows: int) -> None:
        """Rows that exist change, some of them with a time a little in the past."""
        self.second += 1
        for key in self.random.sample(sorted(self.people), min(rows, len(self.people))):
            late = self.second - self.random.randrange(OVERLAP_S)
            now = self.people[key]["ts"]
            self._person(key, self.second if _moment(late) <= now else late)

    def write(self) -> None:
        """Bring the files up to date."""
        tables = {"ticks": self.ticks, "log": self.log, "people": list(self.people.values())}
        for table, rows in tables.items():
            # At least one row, whose types stand for the empty table's.
            self.shop.rewrite(rows, table)

    def _append(self, rows: int, second: int) -> None:
        for _ in range(rows):
            self.ticks.append(self._row(len(self.ticks), second))
            self._add_log(second)

    def _add_log(self, second: int) -> None:
        self.log.append(self._row(len(self.log), second))

    def _person(self, key: int, second: int) -> None:
        self.people[key] = self._row(key, second)

    def _row(self, key: int, second: int) -> Row:
        return {"id": key, "ts": _moment(second), "value": self.random.getrandbits(40)}


def _moment(second: int) -> object:
    return at(-24 * 60) + timedelta(seconds=second)


@dataclass(frozen=True)
class Step:
    """One thing that happens."""

    name: str
    size: int = 0
    crash: tuple[str, str] | None = None


changes = st.builds(
    Step, st.sampled_from(["insert", "tie", "come_late", "update"]), st.integers(1, 4)
)
crashes = st.tuples(st.sampled_from(STEPS), st.sampled_from(TABLES))
runs = st.builds(Step, st.just("run"), crash=st.none() | crashes)
stories = st.lists(st.tuples(changes, st.lists(changes, max_size=2), runs), max_size=3)


def run(shop: Workshop, crash: tuple[str, str] | None) -> None:
    """Run, and crash one table at one step if asked to."""

    def observer(step: str, table: str) -> None:
        if crash is not None and (step, table) == (crash[0], f"p.{crash[1]}"):
            raise Crash(step)

    failpoints.observe(observer)
    try:
        shop.run_all()
    except Crash:
        pass
    finally:
        failpoints.observe(None)


def live_through(
    spark: SparkSession,
    directory: Path,
    story: list[tuple[Step, list[Step], Step]],
    seed: int,
) -> None:
    """Tell the story, then compare every target with its source."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shop = Workshop(directory, spark)
    shop.configure(SETTINGS, tables=TABLES)
    source = Source(shop, random.Random(seed))
    source.insert(2)
    source.write()
    for first, more, then in story:
        for step in (first, *more):
            change: Callable[[int], None] = getattr(source, step.name)
            change(step.size)
        source.write()
        run(shop, then.crash)
        for table, rows in (("ticks", source.ticks), ("log", source.log)):
            found = shop.ids(table)
            assert len(found) == len(set(found)), f"{table} holds a row twice"
            assert len(found) <= len(rows)

    result = shop.run_all()

    assert result.run.status == "success", result.outcomes
    assert shop.copied("ticks") == sorted_rows(source.ticks)
    assert shop.copied("log") == sorted_rows(source.log)
    assert shop.copied("people") == sorted_rows(source.people.values())


common = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# Without shrinking, which would take longer than a test may; the campaign below shrinks.
@settings(common, max_examples=8, derandomize=True, phases=[Phase.generate])
@given(story=stories, seed=st.integers(0, 2**32))
def test_the_target_ends_equal_to_the_source(
    spark: SparkSession,
    tmp_path: Path,
    story: list[tuple[Step, list[Step], Step]],
    seed: int,
) -> None:
    """Appended tables hold every row once, a merged one the latest of every key."""
    live_through(spark, tmp_path / "story", story, seed)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@settings(common, max_examples=400)
@given(story=stories, seed=st.integers(0, 2**32))
def test_the_target_ends_equal_to_the_source_for_long(
    spark: SparkSession,
    tmp_path: Path,
    story: list[tuple[Step, list[Step], Step]],
    seed: int,
) -> None:
    """The same for many more stories, and other ones each time."""
    live_through(spark, tmp_path / "story", story, seed)
