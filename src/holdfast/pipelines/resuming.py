"""What the last run of a pipeline left undone."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import UsageError
from holdfast.ledger.records import Records

_DONE = ("copied", "unchanged")


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that did not get to the end, and the tables it owes."""

    run_id: str
    missing: frozenset[str]


def unfinished_run(records: Records, pipeline: str) -> Unfinished:
    """Find what to resume: the tables the last run did not bring up to date."""
    with records.ledger.reading() as view:
        last = records.last_run(view, pipeline)
        if last is None:
            raise UsageError(
                f"Pipeline {pipeline} has never run: there is nothing to resume.",
                hint=f"holdfast run {pipeline}",
            )
        outcomes = {o.table: o.status for o in records.outcomes_of(view, last.run_id)}
    missing = frozenset(t for t in last.tables if outcomes.get(t) not in _DONE)
    if not missing:
        raise UsageError(
            f"The last run of {pipeline} finished every table: there is nothing to resume.",
            hint=f"holdfast run {pipeline}",
        )
    return Unfinished(last.run_id, missing)
