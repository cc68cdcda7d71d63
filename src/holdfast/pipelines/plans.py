"""Stored plans: run exactly so, or not at all."""

from __future__ import annotations

from dataclasses import replace

from holdfast.config import Config, differences, pipeline_document
from holdfast.errors import PlanRefused
from holdfast.ledger import Transaction
from holdfast.ledger.records import KEPT_RUNS, Records
from holdfast.model import Plan


def remember_plan(records: Records, change: Transaction, plan: Plan) -> None:
    """Store a plan and forget the oldest ones."""
    keys = change.keys(records.plans.namespace)
    for key in keys[: max(0, len(keys) - KEPT_RUNS + 1)]:
        records.plans.prune(change, key, 0)
    records.plans.put(change, plan.plan_id, plan)


def mark_applied(records: Records, plan: Plan, run_id: str) -> None:
    """Remember that a plan was used: its batch ids must never be used again."""
    with records.ledger.writing() as change:
        records.plans.put(change, plan.plan_id, replace(plan, applied_by_run=run_id))


def load_plan(records: Records, plan_id: str) -> Plan:
    """Find a stored plan by its id, or by the beginning of it."""
    with records.ledger.reading() as view:
        keys = view.keys(records.plans.namespace, plan_id)
        plan = records.plans.get(view, keys[0]) if len(keys) == 1 else None
    if plan is None:
        what = "is the beginning of several" if len(keys) > 1 else "is no stored plan"
        raise PlanRefused(f"{plan_id} {what}.", hint="Make one: holdfast plan")
    return plan


def refuse_stale(plan: Plan, config: Config, records: Records) -> None:
    """Refuse a plan that was applied, or whose configuration or positions have moved."""
    if plan.applied_by_run is not None:
        raise PlanRefused(
            f"Plan {plan.plan_id} was already applied by run {plan.applied_by_run}.",
            hint=f"Make a new one: holdfast plan {plan.pipeline}",
        )
    moved = differences(plan.document, pipeline_document(config, plan.pipeline))
    moved += _moved_positions(plan, records)
    if moved:
        raise PlanRefused(
            f"Plan {plan.plan_id} is no longer true; since it was made:\n  " + "\n  ".join(moved),
            hint=f"Make a new one: holdfast plan {plan.pipeline}",
        )
    blocked = [table for table in plan.tables if table.action == "blocked"]
    if blocked:
        raise PlanRefused(
            f"Plan {plan.plan_id} could not be made for {', '.join(t.table for t in blocked)}.",
            hint=f"Correct what it says, then: holdfast plan {plan.pipeline}",
        )


def _moved_positions(plan: Plan, records: Records) -> list[str]:
    moved = []
    with records.ledger.reading() as view:
        for table in plan.tables:
            if table.action == "blocked":
                # It was made from no position at all.
                continue
            watermark = view.get(records.watermarks.namespace, table.table)
            version = watermark.version if watermark else 0
            if version != table.watermark_version:
                now = records.watermarks.get(view, table.table)
                place = now.position if now else None
                moved.append(
                    f"{table.table}: the watermark moved to {place or 'nothing'} "
                    f"(by {now.actor if now else 'a deletion'})"
                )
            intent = view.get(records.intents.namespace, table.table)
            if (intent.version if intent else 0) != table.intent_version:
                moved.append(f"{table.table}: another run left a batch open, or finished one")
    return moved
