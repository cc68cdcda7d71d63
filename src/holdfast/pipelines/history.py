"""Which batches an appended target consists of, read off its watermark's history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.model import Position, Watermark


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """A batch readers see, and the watermark it left behind."""

    batch_id: str
    end: Position | None


def live_batches(steps: Sequence[Watermark]) -> list[LiveBatch]:
    """The batches that make up the target now, newest first; `steps` are newest first too."""
    replaced: set[str] = set()
    live: list[LiveBatch] = []
    for step in steps:
        if step.batch is None:
            continue
        if step.batch.batch_id not in replaced:
            live.append(LiveBatch(step.batch.batch_id, step.position))
        replaced.update(step.batch.replaces)
        # A merge, too, writes the whole table anew: no earlier batch is left to go back to.
        if step.batch.replaces_all or step.batch.strategy == "merge":
            break
    return live


def boundary_at_or_before(live: Sequence[LiveBatch], wanted: Position) -> Position | None:
    """The furthest place at or before `wanted` at which one of the batches ended."""
    ends = [batch.end for batch in live if batch.end is not None]
    # `wanted` may name fewer columns than a cursor with tie-breakers: it then stands for every
    # row that has this value.
    reached = [end for end in ends if not wanted < end.first(len(wanted.values))]
    return max(reached, default=None)
