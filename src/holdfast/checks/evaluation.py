"""Checks of a table, as pure functions of what a run measured.

Each check answers `ok`, its severity (`warn` or `fail`), or why it has no answer. A `fail`
found before a batch is published stops that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from holdfast.clock import describe_age
from holdfast.config import ChecksConfig
from holdfast.model import CheckName, CheckResult, CheckStatus, Severity, Strategy

MINIMUM_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run measured about one table; `None` is "not measured"."""

    now: datetime
    strategy: Strategy
    source_rows: int | None
    """Rows of the whole source now."""
    history: tuple[int, ...]
    """Earlier row counts, newest first, without the current one."""
    newest: datetime | None
    """The latest time among the copied rows, for a cursor that is a time."""
    has_cursor: bool
    column_changes: tuple[str, ...]
    """How the source's columns differ from the target's, as sentences."""
    live_source: bool = False
    """Others go on writing to the source while it is read, as in a database."""
    expected_rows: int | None = None
    """Rows the source had for the batch when it was planned."""
    read_rows: int | None = None
    """Rows read for the batch."""
    written_rows: int | None = None
    """Rows found in the batch's files, when the batch is exactly what was read."""
    nulls: tuple[tuple[str, int], ...] = ()
    """Nulls per checked column among the rows read."""


def evaluate(config: ChecksConfig, facts: Facts) -> tuple[CheckResult, ...]:
    """Run every check that is switched on."""
    if not config.enabled:
        return ()
    results: list[CheckResult] = []
    for name, check in _CHECKS:
        severity = config.severity_of(name, facts.strategy)
        results.extend(check(config, facts, severity))
    return tuple(results)


def _row_count(config: ChecksConfig, facts: Facts, severity: Severity) -> Iterator[CheckResult]:
    if not config.row_count or facts.read_rows is None:
        return
    counts = {
        "planned": facts.expected_rows,
        "read": facts.read_rows,
        "written": facts.written_rows,
    }
    known = {name: count for name, count in counts.items() if count is not None}
    said = ", ".join(f"{count:,} {name}" for name, count in known.items())
    status: CheckStatus = "ok"
    message = f"{facts.read_rows:,} rows in the source and in the target"
    if len(set(known.values())) > 1:
        message = f"the counts of this batch differ: {said}; the source changed during the read"
        lost = known.get("written", facts.read_rows) != facts.read_rows
        # In a database a row that moved out of the bounds is met again, at its new place. A file
        # that was rewritten under the read may have been caught half written.
        status = severity if lost or not facts.live_source else "warn"
    yield CheckResult(
        "row_count",
        status,
        message,
        observed=float(known.get("written", facts.read_rows)),
        expected=float(known.get("planned", facts.read_rows)),
    )


def _anomaly(config: ChecksConfig, facts: Facts, severity: Severity) -> Iterator[CheckResult]:
    if not config.anomaly or facts.source_rows is None:
        return
    samples = facts.history[: config.anomaly_window]
    if len(samples) < MINIMUM_SAMPLES:
        yield CheckResult(
            "anomaly",
            "not_enough_history",
            f"{len(samples)} of {MINIMUM_SAMPLES} earlier row counts needed",
            observed=float(facts.source_rows),
        )
        return
    average = fmean(samples)
    deviation = _deviation_pct(facts.source_rows, average)
    unusual = abs(deviation) > config.anomaly_threshold_pct
    yield CheckResult(
        "anomaly",
        severity if unusual else "ok",
        f"the source has {facts.source_rows:,} rows, {deviation:+.0f} % against an average of "
        f"{average:,.0f} (threshold {config.anomaly_threshold_pct:g} %)",
        observed=float(facts.source_rows),
        expected=average,
    )


def _freshness(config: ChecksConfig, facts: Facts, severity: Severity) -> Iterator[CheckResult]:
    if config.freshness is None or not facts.has_cursor:
        return
    limit = config.freshness.threshold_seconds
    if facts.newest is None:
        yield CheckResult(
            "freshness", "not_applicable", "no row has a time to compare with", expected=limit
        )
        return
    age = facts.now - facts.newest
    seconds = age.total_seconds()
    yield CheckResult(
        "freshness",
        severity if seconds > limit else "ok",
        f"the newest row is {describe_age(age)} old (threshold {limit:g} s)",
        observed=seconds,
        expected=float(limit),
    )


def _growth(config: ChecksConfig, facts: Facts, severity: Severity) -> Iterator[CheckResult]:
    if config.growth is None or facts.source_rows is None:
        return
    limit = config.growth.max_flat_runs
    if len(facts.history) < limit:
        yield CheckResult(
            "growth",
            "not_enough_history",
            f"{len(facts.history)} of {limit} earlier row counts needed",
            observed=float(facts.source_rows),
        )
        return
    flat = 0
    for count in facts.history:
        if count != facts.source_rows:
            break
        flat += 1
    yield CheckResult(
        "growth",
        severity if flat >= limit else "ok",
        f"the source has had {facts.source_rows:,} rows for {flat + 1} runs in a row"
        if flat
        else f"the source has {facts.source_rows:,} rows, {facts.history[0]:,} before",
        observed=float(flat),
        expected=float(limit),
    )


def _column_match(config: ChecksConfig, facts: Facts, severity: Severity) -> Iterator[CheckResult]:
    if not config.column_match:
        return
    yield CheckResult(
        "column_match",
        severity if facts.column_changes else "ok",
        "; ".join(facts.column_changes) or "source and target have the same columns",
        observed=float(len(facts.column_changes)),
        expected=0.0,
    )


def _null_rate(config: ChecksConfig, facts: Facts, severity: Severity) -> Iterator[CheckResult]:
    limits = {name.lower(): limit for name, limit in config.null_rate.items()}
    if not limits or not facts.read_rows:
        return
    for column, nulls in facts.nulls:
        limit = limits[column.lower()]
        rate = nulls / facts.read_rows
        status: CheckStatus = severity if rate > limit else "ok"
        yield CheckResult(
            "null_rate",
            status,
            f"{column} is null in {rate:.1%} of the batch's rows (at most {limit:.1%})",
            observed=rate,
            expected=limit,
            column=column,
        )


def _deviation_pct(count: int, average: float) -> float:
    if average == 0:
        return 0.0 if count == 0 else 100.0
    return (count - average) / average * 100


_Check = Callable[[ChecksConfig, Facts, Severity], Iterator[CheckResult]]
_CHECKS: tuple[tuple[CheckName, _Check], ...] = (
    ("row_count", _row_count),
    ("column_match", _column_match),
    ("anomaly", _anomaly),
    ("freshness", _freshness),
    ("growth", _growth),
    ("null_rate", _null_rate),
)
