"""Checks: what they say about numbers, and what they do to a batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from holdfast.checks import Facts, evaluate
from holdfast.config import ChecksConfig
from holdfast.model import CheckResult, TableOutcome

from .workshop import NOON, Row, Workshop, at

FACTS = Facts(
    now=NOON,
    strategy="incremental",
    source_rows=100,
    history=(100, 100, 100),
    newest=NOON - timedelta(minutes=1),
    has_cursor=True,
    column_changes=(),
    expected_rows=5,
    read_rows=5,
    written_rows=5,
)


def verdict(config: dict[str, Any], check: str, **facts: Any) -> CheckResult:
    """What one check says, about the usual facts with some of them changed."""
    results = evaluate(ChecksConfig(**config), replace(FACTS, **facts))
    (found,) = [result for result in results if result.check == check]
    return found


def test_checks_can_be_switched_off() -> None:
    """All at once, or one by one."""
    every = {result.check for result in evaluate(ChecksConfig(), FACTS)}

    assert every == {"row_count", "column_match", "anomaly"}
    assert evaluate(ChecksConfig(enabled=False), FACTS) == ()
    off = ChecksConfig(row_count=False, column_match=False, anomaly=False)
    assert evaluate(off, FACTS) == ()


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ({}, "ok"),
        ({"expected_rows": None}, "ok"),
        ({"written_rows": None}, "ok"),
        ({"expected_rows": 6}, "fail"),
        ({"written_rows": 4}, "fail"),
    ],
)
def test_row_count_wants_one_number_throughout(counts: dict[str, Any], status: str) -> None:
    """Planned, read and written must agree, as far as they are known."""
    assert verdict({}, "row_count", **counts).status == status


def test_a_database_may_move_while_it_is_read() -> None:
    """In a live source rows come and go between counting and reading; none of them is lost."""
    assert verdict({}, "row_count", expected_rows=6, live_source=True).status == "warn"
    assert verdict({}, "row_count", written_rows=4, live_source=True).status == "fail"


def test_row_count_says_all_the_numbers() -> None:
    """Whoever reads it can see where rows went."""
    found = verdict({}, "row_count", expected_rows=6, written_rows=4)

    assert "6 planned, 5 read, 4 written" in found.message
    assert (found.observed, found.expected) == (4, 6)


@pytest.mark.parametrize(
    ("count", "status"), [(100, "ok"), (150, "ok"), (50, "ok"), (151, "warn"), (49, "warn")]
)
def test_an_anomaly_is_further_from_the_average_than_the_threshold(count: int, status: str) -> None:
    """By more, not by as much; in both directions."""
    found = verdict({}, "anomaly", source_rows=count)

    assert (found.status, found.expected) == (status, 100)


def test_the_average_does_not_hold_the_current_count() -> None:
    """Counted in, the current count would hide its own deviation."""
    found = verdict({"anomaly_threshold_pct": 99}, "anomaly", source_rows=200)

    assert (found.status, found.expected) == ("warn", 100)


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_fewer_than_three_samples_are_not_enough(samples: int) -> None:
    """That is said as such; it is not "ok"."""
    found = verdict({}, "anomaly", history=(100,) * samples, source_rows=1)

    assert found.status == "not_enough_history"
    assert f"{samples} of 3" in found.message


def test_the_average_is_taken_over_the_window() -> None:
    """Older counts than that do not matter."""
    found = verdict({"anomaly_window": 3}, "anomaly", history=(10, 20, 30, 9999, 9999))

    assert found.expected == 20


def test_rows_after_nothing_are_an_anomaly() -> None:
    """An average of zero has no percentage, but a table that fills is worth a look."""
    assert verdict({}, "anomaly", history=(0, 0, 0), source_rows=9).status == "warn"
    assert verdict({}, "anomaly", history=(0, 0, 0), source_rows=0).status == "ok"


def test_a_refresh_stops_at_an_anomaly_by_default() -> None:
    """It would replace the target; an append only reports it. Either can be changed."""
    low = {"source_rows": 1}
    assert verdict({}, "anomaly", **low, strategy="full_refresh").status == "fail"
    assert verdict({}, "anomaly", **low, strategy="merge").status == "warn"
    eased = {"severity": {"anomaly": "warn"}}
    assert verdict(eased, "anomaly", **low, strategy="full_refresh").status == "warn"


@pytest.mark.parametrize(("seconds", "status"), [(59, "warn"), (60, "ok"), (61, "ok")])
def test_freshness_is_the_age_of_the_newest_row(seconds: int, status: str) -> None:
    """Exactly as old as allowed is fresh."""
    config = {"freshness": {"threshold_seconds": seconds}}

    assert verdict(config, "freshness").status == status


def test_freshness_has_no_answer_without_a_time() -> None:
    """A cursor of numbers has no age."""
    config = {"freshness": {"threshold_seconds": 1}}

    assert verdict(config, "freshness", newest=None).status == "not_applicable"


@pytest.mark.parametrize(
    ("history", "status"),
    [
        ((100,), "not_enough_history"),
        ((100, 99), "ok"),
        ((99, 100), "ok"),
        ((100, 100), "warn"),
    ],
)
def test_growth_counts_the_runs_that_brought_nothing(history: tuple[int, ...], status: str) -> None:
    """A flat count deviates from no average; this check is what notices it."""
    config = {"growth": {"max_flat_runs": 2}}

    assert verdict(config, "growth", history=history).status == status


def test_column_match_reports_drift() -> None:
    """Every change is in the message."""
    found = verdict({}, "column_match", column_changes=("column a is new", "column b is gone"))

    assert (found.status, found.observed) == ("warn", 2)
    assert found.message == "column a is new; column b is gone"


def test_null_rate_is_per_column_and_batch() -> None:
    """Each column has its own limit; as many nulls as allowed are fine."""
    config = ChecksConfig(null_rate={"A": 0.2, "b": 0.1})
    results = evaluate(config, replace(FACTS, nulls=(("a", 1), ("b", 1)), read_rows=5))

    found = {r.column: r.status for r in results if r.check == "null_rate"}

    assert found == {"a": "ok", "b": "warn"}


def row(number: int, **more: Any) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number), **more}


def status_of(outcome: TableOutcome, check: str) -> str:
    """The verdict of one check in an outcome."""
    (found,) = [result for result in outcome.checks if result.check == check]
    return found.status


def configure(shop: Workshop, checks: str, settings: str = 'watermark = "ts"') -> None:
    """Write a configuration with a section of checks."""
    shop.configure(f"{settings}\n[pipeline.p.checks]\n{checks}")


def test_a_run_reports_its_checks(shop: Workshop) -> None:
    """The batch's counts agree, the columns match, and there is no history yet."""
    shop.configure('watermark = "ts"')
    shop.add([row(1), row(2)])

    outcome = shop.copy()

    assert status_of(outcome, "row_count") == "ok"
    assert status_of(outcome, "column_match") == "ok"
    assert status_of(outcome, "anomaly") == "not_enough_history"


def test_checks_of_a_table_override_those_of_the_pipeline(shop: Workshop) -> None:
    """Key by key; the other tables keep the pipeline's."""
    shop.configure(
        'watermark = "ts"\n[pipeline.p.checks]\nanomaly = false\n'
        "[pipeline.p.table.u.checks]\nrow_count = false",
        tables=("t", "u"),
    )
    for table in ("t", "u"):
        shop.add([row(1)], table)

    found = {o.table: {c.check for c in o.checks} for o in shop.run_all().outcomes}

    assert found == {"p.t": {"row_count", "column_match"}, "p.u": {"column_match"}}


def test_an_anomaly_of_an_append_is_reported_and_does_not_stop_it(shop: Workshop) -> None:
    """Three counts are enough; runs without new rows count as well."""
    shop.configure('watermark = "ts"')
    shop.add([row(1), row(2)])
    for _ in range(3):
        shop.run()
    shop.add([row(number) for number in range(3, 9)])

    outcome = shop.copy()

    assert [c.status for c in outcome.anomalies] == ["warn"]
    assert "8 rows, +300 % against an average of 2" in outcome.anomalies[0].message
    assert len(shop.ids()) == 8


def test_freshness_goes_by_the_clock(shop: Workshop) -> None:
    """A source that stopped is noticed at a run that has nothing to copy."""
    configure(shop, "freshness = { threshold_seconds = 86400 }")
    shop.add([row(1)])
    assert status_of(shop.copy(), "freshness") == "ok"

    shop.clock.advance(days=2)

    assert status_of(shop.run(), "freshness") == "warn"


def test_growth_notices_a_source_that_stopped(shop: Workshop) -> None:
    """After as many flat runs as configured, not before."""
    configure(shop, "growth = { max_flat_runs = 2 }")
    shop.add([row(1)])

    found = [status_of(shop.run(), "growth") for _ in range(3)]
    shop.add([row(2)])
    found.append(status_of(shop.run(), "growth"))

    assert found == ["not_enough_history", "not_enough_history", "warn", "ok"]


def test_a_failed_check_keeps_a_batch_back(shop: Workshop) -> None:
    """Neither target nor watermark moves, nothing stays staged, and every check is reported."""
    configure(shop, 'null_rate = { email = 0.25 }\nseverity = { null_rate = "fail" }')
    shop.add([row(1, email="a")])
    shop.copy()
    before = (shop.state(), shop.batches())
    shop.add([row(2, email=None), row(3, email="c")], types={"email": pa.string()})

    outcome = shop.run()

    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert outcome.failure.error == "CheckFailed"
    assert "email is null in 50.0% of the batch's rows" in outcome.failure.message
    assert "The batch was not published" in outcome.failure.message
    assert "--allow-failed-checks --table p.t" in outcome.failure.hint
    assert status_of(outcome, "null_rate") == "fail"
    assert status_of(outcome, "row_count") == "ok"
    assert (shop.state(), shop.batches()) == before
    assert list(shop.staging.glob("*/*")) == []


def test_a_failed_check_can_be_let_pass_once(shop: Workshop) -> None:
    """`--allow-failed-checks` publishes the batch and reports the check as a warning."""
    configure(shop, 'null_rate = { email = 0 }\nseverity = { null_rate = "fail" }')
    shop.add([row(1, email=None)], types={"email": pa.string()})
    assert shop.run().status == "failed"

    outcome = shop.copy(allow_failed_checks=True)

    assert status_of(outcome, "null_rate") == "warn"
    assert shop.ids() == [1]


def test_a_batch_is_copied_once_its_source_was_put_right(shop: Workshop) -> None:
    """A refused batch leaves nothing in the way of the next one."""
    configure(shop, 'null_rate = { email = 0 }\nseverity = { null_rate = "fail" }')
    shop.rewrite([row(1, email=None), row(2, email="b")], types={"email": pa.string()})
    assert shop.run().status == "failed"
    shop.rewrite([row(1, email="a"), row(2, email="b")])

    assert shop.copy().rows == 2
    assert shop.ids() == [1, 2]


def test_column_match_can_stop_a_batch(shop: Workshop) -> None:
    """For those who want to be asked before a column is added."""
    configure(shop, 'severity = { column_match = "fail" }')
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2, colour="red")])

    failure = shop.run().failure

    assert failure is not None
    assert "column colour (string) is new" in failure.message
    assert "colour" not in shop.spark.read.parquet(str(shop.target())).columns


def test_a_count_that_was_refused_does_not_become_normal(shop: Workshop) -> None:
    """Only what was accepted is history: an accident does not wear its alarm out."""
    configure(shop, "", 'strategy = "full_refresh"')
    shop.rewrite([row(number) for number in range(10)])
    for _ in range(3):
        shop.copy()
    shop.rewrite([row(1)])
    for _ in range(2):
        assert shop.run().status == "failed"

    with shop.open() as project, project.ledger.reading() as view:
        counts = project.records.row_counts.history(view, "p.t")

    assert [sample.count for _, sample in counts if sample] == [10, 10, 10]


def test_results_are_in_the_ledger(shop: Workshop) -> None:
    """What a run reported can be looked up afterwards."""
    shop.configure('watermark = "ts"')
    shop.add([row(1)])
    result = shop.run_all()

    with shop.open() as project, project.ledger.reading() as view:
        (stored,) = project.records.outcomes_of(view, result.run.run_id)

    assert stored == result.outcomes[0]
