"""The ledger's records of a pipeline, made again from its manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.checkpoint.book import Checkpoints
from holdfast.checkpoint.committing import (
    KEPT_HEADS,
    forget_intent,
    remember_entry,
    remember_schemas,
    remember_sinks,
)
from holdfast.checkpoint.manifest import decode, entry_of, manifest_key, manifests_of
from holdfast.checkpoint.rolling_back import remember
from holdfast.checkpoint.schemas import schema_changes
from holdfast.errors import CheckpointError
from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import BatchSchema, Checkpoint, CheckpointEntry, Head, RollBack, Token
from holdfast.objects import describe

SPARE_GENERATIONS: Final = 100
"""A lost ledger may have given out generations that no checkpoint was committed under."""


@dataclass(frozen=True, slots=True)
class _Found:
    checkpoint: Checkpoint
    entry: CheckpointEntry
    content: bytes

    @property
    def rank(self) -> tuple[int, int, str]:
        return self.entry.generation, self.entry.version, self.entry.checkpoint_id


def rebuild(checkpoints: Checkpoints, done: list[str], problems: list[str]) -> None:
    """Make entries, schemas, sink positions and the head again, in one transaction."""
    newest_version = 0
    found: list[_Found] = []
    for info in checkpoints.objects.list(manifests_of(checkpoints.pipeline)):
        number = info.key.rpartition("/")[2].partition("-")[0]
        newest_version = max(newest_version, int(number) if number.isdigit() else 0)
        try:
            found.append(_read(checkpoints, info.key))
        except CheckpointError as error:
            problems.append(error.message)
    if not found:
        if problems:
            problems.append("No manifest can be read, so the ledger has no checkpoint.")
        else:
            done.append("There was nothing to repair: no ledger record and no manifest.")
        return
    kept = _one_per_version(found, problems)
    head = max(found, key=lambda each: each.rank)
    with checkpoints.records.ledger.writing() as change:
        checkpoints.records.leases.refuse_if_held_in(change, checkpoints.pipeline)
        if checkpoints.records.heads.get(change, checkpoints.pipeline) is not None:
            raise CheckpointError(
                f"Pipeline {checkpoints.pipeline} got a head while it was being repaired.",
                hint="Nothing was changed. Look at it first: holdfast checkpoint list",
            )
        generation = _write(checkpoints, change, kept, head, newest_version)
    done.append(
        f"The ledger's records of {len(kept)} checkpoints were rebuilt from their manifests; the "
        f"head is version {head.entry.version} (epoch {head.entry.epoch}, generation "
        f"{head.entry.generation})."
    )
    done.append(f"The next run gets a generation past {generation}.")
    done.append(
        "Which versions were kept on purpose, earlier roll-backs and an epoch that was open are "
        "not in manifests and are gone."
    )


def _read(checkpoints: Checkpoints, key: str) -> _Found:
    content = checkpoints.objects.get(key)
    checkpoint = decode(content, key)
    wanted = manifest_key(checkpoints.pipeline, checkpoint.version, checkpoint.checkpoint_id)
    if checkpoint.pipeline != checkpoints.pipeline or key != wanted:
        raise CheckpointError(
            f"The manifest {key} is that of version {checkpoint.version} "
            f"({checkpoint.checkpoint_id}) of pipeline {checkpoint.pipeline}: it is passed over."
        )
    return _Found(checkpoint, entry_of(checkpoint, describe(key, content)), content)


def _one_per_version(found: list[_Found], problems: list[str]) -> list[_Found]:
    """Prefer, of manifests with the same version, the one on the line, else the newest."""
    by_id = {each.entry.checkpoint_id: each for each in found}
    line: dict[int, _Found] = {}
    at: _Found | None = max(found, key=lambda each: each.rank)
    while at is not None and at.entry.version not in line:
        line[at.entry.version] = at
        at = by_id.get(at.entry.parent or "")
    chosen: dict[int, _Found] = {}
    for each in sorted(found, key=lambda each: each.rank):
        chosen[each.entry.version] = line.get(each.entry.version, each)
    for each in found:
        if chosen[each.entry.version] is not each:
            problems.append(
                f"The manifest {each.entry.manifest.key} was never committed: another process "
                f"committed version {each.entry.version}."
            )
    return [chosen[version] for version in sorted(chosen)]


def _write(
    checkpoints: Checkpoints,
    change: Transaction,
    kept: list[_Found],
    head: _Found,
    newest_version: int,
) -> int:
    records, pipeline = checkpoints.records, checkpoints.pipeline
    newest: dict[str, BatchSchema] = {}
    for each in kept:
        remember_entry(records, change, pipeline, each.entry, each.content)
        remember_schemas(records, change, each.checkpoint, _changes(newest, each.checkpoint))
        newest |= each.checkpoint.schemas
    remember_sinks(records, change, pipeline, head.checkpoint.sinks)
    forget_intent(records, change, pipeline)
    seen = max(_newest_generation(each.checkpoint) for each in kept)
    generation = records.leases.raise_to(change, pipeline, seen + SPARE_GENERATIONS)
    records.heads.put(
        change,
        pipeline,
        Head(
            checkpoint_id=head.entry.checkpoint_id,
            version=head.entry.version,
            epoch=head.entry.epoch,
            generation=seen,
            moved_at=records.ledger.clock(),
            newest_version=newest_version,
            cause="repair",
        ),
    )
    records.heads.prune(change, pipeline, KEPT_HEADS)
    _forget_begun(records, change, head.checkpoint, generation)
    return generation


def _forget_begun(records: Records, change: Transaction, head: Checkpoint, generation: int) -> None:
    """Have the sinks forget an epoch that the lost ledger had begun: some may have it.

    It will run again under another token, as a new batch.
    """
    done = RollBack(
        pipeline=head.pipeline,
        from_checkpoint=head.checkpoint_id,
        from_version=head.version,
        to_checkpoint=head.checkpoint_id,
        to_version=head.version,
        to=Token(head.pipeline, generation, head.epoch),
        actor="repair",
        note="the ledger was lost",
        at=records.ledger.clock(),
        open_sinks=tuple(head.sinks),
    )
    remember(records, change, done)


def _newest_generation(checkpoint: Checkpoint) -> int:
    delivered = [sink.delivered.generation for sink in checkpoint.sinks.values() if sink.delivered]
    return max([checkpoint.generation, *delivered])


def _changes(before: dict[str, BatchSchema], checkpoint: Checkpoint) -> dict[str, tuple[str, ...]]:
    return {
        name: schema_changes(before[name].schema, schema.schema)
        for name, schema in checkpoint.schemas.items()
        if name in before and before[name].fingerprint != schema.fingerprint
    }
