"""What happened between two checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint.schemas import schema_changes
from holdfast.model import Checkpoint, CheckpointEntry, OperatorState, SinkPosition


@dataclass(frozen=True, slots=True)
class Moved:
    """How far a source was read at both ends; `None` where it was not read at all."""

    source: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class MovedState:
    """What became of the files of one operator's state."""

    operator: str
    added: int
    added_bytes: int
    removed: int
    removed_bytes: int


@dataclass(frozen=True, slots=True)
class MovedSink:
    """Where a sink was at both ends; `None` where there was none."""

    sink: str
    before: SinkPosition | None
    after: SinkPosition | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What moved from one checkpoint to another; what stayed is not listed."""

    epochs: int
    """How many epochs later the second one is; negative if it is earlier."""
    same_source: bool
    """Whether their positions can be compared at all."""
    positions: tuple[Moved, ...]
    schemas: dict[str, tuple[str, ...]]
    """By name, every change as a sentence."""
    state: tuple[MovedState, ...]
    sinks: tuple[MovedSink, ...]
    rows: int | None
    """Delivered between them; `None` if neither continues the other, or if it is not known."""

    @property
    def empty(self) -> bool:
        """Whether nothing at all moved."""
        moved = self.positions or self.schemas or self.state or self.sinks
        return self.same_source and not self.epochs and not moved


def diff(a: Checkpoint, b: Checkpoint, entries: Iterable[CheckpointEntry] = ()) -> Difference:
    """Say what moved from `a` to `b`; rows are counted over the `entries` between them."""
    return Difference(
        epochs=b.epoch - a.epoch,
        same_source=a.source == b.source,
        positions=_positions(a, b),
        schemas=_schemas(a, b),
        state=_state(a.operators, b.operators),
        sinks=_sinks(a, b),
        rows=_rows(a, b, entries),
    )


def _positions(a: Checkpoint, b: Checkpoint) -> tuple[Moved, ...]:
    before = {position.source: position.end for position in a.positions}
    after = {position.source: position.end for position in b.positions}
    moved = (Moved(s, before.get(s), after.get(s)) for s in dict.fromkeys([*before, *after]))
    return tuple(move for move in moved if move.before != move.after)


def _schemas(a: Checkpoint, b: Checkpoint) -> dict[str, tuple[str, ...]]:
    changes: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys([*a.schemas, *b.schemas]):
        before, after = a.schemas.get(name), b.schemas.get(name)
        if before is None or after is None:
            changes[name] = (f"there was no {name} schema " + ("before" if after else "after"),)
        elif before.fingerprint != after.fingerprint:
            found = schema_changes(before.schema, after.schema)
            changes[name] = found or ("only what Spark notes about its columns changed",)
    return changes


def _state(a: Sequence[OperatorState], b: Sequence[OperatorState]) -> tuple[MovedState, ...]:
    before = {operator.name: set(operator.files) for operator in a}
    after = {operator.name: set(operator.files) for operator in b}
    moved = []
    for name in dict.fromkeys([*before, *after]):
        added = after.get(name, set()) - before.get(name, set())
        removed = before.get(name, set()) - after.get(name, set())
        if added or removed:
            moved.append(
                MovedState(
                    name,
                    len(added),
                    sum(file.bytes for file in added),
                    len(removed),
                    sum(file.bytes for file in removed),
                )
            )
    return tuple(moved)


def _sinks(a: Checkpoint, b: Checkpoint) -> tuple[MovedSink, ...]:
    names = dict.fromkeys([*a.sinks, *b.sinks])
    moved = (MovedSink(name, a.sinks.get(name), b.sinks.get(name)) for name in names)
    return tuple(move for move in moved if move.before != move.after)


def _rows(a: Checkpoint, b: Checkpoint, entries: Iterable[CheckpointEntry]) -> int | None:
    older, newer = sorted((a, b), key=lambda checkpoint: checkpoint.version)
    by_id = {entry.checkpoint_id: entry for entry in entries}
    at: str | None = newer.checkpoint_id
    parent, rows = newer.parent, newer.rows
    total = 0
    while at != older.checkpoint_id:
        if rows is None or at is None:
            return None
        total += rows
        at = parent
        entry = None if at is None else by_id.get(at)
        if at != older.checkpoint_id:
            if entry is None:
                return None
            parent, rows = entry.parent, entry.rows
    return total
