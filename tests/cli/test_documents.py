"""Every `--output json`, key by key: a key that goes or appears is a change users notice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from .harness import Commands, Shop, rows

pytestmark = pytest.mark.spark

TOP = {"format", "command"}
RUN = {
    "run_id",
    "pipeline",
    "status",
    "started_at",
    "finished_at",
    "actor",
    "generation",
    "plan_id",
    "resumes",
    "rows",
    "tables",
}
OUTCOME = {
    "table",
    "status",
    "strategy",
    "reason",
    "rows",
    "low",
    "high",
    "batch_ids",
    "source_rows",
    "duration_ms",
    "checks",
    "anomalies",
    "schema_changes",
    "notes",
    "failure",
}
CHECK = {"check", "status", "message", "observed", "expected", "column"}
FAILURE = {"error", "message", "hint"}
PLAN = {"plan_id", "pipeline", "created_at", "config_fingerprint", "full_refresh", "tables"}
PLANNED = {
    "table",
    "source",
    "target",
    "action",
    "strategy",
    "reason",
    "low",
    "high",
    "rows",
    "source_rows",
    "batch_id",
    "replaces_target",
    "failure",
}
WATERMARK = {
    "last_value",
    "updated_at",
    "cause",
    "actor",
    "run_id",
    "batch_id",
    "rows",
    "replaces_batches",
    "note",
}
TABLE = {"table", "version", "watermark", "open_batch_id", "source_rows"}
VERSION = {"version", "created_at", "size_bytes", "watermark"}
PIPELINE_STATUS = {"pipeline", "lag_seconds", "anomalies", "last_run", "tables"}
TABLE_STATUS = {
    "table",
    "watermark",
    "lag_seconds",
    "source_rows",
    "last_status",
    "unfinished_batch",
    "warnings",
    "failure",
}


def answer(cli: Commands, *words: str, code: int = 0) -> dict[str, Any]:
    """Run a command with `--output json` and return its document."""
    done = cli(*words, "--output", "json")
    assert done.code == code, done
    document: dict[str, Any] = done.json
    assert document["format"] == 1
    return document


def keys(entries: Sequence[dict[str, Any]]) -> set[str]:
    """The keys that every one of these objects has."""
    assert entries
    assert all(set(entry) == set(entries[0]) for entry in entries)
    return set(entries[0])


def test_run(shop: Shop, spark_cli: Commands) -> None:
    """A run names its tables, their bounds, batches, checks and failures."""
    shop.configure(tables=["orders", "missing"])

    document = answer(spark_cli, "run", code=2)

    assert set(document) == TOP | {"runs", "errors"}
    assert document["command"] == "run"
    [run] = document["runs"]
    assert set(run) == RUN
    assert (run["pipeline"], run["status"], run["rows"]) == ("shop", "partial", 5)
    assert keys(run["tables"]) == OUTCOME
    orders, missing = run["tables"]
    assert (orders["table"], orders["status"], orders["reason"]) == (
        "shop.orders",
        "copied",
        "first_run",
    )
    assert (orders["rows"], orders["source_rows"], len(orders["batch_ids"])) == (5, 5, 1)
    assert (orders["low"], orders["high"]) == (None, {"updated_at": "2026-01-01T00:00:05.000000Z"})
    assert keys(orders["checks"]) == CHECK
    assert orders["failure"] is None
    assert (missing["status"], set(missing["failure"])) == ("failed", FAILURE)


def test_plan_and_apply(shop: Shop, spark_cli: Commands) -> None:
    """A plan says strategy, bounds, reason, target and batch; `apply` answers with the run."""
    plan = answer(spark_cli, "plan")

    assert set(plan) == TOP | PLAN
    assert plan["command"] == "plan"
    [orders] = plan["tables"]
    assert set(orders) == PLANNED
    assert orders == {
        "table": "shop.orders",
        "source": "orders",
        "target": str(shop.root / "lake" / "orders"),
        "action": "copy",
        "strategy": "incremental",
        "reason": "first_run",
        "low": None,
        "high": {"updated_at": "2026-01-01T00:00:05.000000Z"},
        "rows": 5,
        "source_rows": 5,
        "batch_id": orders["batch_id"],
        "replaces_target": False,
        "failure": None,
    }

    applied = answer(spark_cli, "apply", plan["plan_id"])

    assert set(applied) == TOP | {"runs", "errors"}
    assert applied["command"] == "apply"
    [run] = applied["runs"]
    assert set(run) == RUN
    assert run["plan_id"] == plan["plan_id"]
    assert run["tables"][0]["batch_ids"] == [orders["batch_id"]]


def test_state(copied_shop: Shop, cli: Commands) -> None:
    """`show`, `get` and `history` share the form of a table and of its watermark."""
    shown = answer(cli, "state", "show")
    got = answer(cli, "state", "get", "shop.orders")
    history = answer(cli, "state", "history", "shop.orders")

    assert (set(shown), shown["command"]) == (TOP | {"tables"}, "state show")
    assert keys(shown["tables"]) == TABLE
    assert (set(got), got["command"]) == (TOP | TABLE, "state get")
    assert set(got["watermark"]) == WATERMARK
    assert set(got["source_rows"]) == {"count", "at", "run_id"}
    assert (set(history), history["command"]) == (TOP | {"table", "versions"}, "state history")
    assert keys(history["versions"]) == VERSION
    assert [entry["version"] for entry in history["versions"]] == [2, 1]


@pytest.mark.parametrize(
    "words",
    [
        ("set", "shop.orders", "2026-01-01T00:00:09Z"),
        ("rewind", "shop.orders", "--version", "1"),
        ("delete", "shop.orders"),
    ],
    ids=lambda words: words[0],
)
def test_changes(copied_shop: Shop, cli: Commands, words: tuple[str, ...]) -> None:
    """A change answers with the new watermark of every table it moved."""
    document = answer(cli, "state", *words, "--yes")

    assert set(document) == TOP | {"tables"}
    assert document["command"] == f"state {words[0]}"
    [entry] = document["tables"]
    assert set(entry) == {"table", "watermark"}
    assert set(entry["watermark"]) == WATERMARK
    assert entry["watermark"]["cause"] == words[0]


def test_migrate(copied_shop: Shop, cli: Commands) -> None:
    """A migration names the file and the formats it went from and to."""
    document = answer(cli, "state", "migrate")

    assert set(document) == TOP | {"path", "from", "to"}
    assert document["from"] == document["to"]


def test_status(copied_shop: Shop, spark_cli: Commands) -> None:
    """The status of a pipeline has its last run and every table, also one that failed."""
    copied_shop.configure(tables=["orders", "customers", "missing"])
    assert spark_cli("run", "--table", "missing").code == 1

    document = answer(spark_cli, "status")

    assert set(document) == TOP | {"pipelines"}
    [pipeline] = document["pipelines"]
    assert set(pipeline) == PIPELINE_STATUS
    assert set(pipeline["last_run"]) == {
        "run_id",
        "status",
        "started_at",
        "finished_at",
        "actor",
    }
    assert pipeline["last_run"]["status"] == "failed"
    assert pipeline["lag_seconds"] > 0
    assert keys(pipeline["tables"]) == TABLE_STATUS
    by_name = {entry["table"]: entry for entry in pipeline["tables"]}
    assert set(by_name["shop.missing"]["failure"]) == FAILURE
    assert by_name["shop.missing"]["watermark"] is None
    assert set(by_name["shop.orders"]["watermark"]) == WATERMARK


def test_doctor(copied_shop: Shop, spark_cli: Commands) -> None:
    """Each finding has a check, a status, a message and a fix."""
    document = answer(spark_cli, "doctor")

    assert set(document) == TOP | {"findings"}
    assert keys(document["findings"]) == {"check", "status", "message", "fix"}
    assert [entry["check"] for entry in document["findings"]] == [
        "config",
        "ledger",
        "state_rw",
        "clock",
        "java",
        "spark",
        "sources",
        "targets",
    ]


def test_errors(shop: Shop, cli: Commands) -> None:
    """A command that cannot do what it was asked answers with one document as well."""
    document = answer(cli, "state", "get", "shop.nothing", code=1)

    assert set(document) == TOP | FAILURE
    assert document["command"] == "error"
    assert document["error"] == "UsageError"


def test_progress_stays_out_of_the_document(shop: Shop, spark_cli: Commands) -> None:
    """Progress is on standard error, so that standard output is JSON and nothing else."""
    shop.add("orders", "b", rows(6, 6))

    done = spark_cli("run", "-o", "json")

    assert done.json["command"] == "run"
    assert done.err.startswith("[1/1] shop.orders: 6 rows copied in ")
