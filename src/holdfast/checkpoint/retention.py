"""Which checkpoints are kept: what is protected first, then what is old enough to go.

The ledger forgets a checkpoint before its files are removed, so that a crash in between leaves
files that nobody names and never a checkpoint without its files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from holdfast.checkpoint.kept import Kept
from holdfast.checkpoint.line import version_key, version_of
from holdfast.checkpoint.values import Removed
from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import CheckpointEntry, Intent
from holdfast.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class Limits:
    """Both must be exceeded before a checkpoint is removed; abandoned ones only have an age."""

    min_count: int
    min_age: timedelta
    at_once: int


def retain(
    pipeline: str,
    records: Records,
    objects: ObjectStore,
    kept: Kept | None,
    limits: Limits,
    generation: int | None,
) -> tuple[Removed, Kept]:
    """Remove what is past its time; also return what is known of the rest."""
    with records.ledger.reading() as view:
        kept = _current(view, records, pipeline, kept)
        if not _expired(view, records, pipeline, kept, limits):
            return Removed(), kept
    with records.ledger.writing() as change:
        if generation is not None:
            records.leases.check(change, pipeline, generation)
        kept = _current(change, records, pipeline, kept)
        versions = _expired(change, records, pipeline, kept, limits)
        entries = _entries(change, records, pipeline, versions)
        if len(entries) < len(versions):  # another process retained as well
            kept = Kept.load(change, records, pipeline)
            versions = _expired(change, records, pipeline, kept, limits)
            entries = _entries(change, records, pipeline, versions)
        intent = records.epoch_intents.get(change, pipeline)
        doomed = set(kept.unnamed_without(entries)) - named_by(intent)
        bridges = kept.bridges({entry.version for entry in entries})
        for version in versions:
            forget(records, change, pipeline, version)
        for node, older in bridges:
            key = version_key(pipeline, node.version)
            records.ancestors.put(change, key, older.checkpoint_id)
            records.ancestors.prune(change, key, 1)
    kept.remove(entries, bridges)
    return _remove_files(objects, entries, doomed), kept


def forget(records: Records, change: Transaction, pipeline: str, version: int) -> None:
    """Take a version out of the ledger without a trace."""
    key = version_key(pipeline, version)
    for collection in (records.checkpoints, records.manifests, records.ancestors):
        change.prune(collection.namespace, key, 0)


def named_by(intent: Intent | None) -> set[str]:
    """Return the files that an open epoch needs."""
    return {file.key for file in intent.spark.files.values()} if intent else set()


def _current(view: Transaction, records: Records, pipeline: str, kept: Kept | None) -> Kept:
    if kept is not None and kept.head == records.heads.get(view, pipeline):
        return kept
    return Kept.load(view, records, pipeline)


def _expired(
    view: Transaction, records: Records, pipeline: str, kept: Kept, limits: Limits
) -> list[int]:
    now = records.ledger.clock()
    expired = kept.expired(now, limits.min_count, limits.min_age, ())
    if next(expired, None) is None:
        return []  # the usual answer, for which the rest need not be read
    pinned = {version_of(key) for key in view.keys(records.pins.namespace, f"{pipeline}/")}
    protected = pinned | ({kept.head.version} if kept.head else set())
    intent = records.epoch_intents.get(view, pipeline)
    if intent is not None and intent.parent is not None:
        protected |= {n.version for n in kept.nodes.values() if n.checkpoint_id == intent.parent}
    allowed = kept.expired(now, limits.min_count, limits.min_age, protected)
    return list(islice(allowed, limits.at_once))


def _entries(
    change: Transaction, records: Records, pipeline: str, versions: list[int]
) -> list[CheckpointEntry]:
    found = (records.checkpoints.get(change, version_key(pipeline, v)) for v in versions)
    return [entry for entry in found if entry is not None]


def _remove_files(
    objects: ObjectStore, entries: list[CheckpointEntry], doomed: set[str]
) -> Removed:
    files = {file.key: file.bytes for entry in entries for file in entry.files}
    files = {key: size for key, size in files.items() if key in doomed}
    for entry in entries:
        files[entry.manifest.key] = entry.manifest.bytes
    for key in files:
        objects.delete(key)
    return Removed(
        tuple(sorted(entry.version for entry in entries)), tuple(files), sum(files.values())
    )
