"""Running, planning and applying: what users see, and the exit code scripts go by."""

from __future__ import annotations

import pytest

from .harness import Commands, Shop, rows

pytestmark = pytest.mark.spark


def test_a_run_says_what_it_did(shop: Shop, spark_cli: Commands) -> None:
    """A good run exits with 0, reports each table and ends with a sum."""
    done = spark_cli("run")

    assert done.code == 0
    assert done.err.startswith("[1/1] shop.orders: 5 rows copied in ")
    title, heading, line, last = done.out.splitlines()
    assert title.startswith("shop: run ")
    assert heading.split() == [
        "table",
        "status",
        "why",
        "rows",
        "source",
        "up",
        "to",
        "checks",
        "time",
    ]
    assert line.split()[:7] == [
        "shop.orders",
        "copied",
        "first",
        "run",
        "5",
        "5",
        "2026-01-01T00:00:05Z",
    ]
    assert last.startswith("success: 5 rows in 1 tables, ")
    assert shop.copy() == shop.source()


def test_a_second_run_copies_only_what_is_new(shop: Shop, spark_cli: Commands) -> None:
    """With nothing new a table is unchanged; with new rows only those are copied."""
    assert spark_cli("run").code == 0
    unchanged = spark_cli("run")
    shop.add("orders", "b", rows(6, 8))
    more = spark_cli("run")

    assert (unchanged.code, unchanged.err) == (0, "[1/1] shop.orders: unchanged\n")
    assert more.err.startswith("[1/1] shop.orders: 3 rows copied")
    assert "new rows" in more.out
    assert shop.copy() == shop.source()


def test_one_failing_table_does_not_stop_the_others(shop: Shop, spark_cli: Commands) -> None:
    """Some copied and some failed is exit code 2; `--resume` does only what is missing."""
    shop.configure(tables=["orders", "customers"])

    partial = spark_cli("run")
    shown = spark_cli("status")
    shop.add("customers", "a", rows(1, 2))
    shop.add("orders", "b", rows(6, 6))
    resumed = spark_cli("run", "--resume", "-o", "json")

    assert partial.code == 2
    assert "partial: 5 rows in 2 tables" in partial.out
    assert "holdfast run shop --resume" in shown.out
    assert resumed.code == 0
    assert [table["table"] for table in resumed.json["runs"][0]["tables"]] == ["shop.customers"]
    assert shop.copy("customers") == shop.source("customers")
    assert spark_cli("run").code == 0
    assert shop.copy() == shop.source()


def test_nothing_to_resume(shop: Shop, spark_cli: Commands) -> None:
    """Resuming a pipeline that never ran, or that finished, is refused with what to do instead."""
    never = spark_cli("run", "shop", "--resume")
    assert spark_cli("run").code == 0
    finished = spark_cli("run", "--resume")

    assert (never.code, finished.code) == (1, 1)
    assert "Pipeline shop has never run" in never.err
    assert "finished every table" in finished.err
    assert "holdfast run shop" in finished.err


def test_every_table_failing_is_a_failure(shop: Shop, spark_cli: Commands) -> None:
    """When no table could be copied the exit code is 1."""
    shop.configure(tables=["missing"])

    failed = spark_cli("run")

    assert failed.code == 1
    assert "failed: 0 rows in 1 tables" in failed.out


def test_several_pipelines_in_turn(shop: Shop, spark_cli: Commands) -> None:
    """Without a name every pipeline runs; one that fails makes the whole partial."""
    shop.write_config(
        shop.section("shop"),
        shop.section("broken", tables=["missing"]),
        shop.section("second", target='{ path = "lake2" }'),
    )

    done = spark_cli("run", "-o", "json")
    alone = spark_cli("run", "second")
    which = spark_cli("plan")

    assert done.code == 2
    assert [run["pipeline"] for run in done.json["runs"]] == ["shop", "broken", "second"]
    assert alone.code == 0
    assert (which.code, which.err) == (
        1,
        "Error: Which pipeline?\nThere are shop, broken, second.\n",
    )


def test_tables_by_glob(shop: Shop, spark_cli: Commands) -> None:
    """`--table` takes names and globs, more than once; one that fits nothing is refused."""
    shop.configure(tables=["orders", "order_lines", "customers"])
    for table in ("order_lines", "customers"):
        shop.add(table, "a", rows(1, 2))

    chosen = spark_cli("run", "-t", "order*", "-t", "shop.orders", "-o", "json")
    refused = spark_cli("run", "--table", "invoices")

    assert [table["table"] for table in chosen.json["runs"][0]["tables"]] == [
        "shop.orders",
        "shop.order_lines",
    ]
    assert refused.code == 1
    assert "Pipeline shop has no table invoices." in refused.err
    assert "orders, order_lines, customers" in refused.err


def test_full_refresh_replaces_the_target(shop: Shop, spark_cli: Commands) -> None:
    """`--full-refresh` copies everything again, also what lies before the watermark."""
    assert spark_cli("run").code == 0
    shop.add("orders", "a", rows(1, 3, "rewritten"))

    assert spark_cli("run").code == 0
    assert shop.copy() != shop.source()
    assert spark_cli("run", "--full-refresh").code == 0
    assert shop.copy() == shop.source()


def test_plan_then_apply(shop: Shop, spark_cli: Commands) -> None:
    """`apply` copies exactly what was planned, rows that came since are left for later."""
    planned = spark_cli("plan")
    plan_id = planned.out.split("holdfast apply ")[1].strip()
    shop.add("orders", "b", rows(6, 9))

    applied = spark_cli("apply", plan_id)
    again = spark_cli("apply", plan_id)

    assert planned.code == 0
    assert "first run" in planned.out
    assert str(shop.root / "lake" / "orders") in planned.out
    assert applied.code == 0
    assert sum(shop.copy().values()) == 5
    assert again.code == 1
    assert f"Plan {plan_id} was already applied by run " in again.err
    assert "holdfast plan shop" in again.err
    assert spark_cli("run").code == 0
    assert shop.copy() == shop.source()


def test_apply_refuses_what_moved(shop: Shop, spark_cli: Commands) -> None:
    """A plan whose positions or configuration moved is refused, and what moved is said."""
    plan_id = spark_cli("plan", "-o", "json").json["plan_id"]
    assert spark_cli("run").code == 0
    shop.configure(target='{ path = "elsewhere" }')

    refused = spark_cli("apply", plan_id)
    unknown = spark_cli("apply", "0000")

    assert refused.code == 1
    assert "shop.orders: the watermark moved to 2026-01-01T00:00:05.000000Z (by " in refused.said
    assert "pipeline.shop.target.path: was " in refused.err
    assert not (shop.root / "elsewhere").exists()
    assert (unknown.code, "0000 is no stored plan." in unknown.err) == (1, True)


def test_a_blocked_plan(shop: Shop, spark_cli: Commands) -> None:
    """A table that cannot be planned is shown with its reason, and the plan is not applied."""
    shop.configure(tables=["orders", "missing"])

    planned = spark_cli("plan")
    refused = spark_cli("apply", planned.out.split("shop: plan ")[1].split()[0])

    assert planned.code == 1
    assert "holdfast apply" not in planned.out
    assert "blocked" in planned.out
    assert "shop.missing: the source is not there" in planned.out
    assert refused.code == 1
    assert "could not be made for shop.missing" in refused.err
    assert not (shop.root / "lake").exists()


def test_environments_do_not_share_state(
    shop: Shop, spark_cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable in the ledger's and the target's path keeps two environments apart."""
    shop.configure(target='{ path = "lake/${STAGE:-dev}" }')
    text = shop.config.read_text()
    shop.config.write_text(text + '[state]\npath = ".holdfast/${STAGE:-dev}.db"\n')

    assert spark_cli("run").code == 0
    monkeypatch.setenv("STAGE", "prod")
    before = spark_cli("state", "show")
    first = spark_cli("run", "-o", "json").json

    assert before.out == "Nothing is remembered yet.\n"
    assert first["runs"][0]["tables"][0]["reason"] == "first_run"
    assert (shop.root / ".holdfast" / "dev.db").exists()
    assert shop.copy("dev/orders") == shop.copy("prod/orders") == shop.source()


def test_state_path_overrides_the_ledger(shop: Shop, spark_cli: Commands) -> None:
    """`--state-path` uses another ledger, of which the configured one knows nothing."""
    assert spark_cli("--state-path", "other/ledger.json", "run").code == 0

    there = spark_cli("--state-path", "other/ledger.json", "state", "show")
    here = spark_cli("state", "show")
    refused = spark_cli("run")

    assert "shop.orders" in there.out
    assert here.out == "Nothing is remembered yet.\n"
    # The copy is there but unknown to this ledger: appending would double its rows.
    assert refused.code == 1
    assert "has rows, but the ledger remembers no watermark" in refused.said
    assert "holdfast state set shop.orders VALUE" in refused.out
    assert shop.copy() == shop.source()


def test_a_failed_check_is_told(shop: Shop, spark_cli: Commands) -> None:
    """A check of severity `fail` keeps the batch back, and says how to let it pass."""
    shop.configure(checks='{ null_rate = { note = 0.1 }, severity = { null_rate = "fail" } }')
    shop.add("orders", "b", [(9, rows(9, 9)[0][1], None)])  # type: ignore[list-item]  # the null is the point
    shop.add("orders", "a", rows(1, 2))

    refused = spark_cli("run")
    allowed = spark_cli("run", "--allow-failed-checks")

    assert refused.code == 1
    assert "note is null in 33.3% of the batch's rows" in refused.said
    assert "holdfast run --allow-failed-checks --table shop.orders" in refused.out
    assert allowed.code == 0
    assert "warn shop.orders null_rate" in allowed.out
    assert shop.copy() == shop.source()


def test_a_pipeline_that_cannot_start_does_not_stop_the_others(
    shop: Shop, spark_cli: Commands
) -> None:
    """Without a name every pipeline runs; one whose source is not there is said beside them."""
    lost = shop.section(
        "lost",
        tables=None,
        source='{ format = "parquet", path = "nowhere" }',
        target='{ path = "other" }',
        discovery='{ include = ["*"] }',
    )
    shop.write_config(lost, shop.section("shop"))

    done = spark_cli("run", "--output", "json")

    assert done.code == 2, done.said
    [error] = done.json["errors"]
    assert (error["pipeline"], error["error"]) == ("lost", "SourceError")
    assert [run["pipeline"] for run in done.json["runs"]] == ["shop"]
    assert shop.copy() == shop.source()
