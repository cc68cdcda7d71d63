"""Where a run starts from."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.checkpoint import Checkpoints, refuse_old_copy
from holdfast.errors import CheckpointMissing, UsageError
from holdfast.model import Checkpoint, CheckpointEntry, Head, Intent

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Start:
    """The head to go on from, if there is one, and the epoch that had been begun after it."""

    head: Head | None
    entry: CheckpointEntry | None
    checkpoint: Checkpoint | None
    intent: Intent | None
    notes: tuple[str, ...] = ()


def choose_start(
    checkpoints: Checkpoints,
    reference: str,
    *,
    generation: int,
    actor: str,
    sinks: tuple[str, ...],
    fail_if_none: bool,
) -> Start:
    """Find the checkpoint a run goes on from; another one than the head is rolled back to.

    A head whose files are damaged is fallen back from to the newest version that is whole.
    """
    notes: list[str] = []
    if checkpoints.head() is None:
        checkpoints.restore()  # refuses a ledger that was lost while its checkpoints are there
        if reference != LATEST:
            checkpoints.resolve(reference)  # says what there is
        if fail_if_none:
            raise CheckpointMissing(
                f"{checkpoints.pipeline} has no checkpoint in {checkpoints.objects.location}, and "
                "fail_if_no_checkpoint is set.",
                hint="If its ledger was lost but the checkpoints are there: "
                f"holdfast checkpoint repair {checkpoints.pipeline}. "
                "To start from the beginning, set it to false.",
            )
        return Start(None, None, None, open_intent(checkpoints, None))
    refuse_old_copy(checkpoints)
    if reference != LATEST:
        wanted = checkpoints.resolve(reference)
        head = checkpoints.head()
        if head is not None and wanted.version != head.version:
            done = checkpoints.roll_back(
                wanted,
                generation=generation,
                actor=actor,
                note=f"run --from {reference}",
                sinks=sinks,
            )
            notes.append(f"Rolled back from version {done.from_version} to {done.to_version}.")
    restored = checkpoints.restore()
    assert restored is not None, "there is a head"
    notes += restored.notes
    if restored.fell_back_from is not None:
        checkpoints.roll_back(
            restored.entry,
            generation=generation,
            actor=actor,
            note=f"version {restored.fell_back_from.version} is damaged",
            sinks=sinks,
        )
        notes.append(
            f"Version {restored.fell_back_from.version} is damaged: fell back to version "
            f"{restored.entry.version} (epoch {restored.entry.epoch}). "
            f"See: holdfast checkpoint verify {checkpoints.pipeline}"
        )
    intent = open_intent(checkpoints, restored.checkpoint)
    return Start(checkpoints.head(), restored.entry, restored.checkpoint, intent, tuple(notes))


def open_intent(checkpoints: Checkpoints, last: Checkpoint | None) -> Intent | None:
    """The epoch that was begun after a checkpoint, unless it is of a line no longer followed."""
    intent = checkpoints.intent()
    parent = None if last is None else last.checkpoint_id
    return intent if intent is not None and intent.parent == parent else None


def changed_transforms(pipeline: str, start: Start, digest: str) -> tuple[str, ...]:
    """Say so if what is done to the rows changed while an epoch was open."""
    intent = start.intent
    if intent is None or not intent.transforms or intent.transforms == digest:
        return ()
    return (
        f"The transforms changed while epoch {intent.token.epoch} was under way: sinks that took "
        "it before keep the rows of the old ones. To have all of them take the new ones: "
        f"holdfast checkpoint rollback {pipeline} latest",
    )


def refuse_other_source(pipeline: str, start: Start, digest: str, *, accept: bool) -> None:
    """Refuse to give the offsets of one source to another."""
    known = start.checkpoint.source if start.checkpoint is not None else None
    if known is None and start.intent is not None:
        known = start.intent.source
    if known is None or known == digest or accept:
        return
    version = f"version {start.entry.version}" if start.entry is not None else "the open epoch"
    raise UsageError(
        f"{pipeline} read another source up to {version} than the configuration names now.",
        hint="Its positions mean nothing to another source. Give the changed pipeline another "
        "name. If it reads the same data, by other brokers or options, say so once: "
        f"holdfast run {pipeline} --accept-source",
    )
