"""Removing files that nobody names: what crashes, fenced-out processes and retried tasks left."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from holdfast.checkpoint.book import Checkpoints
from holdfast.checkpoint.outdated import refuse_old_copy
from holdfast.checkpoint.retention import named_by
from holdfast.checkpoint.values import Removed
from holdfast.errors import CheckpointError
from holdfast.ledger import Transaction
from holdfast.objects import ObjectInfo

_UNFINISHED_AFTER: Final = timedelta(hours=1)
"""How old a half-written file is before its writer is taken for dead."""


def gc(checkpoints: Checkpoints, *, dry_run: bool, generation: int | None = None) -> Removed:
    """Remove what neither a kept checkpoint nor the open intent names.

    A running epoch has stored files that nobody names yet, so the pipeline's lease is taken
    for as long as it goes on; `generation` is that of a caller who has it already.
    """
    records, pipeline = checkpoints.records, checkpoints.pipeline
    refuse_old_copy(checkpoints)
    if dry_run:
        return _removed(_unnamed(checkpoints))
    if generation is not None:
        return _collect(checkpoints, generation)
    lease = records.leases.acquire(pipeline, f"gc-{records.ledger.clock():%Y%m%dT%H%M%S%f}")
    try:
        return _collect(checkpoints, lease.generation)
    finally:
        records.leases.release(pipeline, lease)


def _collect(checkpoints: Checkpoints, generation: int) -> Removed:
    unnamed = _unnamed(checkpoints)
    with checkpoints.records.ledger.reading() as view:
        checkpoints.records.leases.check(view, checkpoints.pipeline, generation)
    for info in unnamed:
        checkpoints.objects.delete(info.key)
    before = checkpoints.records.ledger.clock() - _UNFINISHED_AFTER
    checkpoints.objects.sweep(f"{checkpoints.pipeline}/", before=before)
    return _removed(unnamed)


def _unnamed(checkpoints: Checkpoints) -> list[ObjectInfo]:
    records = checkpoints.records
    with records.ledger.reading() as view:
        head = records.heads.get(view, checkpoints.pipeline)
        intent = records.epoch_intents.get(view, checkpoints.pipeline)
        named = _named(checkpoints, view)
    found = list(checkpoints.objects.list(f"{checkpoints.pipeline}/"))
    if found and head is None and intent is None:
        raise CheckpointError(
            f"The ledger knows no checkpoint of pipeline {checkpoints.pipeline}, so every file "
            f"of it in {checkpoints.objects.location} would be removed.",
            hint="If the ledger was lost: holdfast checkpoint repair",
        )
    return [info for info in found if info.key not in named]


def _named(checkpoints: Checkpoints, view: Transaction) -> set[str]:
    records, pipeline = checkpoints.records, checkpoints.pipeline
    named = named_by(records.epoch_intents.get(view, pipeline))
    for _, entry in records.checkpoints.items(view, f"{pipeline}/"):
        named.add(entry.manifest.key)
        named.update(file.key for file in entry.files)
    return named


def _removed(unnamed: list[ObjectInfo]) -> Removed:
    return Removed((), tuple(info.key for info in unnamed), sum(info.bytes for info in unnamed))
