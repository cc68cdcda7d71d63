"""The one atomic point of an epoch.

The files of a checkpoint are durable before its manifest is written, and the manifest before the
ledger moves the head to it. A crash in between leaves files that nobody names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast import failpoints
from holdfast.checkpoint.line import version_key
from holdfast.checkpoint.manifest import encode, entry_of, manifest_key
from holdfast.errors import CheckpointError, ObjectExists, ObjectMissing, VersionConflict
from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import Checkpoint, CheckpointEntry, Head, SchemaEntry, SinkPosition
from holdfast.objects import ObjectStore, describe

STEPS: Final = (
    "commit.manifest",  # the files are stored, the manifest is not
    "commit.ledger",  # the manifest is stored, the ledger does not know of it
    "commit.done",  # the checkpoint counts
)
"""The steps of a commit a crash test can end a process at."""

KEPT_HEADS: Final = 20


def commit(
    records: Records,
    objects: ObjectStore,
    checkpoint: Checkpoint,
    *,
    generation: int,
    expect: Head | None,
    changes: Mapping[str, tuple[str, ...]],
) -> tuple[CheckpointEntry, Head]:
    """Write the manifest, then let the ledger count the checkpoint and move the head to it."""
    pipeline = checkpoint.pipeline
    content = encode(checkpoint)
    key = manifest_key(pipeline, checkpoint.version, checkpoint.checkpoint_id)
    entry = entry_of(checkpoint, describe(key, content))
    failpoints.reach("commit.manifest", pipeline)
    _put_manifest(objects, key, content)
    failpoints.reach("commit.ledger", pipeline)
    with records.ledger.writing() as change:
        records.leases.check(change, pipeline, generation)
        found = records.heads.get(change, pipeline)
        if found is not None and found.checkpoint_id == checkpoint.checkpoint_id:
            head = found  # committed before, by a call that did not live to say so
        else:
            if found != expect:
                raise _moved(pipeline, found, expect)
            head = _head(records, checkpoint, generation)
            records.heads.put(change, pipeline, head)
            records.heads.prune(change, pipeline, KEPT_HEADS)
            remember_entry(records, change, pipeline, entry, content)
            remember_sinks(records, change, pipeline, checkpoint.sinks)
            remember_schemas(records, change, checkpoint, changes)
            forget_intent(records, change, pipeline)
    failpoints.reach("commit.done", pipeline)
    return entry, head


def remember_entry(
    records: Records, change: Transaction, pipeline: str, entry: CheckpointEntry, manifest: bytes
) -> None:
    """Let the ledger know a checkpoint, and keep a copy of its manifest."""
    key = version_key(pipeline, entry.version)
    records.checkpoints.put(change, key, entry)
    records.manifests.put(change, key, manifest.decode())


def remember_sinks(
    records: Records, change: Transaction, pipeline: str, sinks: Mapping[str, SinkPosition]
) -> None:
    """Move sinks to where they are now."""
    for sink, position in sinks.items():
        key = f"{pipeline}/{sink}"
        records.sink_positions.put(change, key, position)
        records.sink_positions.prune(change, key, 1)


def remember_schemas(
    records: Records,
    change: Transaction,
    checkpoint: Checkpoint,
    changes: Mapping[str, tuple[str, ...]],
) -> None:
    """Register the schemas that no checkpoint had before."""
    for name, schema in checkpoint.schemas.items():
        key = f"{checkpoint.pipeline}/{name}/{schema.fingerprint}"
        if change.get(records.stream_schemas.namespace, key) is None:
            seen = SchemaEntry(
                name=name,
                fingerprint=schema.fingerprint,
                schema=schema.schema,
                checkpoint_id=checkpoint.checkpoint_id,
                version=checkpoint.version,
                epoch=checkpoint.epoch,
                generation=checkpoint.generation,
                seen_at=checkpoint.created_at,
                changes=tuple(changes.get(name, ())),
            )
            records.stream_schemas.put(change, key, seen)


def forget_intent(records: Records, change: Transaction, pipeline: str) -> None:
    """Say that no epoch is open."""
    records.epoch_intents.delete(change, pipeline)
    records.epoch_intents.prune(change, pipeline, 1)


def _put_manifest(objects: ObjectStore, key: str, content: bytes) -> None:
    try:
        objects.put_if_absent(key, content)
    except ObjectExists:
        # The same commit tried again finds its own manifest.
        try:
            same = objects.get(key) == content
        except ObjectMissing:
            same = False
        if not same:
            raise


def _head(records: Records, checkpoint: Checkpoint, generation: int) -> Head:
    return Head(
        checkpoint_id=checkpoint.checkpoint_id,
        version=checkpoint.version,
        epoch=checkpoint.epoch,
        generation=generation,
        moved_at=records.ledger.clock(),
        newest_version=checkpoint.version,
    )


def check_version(checkpoint: Checkpoint, pipeline: str, wanted: int, generation: int) -> None:
    """Refuse a checkpoint that is not the next one of its pipeline."""
    if checkpoint.pipeline != pipeline:
        raise CheckpointError(
            f"A checkpoint of pipeline {checkpoint.pipeline} was given to those of {pipeline}."
        )
    if checkpoint.version != wanted:
        raise CheckpointError(
            f"The next checkpoint of {pipeline} has version {wanted}, not {checkpoint.version}."
        )
    if checkpoint.generation > generation:
        raise CheckpointError(
            f"A checkpoint of {pipeline} has generation {checkpoint.generation}, which is past "
            f"that of its process, {generation}."
        )


def _moved(pipeline: str, found: Head | None, expect: Head | None) -> VersionConflict:
    return VersionConflict(
        f"The head of pipeline {pipeline} is at {_say(found)}, not at {_say(expect)} as expected.",
        hint="Something else moved it in the meantime: start the run again.",
    )


def _say(head: Head | None) -> str:
    if head is None:
        return "no checkpoint"
    return f"version {head.version} ({head.cause}, generation {head.generation})"
