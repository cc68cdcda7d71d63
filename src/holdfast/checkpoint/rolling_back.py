"""Moving the head back, and telling the sinks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from holdfast.checkpoint.committing import KEPT_HEADS, forget_intent, remember_sinks
from holdfast.checkpoint.line import version_key
from holdfast.errors import CheckpointError, CheckpointMissing
from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import Checkpoint, Head, RollBack, SinkPosition, Token

KEPT_ROLL_BACKS: Final = 200


def roll_back(
    records: Records,
    to: Checkpoint,
    line: Collection[int] | None,
    *,
    generation: int,
    actor: str,
    note: str,
    sinks: Sequence[str],
) -> RollBack:
    """Move the head in one transaction; with a `line`, only to a version on it."""
    pipeline = to.pipeline
    with records.ledger.writing() as change:
        records.leases.check(change, pipeline, generation)
        head = records.heads.get(change, pipeline)
        key = version_key(pipeline, to.version)
        if head is None or records.checkpoints.get(change, key) is None:
            raise gone(pipeline, to.version)
        if line is not None:
            check_line(pipeline, to.version, line)
        _check_told(records, change, to, sinks)
        _check_generation(records, change, head, pipeline, generation)
        moved = replace(
            head,
            checkpoint_id=to.checkpoint_id,
            version=to.version,
            epoch=to.epoch,
            generation=generation,
            moved_at=records.ledger.clock(),
            cause="rollback",
        )
        records.heads.put(change, pipeline, moved)
        records.heads.prune(change, pipeline, KEPT_HEADS)
        forget_intent(records, change, pipeline)
        _reset_sinks(records, change, to)
        done = RollBack(
            pipeline=pipeline,
            from_checkpoint=head.checkpoint_id,
            from_version=head.version,
            to_checkpoint=to.checkpoint_id,
            to_version=to.version,
            to=Token(pipeline, generation, to.epoch),
            actor=actor,
            note=note,
            at=moved.moved_at,
            open_sinks=tuple(sinks),
        )
        remember(records, change, done)
    return done


def gone(pipeline: str, version: int) -> CheckpointMissing:
    """Return the error for a checkpoint that is not kept any more."""
    return CheckpointMissing(
        f"Pipeline {pipeline} has no checkpoint {version} to roll back to.",
        hint="List those it has: holdfast checkpoint list",
    )


def told(records: Records, to: Token, sink: str, effect: str) -> None:
    """Take a sink off the list of those that have still to be told of the roll-back to `to`."""
    pipeline = to.pipeline
    with records.ledger.writing() as change:
        newest = records.rollbacks.get(change, pipeline)
        # Of an older one it may hear late, from a process that was overtaken.
        if newest is None or newest.to != to or sink not in newest.open_sinks:
            return
        left = tuple(name for name in newest.open_sinks if name != sink)
        effects = {**newest.effects, sink: effect}
        remember(records, change, replace(newest, open_sinks=left, effects=effects))


def roll_backs(records: Records, pipeline: str) -> list[RollBack]:
    """List every roll-back once, as it stands now, newest first."""
    with records.ledger.reading() as view:
        history = records.rollbacks.history(view, pipeline)
    newest: dict[int, RollBack] = {}
    for _, found in history:
        if found is not None:
            newest.setdefault(found.to.generation, found)
    return list(newest.values())


def check_line(pipeline: str, version: int, line: Collection[int]) -> None:
    """Refuse a version that is not on the current line."""
    if version not in line:
        raise CheckpointError(
            f"Checkpoint {version} of pipeline {pipeline} was abandoned by a roll-back: "
            "sinks have forgotten the batches before it and would not get them again.",
            hint="Choose one on the current line: holdfast checkpoint list",
        )


def _check_told(
    records: Records, change: Transaction, to: Checkpoint, sinks: Sequence[str]
) -> None:
    pipeline = to.pipeline
    newest = records.rollbacks.get(change, pipeline)
    untold = [name for name in sinks if newest is not None and name in newest.open_sinks]
    if newest is not None and untold and to.epoch > newest.to.epoch:
        # It would hear of this one only, and keep batches that the one before took back. One
        # that goes back at least as far takes back all that the one before did.
        raise CheckpointError(
            f"Pipeline {pipeline} cannot be rolled back again yet: {', '.join(untold)} could not "
            f"be told of the roll-back to version {newest.to_version} so far.",
            hint=f"Run the pipeline when it can be reached: holdfast run {pipeline}",
        )


def _check_generation(
    records: Records, change: Transaction, head: Head, pipeline: str, generation: int
) -> None:
    intent = records.epoch_intents.get(change, pipeline)
    used = max(head.generation, intent.token.generation if intent else 0)
    if used >= generation:
        # A sink takes an epoch for new again only if its generation is newer.
        raise CheckpointError(
            f"Pipeline {pipeline} cannot be rolled back under generation {generation}: sinks "
            f"may have seen {used}.",
            hint="End the run that holds the pipeline and roll back under a new lease.",
        )


def remember(records: Records, change: Transaction, done: RollBack) -> None:
    records.rollbacks.put(change, done.pipeline, done)
    records.rollbacks.prune(change, done.pipeline, KEPT_ROLL_BACKS)


def _reset_sinks(records: Records, change: Transaction, to: Checkpoint) -> None:
    prefix = f"{to.pipeline}/"
    for key, current in list(records.sink_positions.items(change, prefix)):
        sink = key.removeprefix(prefix)
        if sink not in to.sinks:
            records.sink_positions.prune(change, key, 0)  # it was added later
        else:
            reset = position_at(to, to.sinks[sink], current)
            remember_sinks(records, change, to.pipeline, {sink: reset})
    known = set(change.keys(records.sink_positions.namespace, prefix))
    lost = {sink: at for sink, at in to.sinks.items() if prefix + sink not in known}
    remember_sinks(records, change, to.pipeline, lost)


def position_at(to: Checkpoint, then: SinkPosition, now: SinkPosition) -> SinkPosition:
    """Return where a sink is once it has forgotten everything past a checkpoint.

    What it had spooled then it may have got since, in which case it keeps it and the rows are no
    longer in the spool: so its position now counts, cut off at the checkpoint's epoch.
    """
    delivered = now.delivered
    if delivered is not None and delivered.epoch > to.epoch:
        delivered = to.token
    dropped = tuple(token for token in now.dropped if token.epoch <= to.epoch)
    since = [token for token in dropped if token not in then.dropped]
    return SinkPosition(
        guarantee=now.guarantee,
        delivered=delivered,
        waiting=now.waiting.up_to(to.epoch) if now.waiting is not None else None,
        dropped=dropped,
        dropped_count=then.dropped_count + len(since),
    )
