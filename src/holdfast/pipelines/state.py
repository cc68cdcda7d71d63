"""Looking at what is remembered of tables, and changing it on purpose."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Literal

from holdfast.config import Config
from holdfast.errors import UsageError
from holdfast.ledger import Transaction, VersionInfo
from holdfast.ledger.records import Records
from holdfast.model import Batch, Position, RowCount, Watermark
from holdfast.model.position import UNTYPED
from holdfast.pipelines.history import LiveBatch, boundary_at_or_before, live_batches


@dataclass(frozen=True, slots=True)
class TableState:
    """Everything the ledger holds about one table."""

    table: str
    watermark: Watermark | None
    version: int
    open_batch: Batch | None
    row_count: RowCount | None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One step of a table's watermark."""

    info: VersionInfo
    watermark: Watermark | None


class StateBook:
    """The state commands, for one ledger."""

    def __init__(self, records: Records, config: Config | None, actor: str) -> None:
        self._records = records
        self._config = config
        self._actor = actor

    def show(self, pattern: str = "*") -> list[TableState]:
        """Every remembered table whose name matches a glob."""
        with self._records.ledger.reading() as view:
            return [self._state(view, table) for table in self._matching(view, pattern)]

    def get(self, table: str) -> TableState:
        """One table by its name."""
        with self._records.ledger.reading() as view:
            return self._state(view, self._existing(view, table))

    def history(self, table: str, *, limit: int = 20) -> list[HistoryEntry]:
        """The steps of a table's watermark, newest first."""
        with self._records.ledger.reading() as view:
            found = self._existing(view, table)
            steps = self._records.watermarks.history(view, found, limit=limit)
        return [HistoryEntry(info, watermark) for info, watermark in steps]

    def matching(self, pattern: str) -> list[str]:
        """The names of the remembered tables a glob stands for; at least one."""
        with self._records.ledger.reading() as view:
            found = self._matching(view, pattern)
            return found or [self._existing(view, pattern)]

    def set(self, table: str, values: Sequence[str], *, note: str = "") -> Watermark:
        """Say how far a table has been copied, without touching its target."""
        pipeline, columns = self._cursor_columns(table)
        if len(values) != len(columns):
            raise UsageError(
                f"{table} needs {len(columns)} value(s), one for each of {', '.join(columns)}; "
                f"{len(values)} given."
            )
        with self._records.ledger.writing() as change:
            current = self._changeable(change, table, pipeline)
            types = _types_of(current, columns)
            position = Position(tuple(columns), types, tuple(values)).typed(tuple(columns), types)
            self._refuse_going_back(change, table, current, position)
            watermark = self._step("set", position, note)
            self._records.remember_watermark(change, table, watermark)
        return watermark

    def delete(self, table: str, *, note: str = "") -> Watermark:
        """Forget how far a table has been copied: the next run replaces its target."""
        with self._records.ledger.writing() as change:
            self._existing(change, table)
            self._changeable(change, table, table.partition(".")[0])
            watermark = self._step("delete", None, note)
            self._records.remember_watermark(change, table, watermark)
        return watermark

    def rewind(
        self,
        table: str,
        *,
        to: Sequence[str] | None = None,
        version: int | None = None,
        note: str = "",
    ) -> Watermark:
        """Go back to an earlier place, so that the next run copies again what lies after it.

        An appended target goes back to the end of a batch: the one at or before the place asked
        for. The next run replaces the batches after it, so no row is doubled.
        """
        with self._records.ledger.writing() as change:
            found = self._existing(change, table)
            current = self._changeable(change, found, found.partition(".")[0])
            if current is None or current.position is None:
                raise UsageError(
                    f"{found} has no watermark to rewind.", hint=f"holdfast state history {found}"
                )
            wanted = self._place(change, found, current.position, to, version)
            watermark = self._rewound(change, found, current, wanted, note)
            self._records.remember_watermark(change, found, watermark)
        return watermark

    def _rewound(
        self, change: Transaction, table: str, current: Watermark, wanted: Position, note: str
    ) -> Watermark:
        if self._strategy(table, current) != "incremental":
            return self._step("rewind", wanted, note)
        live = self._live(change, table)
        boundary = boundary_at_or_before(live, wanted)
        if boundary is None:
            raise UsageError(
                f"{table} has no batch that ends at or before {wanted}.",
                hint=f"To copy everything again: holdfast state delete {table}",
            )
        retired = tuple(b.batch_id for b in live if b.end is not None and boundary < b.end)
        return replace(self._step("rewind", boundary, note), retire=retired)

    def _place(
        self,
        view: Transaction,
        table: str,
        here: Position,
        to: Sequence[str] | None,
        version: int | None,
    ) -> Position:
        if version is not None:
            old = self._records.watermarks.read(view, table, version)
            if old is None or old.position is None:
                raise UsageError(
                    f"{table} has no watermark in version {version}.",
                    hint=f"holdfast state history {table}",
                )
            steps = self._records.watermarks.history(view, table)
            newer = [step for info, step in steps if info.version > version and step]
            if any(step.batch and step.batch.replaces_all for step in newer):
                # The rows up to there were replaced since: only going back is safe.
                self._refuse_going_forward(table, here, old.position)
            return old.position
        if to is None or not 0 < len(to) <= len(here.columns):
            raise UsageError(
                f"{table}: give a value for {', '.join(here.columns)}, or a version.",
                hint=f"holdfast state rewind {table} --to VALUE",
            )
        columns, types = here.columns[: len(to)], here.types[: len(to)]
        wanted = Position(columns, types, tuple(to)).typed(columns, types)
        self._refuse_going_forward(table, here, wanted)
        return wanted

    def _refuse_going_forward(self, table: str, here: Position, wanted: Position) -> None:
        if wanted != here and not wanted < here:
            raise UsageError(
                f"{wanted} lies after the watermark of {table} ({here}).",
                hint="To skip rows on purpose: "
                f"holdfast state set {table} {' '.join(wanted.values)}",
            )

    def _refuse_going_back(
        self, view: Transaction, table: str, current: Watermark | None, wanted: Position
    ) -> None:
        if current is None:
            return
        if current.retire:
            raise UsageError(
                f"{table} was rewound and not run since.",
                hint=f"Run it first, or go further back: holdfast state rewind {table} --to VALUE",
            )
        if self._strategy(table, current) != "incremental":
            return
        ends = [batch.end for batch in self._live(view, table) if batch.end is not None]
        reached = max(ends, default=None)
        if reached is not None and _lies_before(wanted, reached):
            raise UsageError(
                f"{table} is copied up to {reached}; setting it back to {wanted} would "
                "copy rows a second time.",
                hint=f"To go back and replace them: holdfast state rewind {table} "
                f"--to {' '.join(wanted.values)}",
            )

    def _live(self, view: Transaction, table: str) -> list[LiveBatch]:
        steps = self._records.watermarks.history(view, table)
        return live_batches([watermark for _, watermark in steps if watermark is not None])

    def _changeable(self, change: Transaction, table: str, pipeline: str) -> Watermark | None:
        """Refuse to change what a run is using or has not finished."""
        self._records.leases.refuse_if_held_in(change, pipeline)
        batch = self._records.intents.get(change, table)
        if batch is not None:
            raise UsageError(
                f"{table} has an unfinished batch ({batch.batch_id}) of an interrupted run.",
                hint=f"Finish it first: holdfast run {pipeline} --table {table}",
            )
        return self._records.watermarks.get(change, table)

    def _step(
        self, cause: Literal["set", "rewind", "delete"], position: Position | None, note: str
    ) -> Watermark:
        return Watermark(
            position=position,
            updated_at=self._records.ledger.clock(),
            cause=cause,
            actor=self._actor,
            note=note,
        )

    def _strategy(self, table: str, current: Watermark) -> str:
        if current.batch is not None:
            return current.batch.strategy
        pipeline, _, name = table.partition(".")
        found = self._config.replications.get(pipeline) if self._config is not None else None
        if found is not None and (found.tables is None or name in found.tables):
            return found.settings_for(name).strategy
        return "incremental"

    def _cursor_columns(self, table: str) -> tuple[str, tuple[str, ...]]:
        pipeline, _, name = table.partition(".")
        if self._config is None:
            raise UsageError("`state set` needs the configuration file.")
        settings = self._config.replicate_named(pipeline).settings_for(name)
        if not settings.cursor:
            raise UsageError(
                f"{table} has no watermark column: it is copied whole at every run.",
                hint=f"Set pipeline.{pipeline}.watermark first.",
            )
        return pipeline, settings.cursor

    def _state(self, view: Transaction, table: str) -> TableState:
        record = view.get(self._records.watermarks.namespace, table)
        return TableState(
            table=table,
            watermark=self._records.watermarks.get(view, table),
            version=record.version if record else 0,
            open_batch=self._records.intents.get(view, table),
            row_count=self._records.row_counts.get(view, table),
        )

    def _matching(self, view: Transaction, pattern: str) -> list[str]:
        return [name for name in self._records.tables(view) if fnmatchcase(name, pattern)]

    def _existing(self, view: Transaction, table: str) -> str:
        tables = self._records.tables(view)
        if table in tables:
            return table
        near = difflib.get_close_matches(table, tables, n=1)
        raise UsageError(
            f"The ledger remembers no table {table}."
            + (f" Did you mean {near[0]}?" if near else ""),
            hint="List them: holdfast state show",
        )


def _lies_before(wanted: Position, reached: Position) -> bool:
    """Compare over the columns both have, should the configuration name others by now."""
    names = zip(wanted.columns, reached.columns, strict=False)
    count = sum(1 for _ in takewhile(lambda pair: pair[0].lower() == pair[1].lower(), names))
    if count == 0:
        return False
    here = reached.first(count)
    return wanted.first(count).typed(here.columns, here.types) < here


def _types_of(current: Watermark | None, columns: Sequence[str]) -> tuple[str, ...]:
    position = current.position if current else None
    if position is not None and _same_names(position.columns, columns):
        return position.types
    return (UNTYPED,) * len(columns)


def _same_names(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    return [name.lower() for name in ours] == [name.lower() for name in theirs]
