"""What readers of a directory see while it is written: all of a batch or nothing of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipelines.replicating import STEPS
from holdfast.spark import filesystem

from .crashes import Crash, crash
from .workshop import Row, Workshop, at, read_parquet

MERGE = 'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]'
SIZE = 40


def version(number: int) -> list[Row]:
    """A batch of rows that all say which one it is."""
    return [{"id": i, "ts": at(number), "version": number} for i in range(SIZE)]


def snapshot(table: Path) -> Counter[int]:
    """List a table and read what was listed, as any reader does: rows per version."""
    found: Counter[int] = Counter()
    for batch in sorted(table.iterdir()):
        if batch.name.startswith("holdfast_batch="):
            # Not `glob`, which takes a directory that is gone for an empty one.
            for part in sorted(batch.iterdir()):
                if part.name.startswith("part-"):
                    found.update(read_parquet(part).column("version").to_pylist())
    return found


class Reader(threading.Thread):
    """Reads a table again and again; a read that is overtaken by an exchange must fail."""

    def __init__(self, table: Path) -> None:
        super().__init__(daemon=True)
        self.seen: list[Counter[int]] = []
        self.failed = 0
        self._table = table
        self._ended = threading.Event()

    def run(self) -> None:
        # The pause leaves the processor to the run that is being watched.
        while not self._ended.wait(0.005):
            try:
                self.seen.append(snapshot(self._table))
            except FileNotFoundError:
                self.failed += 1

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join()


@contextmanager
def reading(table: Path) -> Iterator[Reader]:
    """Read a table all the while."""
    reader = Reader(table)
    reader.start()
    try:
        yield reader
    finally:
        reader.end()


def test_a_reader_of_an_appended_table_sees_only_whole_batches(shop: Workshop) -> None:
    """Batches appear one after the other, each with all of its rows."""
    shop.configure('watermark = "ts"')
    shop.add(version(0))
    shop.copy()
    with reading(shop.target()) as reader:
        for number in range(1, 4):
            shop.add(version(number))
            shop.copy()

    allowed = [Counter(dict.fromkeys(range(n + 1), SIZE)) for n in range(4)]
    assert all(seen in allowed for seen in reader.seen)
    assert reader.failed == 0
    assert snapshot(shop.target()) == allowed[-1]
    assert len({len(seen) for seen in reader.seen}) > 1, "the reader saw the table change"


def test_a_reader_of_replaced_tables_sees_the_old_or_the_new_one(shop: Workshop) -> None:
    """A table whose rows change is exchanged whole, whether it is merged or copied anew."""
    shop.configure(
        'watermark = "ts"\n'
        '[pipeline.p.table.merged]\nstrategy = "merge"\nprimary_key = ["id"]\n'
        '[pipeline.p.table.refreshed]\nstrategy = "full_refresh"',
        tables=("merged", "refreshed"),
    )

    def write(number: int) -> None:
        for table in ("merged", "refreshed"):
            shop.rewrite(version(number), table)
        assert shop.run_all().run.status == "success"

    write(0)
    with reading(shop.target("merged")) as one, reading(shop.target("refreshed")) as other:
        write(1)
        write(2)

    for reader, table in ((one, "merged"), (other, "refreshed")):
        assert all(len(seen) == 1 and seen.total() == SIZE for seen in reader.seen)
        assert snapshot(shop.target(table)) == Counter({2: SIZE})
        versions = {next(iter(seen)) for seen in reader.seen}
        assert len(versions) > 1, "the reader saw the table change"
    assert staged(shop) == []


def test_a_plain_spark_reader_needs_no_help(shop: Workshop) -> None:
    """`spark.read.parquet(target)` finds the rows and, as a column, the batch of each."""
    shop.configure('watermark = "ts"')
    for number in range(2):
        shop.add(version(number))
        shop.copy()

    found = shop.spark.read.parquet(str(shop.target()))

    assert found.count() == 2 * SIZE
    assert {r[0] for r in found.select("holdfast_batch").distinct().collect()} == set(
        shop.batches()
    )
    assert found.where("holdfast_batch != _batch_id").count() == 0


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_tables_that_are_right_to_read(shop: Workshop, step: str) -> None:
    """Before publishing the old table is there, after it the new one; the next run finishes."""
    shop.configure(
        'watermark = "ts"\n[pipeline.p.table.merged]\nstrategy = "merge"\nprimary_key = ["id"]',
        tables=("appended", "merged"),
    )
    tables = {"appended": Counter({0: SIZE, 1: SIZE}), "merged": Counter({1: SIZE})}
    for table in tables:
        shop.add(version(0), table)
    shop.run_all()
    for table in tables:
        shop.add(version(1), table)

    crash(shop, step)

    published = STEPS.index(step) >= STEPS.index("after_publish")
    for table, after in tables.items():
        assert snapshot(shop.target(table)) == (after if published else Counter({0: SIZE}))
    outcomes = shop.run_all().outcomes
    expected = "unchanged" if step == "after_commit" else "copied"
    assert {outcome.status for outcome in outcomes} == {expected}
    for table, after in tables.items():
        assert snapshot(shop.target(table)) == after


def staged(shop: Workshop) -> list[Path]:
    """What is left where batches are staged."""
    return sorted(shop.staging.glob("*/*"))


def test_the_table_that_a_crash_left_in_staging_is_cleared_by_the_next_batch(
    shop: Workshop,
) -> None:
    """After an exchange the old table lies in staging; it must not stay there for ever."""
    shop.configure(MERGE)
    shop.add(version(0))
    shop.copy()
    shop.add(version(1))
    crash(shop, "after_commit")
    assert staged(shop)

    shop.add(version(2))
    shop.copy()

    assert staged(shop) == []


def test_staging_never_clears_what_a_newer_run_is_writing(shop: Workshop) -> None:
    """A run that was overtaken, and does not know it yet, leaves its successor's files alone."""
    shop.configure('watermark = "ts"')
    newer = shop.staging / "p.t" / "ffffffff-ffff-7fff-bfff-ffffffffffff" / "part"
    newer.parent.mkdir(parents=True)
    newer.touch()
    shop.add(version(0))
    shop.copy()

    assert newer.exists()


@pytest.fixture
def two_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot exchange two directories in one step."""
    monkeypatch.setattr(filesystem, "_exchange_in_one_step", lambda one, other: False)


@pytest.mark.usefixtures("two_renames")
def test_without_an_exchange_two_renames_do(shop: Workshop) -> None:
    """A reader in between finds no table, never half of one."""
    shop.configure(MERGE)
    shop.rewrite(version(0))
    shop.copy()
    with reading(shop.target()) as reader:
        for number in range(1, 3):
            shop.rewrite(version(number))
            shop.copy()

    whole = [seen for seen in reader.seen if seen]
    assert all(len(seen) == 1 and seen.total() == SIZE for seen in whole)
    assert snapshot(shop.target()) == Counter({2: SIZE})
    assert staged(shop) == []


def crash_before_rename(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], None]:
    """Crash instead of making the rename of that number; call the result to stop crashing."""
    real = Path.rename
    left = [number]

    def rename(self: Path, target: Any) -> Path:
        if left[0] == 0:
            raise Crash(f"rename {self} to {target}")
        left[0] -= 1
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    return lambda: monkeypatch.setattr(Path, "rename", real)


@pytest.mark.usefixtures("two_renames")
@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_crash_between_the_renames_is_finished_by_the_next_run(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """Whichever of the renames were made, the next run brings the new table into its place."""
    shop.configure(MERGE)
    shop.add(version(0))
    shop.copy()
    shop.add(version(1))
    recover = crash_before_rename(monkeypatch, renames)
    with pytest.raises(Crash):
        shop.run()
    assert shop.target().exists() == (renames != 1)
    recover()

    outcome = shop.copy()

    assert outcome.reason == "recover"
    assert snapshot(shop.target()) == Counter({1: SIZE})
    assert staged(shop) == []


@pytest.mark.usefixtures("two_renames")
def test_a_batch_given_up_between_the_renames_brings_the_old_table_back(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that no longer passes refuses the batch; the only copy is not thrown away."""
    freshness = "freshness = { threshold_seconds = 86400 }\nseverity = { freshness = 'fail' }"
    shop.configure(f"{MERGE}\n[pipeline.p.checks]\n{freshness}")
    shop.add(version(0))
    shop.copy()
    shop.add(version(1))
    recover = crash_before_rename(monkeypatch, 1)
    with pytest.raises(Crash):
        shop.run()
    recover()
    shop.clock.advance(days=3)

    outcome = shop.run()

    assert outcome.failure is not None
    assert outcome.failure.error == "CheckFailed"
    assert snapshot(shop.target()) == Counter({0: SIZE})


def test_a_damaged_manifest_is_named(shop: Workshop) -> None:
    """A batch that cannot be understood is not guessed about."""
    shop.configure('watermark = "ts"')
    shop.add(version(0))
    crash(shop, "before_publish")
    (manifest,) = shop.staging.glob("*/*/*/_holdfast.json")
    manifest.write_text("{")

    failure = shop.run().failure

    assert failure is not None
    assert failure.error == "TargetError"
    assert f"the manifest in {manifest.parent} is damaged" in failure.message
