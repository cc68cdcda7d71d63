"""`doctor` and `status`: what is wrong, and what to do about it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast.ledger import open_ledger

from .harness import Commands, Shop, rows

pytestmark = pytest.mark.spark


def test_a_healthy_project(copied_shop: Shop, spark_cli: Commands) -> None:
    """Everything in order is one line a check and exit code 0."""
    done = spark_cli("doctor")

    assert (done.code, done.err) == (0, "")
    assert {line.split()[0] for line in done.out.splitlines()} == {"ok"}
    assert "shop: 2 tables can be opened" in done.out


def test_trouble_with_every_pipeline_is_found(shop: Shop, spark_cli: Commands) -> None:
    """Bad sources and targets of all pipelines are critical, exit code 3, each with a fix."""
    (shop.root / "file").write_text("not a directory")
    shop.write_config(
        shop.section(
            "one",
            source='{ format = "parquet", path = "nowhere" }',
            tables=None,
            discovery="{}",
            target='{ path = "file/lake" }',
        ),
        shop.section("two", tables=["orders", "missing"], target='{ path = "file/lake2" }'),
    )

    done = spark_cli("doctor", "-o", "json")
    told = spark_cli("doctor", "--check", "sources")

    assert done.code == 3
    critical = [entry for entry in done.json["findings"] if entry["status"] == "critical"]
    assert [entry["check"] for entry in critical] == ["sources", "sources", "targets", "targets"]
    assert all(entry["fix"] for entry in critical)
    messages = " ".join(entry["message"] for entry in critical)
    for name in ("one", "two.missing", "file/lake", "file/lake2"):
        assert name in messages
    assert told.code == 3
    assert "two: 1 tables can be opened" in told.out


def test_a_damaged_ledger_is_critical(shop: Shop, cli: Commands) -> None:
    """A ledger that is no database is found without starting Spark."""
    shop.ledger.parent.mkdir()
    shop.ledger.write_bytes(b"not a database, but long enough to look like one " * 10)

    done = cli("doctor", "--check", "ledger")

    assert done.code == 3
    assert done.out.startswith("critical ledger ")


def test_a_wrong_configuration_is_critical(shop: Shop, cli: Commands) -> None:
    """A file that cannot be read ends the examination, with its problems listed once."""
    shop.configure(strategy='"merg"')
    wrong = cli("doctor")
    missing = cli("--config", "absent.toml", "doctor", "-o", "json")

    assert wrong.code == 3
    assert wrong.out.count("pipeline.shop.strategy") == 1
    [finding] = missing.json["findings"]
    assert missing.code == 3
    assert finding["check"] == "config"
    assert finding["fix"]
    assert finding["fix"] not in finding["message"]


def test_a_clock_that_went_back(copied_shop: Shop, cli: Commands) -> None:
    """Records from the future mean a wrong clock, and that is critical."""
    with sqlite3.connect(copied_shop.ledger) as database:
        database.execute("UPDATE records SET created_at = '2999-01-01T00:00:00.000000Z'")

    done = cli("doctor", "--check", "clock")

    assert done.code == 3
    assert "in the future" in done.out
    assert "NTP" in done.out


def test_an_unknown_check(shop: Shop, cli: Commands) -> None:
    """A check that does not exist is refused with those that do."""
    refused = cli("doctor", "--check", "sauces")

    assert refused.code == 1
    assert "There is no check called sauces." in refused.err
    assert "sources" in refused.err


def test_doctor_leaves_nothing_behind(copied_shop: Shop, spark_cli: Commands) -> None:
    """Trying the ledger and the targets out changes neither."""

    def everything() -> set[Path]:
        return {path for path in (copied_shop.root / "lake").rglob("*") if path.is_file()}

    before = everything()

    assert spark_cli("doctor").code == 0

    assert everything() == before
    with open_ledger(copied_shop.ledger) as ledger, ledger.reading() as view:
        assert view.keys("doctor") == []


def test_status_of_a_pipeline_that_never_ran(shop: Shop, cli: Commands) -> None:
    """Configured tables are listed before their first run."""
    shown = cli("status")

    assert shown.code == 0
    assert shown.out.startswith("shop: never run\n")
    assert "shop.orders" in shown.out


def test_status_shows_lag_and_anomalies(copied_shop: Shop, spark_cli: Commands) -> None:
    """A truncated source is an anomaly that the status counts and names."""
    assert spark_cli("run").code == 0
    copied_shop.add("orders", "a", rows(1, 1))
    copied_shop.add("orders", "b", rows(7, 7))
    assert spark_cli("run").code == 0

    shown = spark_cli("status")
    document = spark_cli("status", "-o", "json").json

    [line] = [line for line in shown.out.splitlines() if "shop.orders" in line]
    assert "anomaly" in line
    assert document["pipelines"][0]["anomalies"] == 1
    [entry] = [t for t in document["pipelines"][0]["tables"] if t["table"] == "shop.orders"]
    assert [check["check"] for check in entry["warnings"]] == ["anomaly"]
    assert entry["lag_seconds"] > 0
