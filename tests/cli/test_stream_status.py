"""`holdfast status` of streams: what they do, promise, and still owe their sinks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.ledger import open_ledger
from holdfast.ledger.records import Records

from .events import CHECKPOINT, LAKE, STREAM, Events, three_versions
from .harness import Commands

pytestmark = pytest.mark.spark

STATUS = {
    "pipeline",
    "state",
    "since",
    "waiting",
    "retry_at",
    "version",
    "epoch",
    "generation",
    "checkpoint",
    "checkpoint_age_seconds",
    "unfinished_epoch",
    "commit_policy",
    "guarantee",
    "at_least_once_sinks",
    "last_run",
    "sinks",
}
SINK = {
    "sink",
    "required",
    "guarantee",
    "delivered",
    "behind_epochs",
    "spool_batches",
    "spool_bytes",
    "dropped_count",
    "roll_back_untold",
    "error",
}
RUN = {"run_id", "status", "started_at", "finished_at", "actor", "failure"}
AUDIT = """\
[[pipeline.payments.sinks]]
name = "audit"
type = "python"
function = "auditor:deliver"
required = false
retry = { attempts = 1, first_delay = "100ms", max_delay = "100ms" }
"""
AUDITOR = """
def deliver(frame, token):
    raise ConnectionError("nobody [answers]")
"""


def test_never_run(tmp_path: Path, cli: Commands) -> None:
    """A stream that has not run says what it will promise, from its configuration."""
    Events(tmp_path).configure(STREAM, LAKE, AUDIT)

    said = cli("status").out
    (status,) = cli("status", "-o", "json").json["pipelines"]

    assert "payments: never run" in said
    assert "no checkpoint yet" in said
    assert "at least once to audit, exactly once to the others" in said
    assert set(status) == STATUS
    assert (status["state"], status["version"], status["last_run"]) == ("never_run", None, None)
    assert (status["guarantee"], status["at_least_once_sinks"]) == ("at_least_once", ["audit"])
    assert [set(sink) for sink in status["sinks"]] == [SINK, SINK]
    assert [sink["delivered"] for sink in status["sinks"]] == [None, None]


def test_stopped(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, spark_cli: Commands
) -> None:
    """A stream that has ended says where it is and that nothing is owed."""
    three_versions(tmp_path_factory, tmp_path)

    said = spark_cli("status").out
    (status,) = spark_cli("status", "-o", "json").json["pipelines"]

    assert "payments: stopped" in said
    assert "version 3, epoch 2, generation 1, checkpoint made" in said
    assert "commits when every required sink has the batch; exactly once" in said
    assert (status["state"], status["version"], status["epoch"]) == ("stopped", 3, 2)
    assert status["guarantee"] == "exactly_once"
    assert set(status["checkpoint"]) == CHECKPOINT
    assert set(status["last_run"]) == RUN
    assert status["checkpoint_age_seconds"] > 0
    (lake,) = status["sinks"]
    assert lake["delivered"] == {"generation": 1, "epoch": 2}
    assert (lake["behind_epochs"], lake["spool_batches"], lake["dropped_count"]) == (0, 0, 0)


def test_died(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, spark_cli: Commands
) -> None:
    """A run whose process is gone without a word is not said to be running."""
    three_versions(tmp_path_factory, tmp_path)
    with open_ledger(tmp_path / ".holdfast" / "ledger.db") as ledger:
        records = Records(ledger)
        with ledger.writing() as change:
            last = records.last_run(change, "payments")
            assert last is not None
            records.remember_run(change, replace(last, status="running", finished_at=None))

    said = spark_cli("status").out
    (status,) = spark_cli("status", "-o", "json").json["pipelines"]

    assert "payments: died after it was started" in said
    assert "holdfast run payments" in said
    assert (status["state"], status["last_run"]["status"]) == ("died", "died")


def test_a_sink_that_is_behind(tmp_path: Path, spark_cli: Commands) -> None:
    """An optional sink that is down is behind by what waits for it, and says why."""
    events = Events(tmp_path)
    events.configure(STREAM, LAKE, AUDIT)
    (tmp_path / "auditor.py").write_text(AUDITOR)
    events.add(1, 2)

    done = spark_cli("run", "--once")
    said = spark_cli("status").out
    (status,) = spark_cli("status", "-o", "json").json["pipelines"]

    assert done.code == 0, done.said
    assert "payments: audit does not have this batch yet; the others go on" in done.err
    assert "2 epochs" in said
    assert "2 batches, " in said
    assert "nobody [answers]" in said
    audit = status["sinks"][1]
    assert (audit["sink"], audit["required"]) == ("audit", False)
    assert (audit["delivered"], audit["behind_epochs"], audit["spool_batches"]) == (None, 2, 2)
    assert audit["spool_bytes"] > 0
    assert "nobody [answers]" in audit["error"]
    shown = spark_cli("checkpoint", "show", "-o", "json").json["sinks"]["audit"]["spool"]
    assert set(shown) == {"batches", "bytes", "first", "last", "since"}
    assert (shown["batches"], shown["last"]["epoch"]) == (2, 1)


def test_a_roll_back_that_is_not_told_yet(tmp_path: Path, spark_cli: Commands) -> None:
    """A sink with batches waiting hears of a roll-back later, and that is said."""
    events = Events(tmp_path)
    events.configure(STREAM, LAKE, AUDIT)
    (tmp_path / "auditor.py").write_text(AUDITOR)
    events.add(1, 2)
    assert spark_cli("run", "--once").code == 0

    done = spark_cli("checkpoint", "rollback", "1", "--yes")

    assert done.code == 0, done.said
    assert "not told yet audit:" in done.said
    assert "roll-back not told yet" in spark_cli("status").out
