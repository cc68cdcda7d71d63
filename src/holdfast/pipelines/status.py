"""How every pipeline is doing, from the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast.config import Config
from holdfast.ledger.records import Records
from holdfast.model import CheckResult, Run, TableOutcome, Watermark


@dataclass(frozen=True, slots=True)
class TableStatusLine:
    """Where one table stands."""

    table: str
    watermark: Watermark | None
    lag: timedelta | None
    """How far its watermark is behind now, for a watermark that is a time."""
    source_rows: int | None
    last: TableOutcome | None
    unfinished: bool

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        """What the checks of its last run objected to."""
        return tuple(c for c in self.last.checks if c.bad) if self.last else ()


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline with its last run and its tables."""

    pipeline: str
    last_run: Run | None
    """Its status is `died` if the process is gone without having said how it ended."""
    tables: tuple[TableStatusLine, ...]

    @property
    def lag(self) -> timedelta | None:
        """The lag of the table that is furthest behind."""
        return max((t.lag for t in self.tables if t.lag is not None), default=None)

    @property
    def anomalies(self) -> int:
        """How many tables had an unusual row count in their last run."""
        return sum(any(c.check == "anomaly" for c in t.warnings) for t in self.tables)


def pipeline_statuses(config: Config, records: Records) -> list[PipelineStatus]:
    """Look at every configured pipeline that copies tables."""
    return [_status(config, records, name) for name in config.replications]


def _status(config: Config, records: Records, name: str) -> PipelineStatus:
    now = records.ledger.clock()
    holder = records.leases.holder(name)
    with records.ledger.reading() as view:
        run = records.last_run(view, name)
        if run is not None and run.status == "running":
            alive = holder is not None and holder.run_id == run.run_id
            run = run if alive else replace(run, status="died")
        outcomes = {o.table: o for o in records.outcomes_of(view, run.run_id)} if run else {}
        known = [t for t in records.tables(view) if t.startswith(f"{name}.")]
        listed = [f"{name}.{table}" for table in config.replications[name].tables or ()]
        lines = []
        for table in dict.fromkeys([*listed, *known]):
            watermark = records.watermarks.get(view, table)
            count = records.row_counts.get(view, table)
            moment = watermark.position.moment() if watermark and watermark.position else None
            lines.append(
                TableStatusLine(
                    table=table,
                    watermark=watermark,
                    lag=now - moment if moment else None,
                    source_rows=count.count if count else None,
                    last=outcomes.get(table),
                    unfinished=records.intents.get(view, table) is not None,
                )
            )
    return PipelineStatus(name, run, tuple(lines))
