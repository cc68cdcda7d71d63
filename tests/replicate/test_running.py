"""Runs: tables side by side, one failing alone, one run at a time, and what a run costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from holdfast import failpoints
from holdfast.errors import PipelineBusy, UsageError
from holdfast.ledger.typed import Collection
from holdfast.model import Lease, TableOutcome

from .crashes import crash
from .workshop import Row, Workshop, at

DEADLINE_S = 60


def row(number: int) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number)}


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop with three tables of one row."""
    shop.configure('watermark = "ts"', tables=("a", "b", "c"))
    for table in ("a", "b", "c"):
        shop.add([row(1)], table)
    return shop


def one_table(shop: Workshop) -> None:
    """Leave only one of the tables in the configuration."""
    shop.configure('watermark = "ts"', tables=("a",))


def statuses(outcomes: tuple[TableOutcome, ...]) -> dict[str, str]:
    """How each table fared."""
    return {outcome.table: outcome.status for outcome in outcomes}


def test_one_failing_table_does_not_stop_the_others(shop: Workshop) -> None:
    """The run is then `partial`, and the failure says what is wrong with that one."""
    shutil.rmtree(shop.source("b"))

    result = shop.run_all()

    assert result.run.status == "partial"
    assert statuses(result.outcomes) == {"p.a": "copied", "p.b": "failed", "p.c": "copied"}
    assert (shop.ids("a"), shop.ids("c")) == ([1], [1])
    assert result.run.finished_at is not None


def test_a_run_in_which_every_table_fails_has_failed(shop: Workshop) -> None:
    """Partial means that something was done."""
    shutil.rmtree(shop.directory / "source")

    assert shop.run_all().run.status == "failed"


def test_resume_does_only_what_is_missing(shop: Workshop) -> None:
    """Tables that were brought up to date are left alone, even if they have newer rows."""
    shutil.rmtree(shop.source("b"))
    first = shop.run_all()
    for table in ("a", "b"):
        shop.add([row(2)], table)

    result = shop.run_all(resume=True)

    assert statuses(result.outcomes) == {"p.b": "copied"}
    assert (result.run.status, result.run.resumes) == ("success", first.run.run_id)
    assert (shop.ids("a"), shop.ids("b")) == ([1], [2])


def test_resume_goes_on_after_a_crash(shop: Workshop) -> None:
    """A run that never said how it ended owes every table it did not commit."""
    shop.configure('watermark = "ts"\nconcurrency = 1', tables=("a", "b", "c"))

    def die_at_b(step: str, table: str) -> None:
        if (step, table) == ("after_write", "p.b"):
            raise KeyboardInterrupt

    failpoints.observe(die_at_b)
    with pytest.raises(KeyboardInterrupt):
        shop.run_all()
    failpoints.observe(None)

    done = {table for table in ("a", "b", "c") if shop.target(table).exists()}
    result = shop.run_all(resume=True)

    assert "a" in done
    assert "b" not in done
    assert set(statuses(result.outcomes)) == {f"p.{t}" for t in ("a", "b", "c") if t not in done}
    assert shop.ids("a") == shop.ids("b") == shop.ids("c") == [1]


def test_resume_without_anything_missing_is_refused(shop: Workshop) -> None:
    """There was no run, or it finished."""
    with pytest.raises(UsageError, match="has never run"):
        shop.run_all(resume=True)
    shop.run_all()
    with pytest.raises(UsageError, match="nothing to resume"):
        shop.run_all(resume=True)


def test_tables_run_side_by_side(shop: Workshop) -> None:
    """As many as `concurrency` says are under way at once."""
    together = threading.Barrier(3)

    def meet(step: str, _table: str) -> None:
        if step == "before_read":
            together.wait(DEADLINE_S)

    failpoints.observe(meet)

    assert shop.run_all().run.status == "success"


def test_a_run_tells_how_it_goes_on(shop: Workshop) -> None:
    """Progress hears of all tables first, then of each phase, then of each end."""

    class Listener:
        def __init__(self) -> None:
            self.tables: list[str] = []
            self.phases: list[str] = []
            self.ended: list[str] = []

        def begin(self, tables: list[str]) -> None:
            self.tables = tables

        def phase(self, table: str, phase: str) -> None:
            self.phases.append(phase)

        def done(self, outcome: TableOutcome) -> None:
            self.ended.append(outcome.table)

    one_table(shop)
    listener = Listener()
    shop.run_all(progress=listener)

    assert (listener.tables, listener.ended) == (["p.a"], ["p.a"])
    assert listener.phases == ["planning", "copying", "publishing"]


def test_a_second_run_at_once_is_refused(shop: Workshop) -> None:
    """It names the process that is in the way and what to do about it."""
    one_table(shop)
    refusals: list[PipelineBusy] = []

    def run_again(step: str, _table: str) -> None:
        if step == "before_read":
            with pytest.raises(PipelineBusy) as caught:
                shop.run_all()
            refusals.append(caught.value)

    failpoints.observe(run_again)
    shop.copy()

    (refusal,) = refusals
    assert f"is being run by process {os.getpid()} on " in refusal.message
    assert f"kill {os.getpid()}" in refusal.hint


def test_pipelines_of_one_ledger_do_not_block_each_other(shop: Workshop) -> None:
    """The lease is per pipeline."""
    one_table(shop)
    with shop.open() as other:
        lease = other.records.leases.acquire("another", "run")
        shop.copy()
        other.records.leases.release("another", lease)


def test_the_lease_of_a_dead_process_is_taken_over(shop: Workshop) -> None:
    """A process that was killed does not keep its pipeline, and nobody has to wait."""
    one_table(shop)
    script = (
        "import os, sys, holdfast\n"
        "project = holdfast.open_project(sys.argv[1])\n"
        "lease = project.records.leases.acquire('p', 'a run that was killed')\n"
        "print(lease.generation, flush=True)\n"
        "os._exit(1)\n"
    )
    died = subprocess.run(
        [sys.executable, "-c", script, str(shop.toml)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert died.stdout == "1\n", died.stderr

    result = shop.run_all()

    assert (result.run.status, result.run.generation) == ("success", 2)


def overtake(shop: Workshop, step: str) -> None:
    """Let another run take the pipeline over when this one reaches a step."""
    leases = Collection("leases", Lease)

    def observer(reached: str, _table: str) -> None:
        if reached != step:
            return
        with shop.open() as other, other.ledger.writing() as change:
            held = leases.get(change, "p")
            assert held is not None
            newer = replace(held, generation=held.generation + 1, released=True)
            leases.put(change, "p", newer)

    failpoints.observe(observer)


@pytest.mark.parametrize("step", ["before_read", "after_write", "before_publish", "before_commit"])
def test_a_run_that_was_overtaken_cannot_commit(shop: Workshop, step: str) -> None:
    """It ends with `LeaseLost`; up to its publication it leaves the target alone, too."""
    one_table(shop)
    shop.copy()
    shop.add([row(2)], "a")
    before = (shop.state("p.a").version, shop.ids("a"))
    overtake(shop, step)

    outcome = shop.run()

    failpoints.observe(None)
    assert outcome.failure is not None
    assert outcome.failure.error == "LeaseLost"
    assert shop.state("p.a").version == before[0]
    if step != "before_commit":
        assert shop.ids("a") == before[1]
    shop.copy()
    assert shop.ids("a") == [1, 2]


def test_a_mistake_of_ours_is_one_failed_table_and_a_trace_in_the_log(shop: Workshop) -> None:
    """The message is short, names the log, and the others go on."""

    def stumble(step: str, table: str) -> None:
        if (step, table) == ("before_read", "p.b"):
            raise ZeroDivisionError("stumbled")

    failpoints.observe(stumble)
    result = shop.run_all()

    assert result.run.status == "partial"
    failure = next(o.failure for o in result.outcomes if o.table == "p.b")
    assert failure is not None
    assert failure.message == "p.b: ZeroDivisionError: stumbled"
    assert "mistake in Holdfast" in failure.hint
    log = shop.directory / ".holdfast" / "holdfast.log"
    assert str(log) in failure.hint
    trace = log.read_text()
    assert "p.b" in trace
    assert "Traceback" in trace
    assert 'raise ZeroDivisionError("stumbled")' in trace


def test_a_source_that_loses_a_file_during_the_read_loses_no_row(shop: Workshop) -> None:
    """The table fails with the name of the file; nothing is committed; the next run is right."""
    one_table(shop)
    shop.copy()
    shop.add([row(2)], "a")
    (doomed,) = sorted(shop.source("a").glob("*"))[1:]

    def remove(step: str, _table: str) -> None:
        if step == "before_read":
            doomed.unlink()

    failpoints.observe(remove)
    outcome = shop.run()
    failpoints.observe(None)

    assert outcome.failure is not None
    assert outcome.failure.error == "SourceChanged"
    assert doomed.name in outcome.failure.message
    assert shop.ids("a") == [1]
    shop.add([row(2)], "a")
    shop.copy()
    assert shop.ids("a") == [1, 2]


def test_a_source_that_shrinks_between_counting_and_reading_is_noticed(shop: Workshop) -> None:
    """The row count check keeps the batch back: it is not what was planned."""
    file = shop.directory / "source" / "d.json"
    lines = [f'{{"id": {i}, "ts": "2024-06-01T10:0{i}:00Z"}}' for i in range(3)]
    file.write_text("\n".join(lines))
    shop.configure(
        'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]',
        tables=("d",),
        source='format = "json", path = "source", schema = "id int, ts timestamp"',
    )

    def shrink(step: str, _table: str) -> None:
        if step == "before_read":
            file.write_text(lines[0])

    failpoints.observe(shrink)
    outcome = shop.run()

    assert outcome.failure is not None
    assert outcome.failure.error == "CheckFailed"
    assert "3 planned, 1 read" in outcome.failure.message
    assert not shop.target("d").exists()


def jobs(shop: Workshop) -> set[int]:
    """Every job Spark has run."""
    return set(shop.spark.sparkContext.statusTracker().getJobIdsForGroup())


def test_a_run_without_changes_takes_two_spark_jobs_a_table(shop: Workshop) -> None:
    """Knowing that nothing is new must stay cheap."""
    shop.run_all()
    before = jobs(shop)

    result = shop.run_all()

    assert set(statuses(result.outcomes).values()) == {"unchanged"}
    assert len(jobs(shop) - before) <= 2 * len(result.outcomes)


def test_a_run_is_remembered_with_its_outcomes(shop: Workshop) -> None:
    """Who, when, which tables, and how each fared."""
    result = shop.run_all()

    with shop.open() as project, project.ledger.reading() as view:
        last = project.records.last_run(view, "p")
        outcomes = project.records.outcomes_of(view, result.run.run_id)

    assert last == result.run
    assert tuple(outcomes) == result.outcomes
    assert (result.run.started_at, result.run.tables) == (shop.clock.now, ("p.a", "p.b", "p.c"))


def test_a_crashed_batch_and_what_came_since_are_copied_in_one_run(shop: Workshop) -> None:
    """The outcome names both batches and counts the rows of both."""
    one_table(shop)
    crash(shop, "before_publish")
    shop.add([row(2)], "a")

    outcome = shop.copy()

    assert (outcome.rows, len(outcome.batch_ids)) == (2, 2)
    assert any("of an interrupted run" in note for note in outcome.notes)
    assert shop.ids("a") == [1, 2]
    assert shop.batches("a") == sorted(outcome.batch_ids)
