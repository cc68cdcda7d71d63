"""Making ledger and checkpoint location agree again, from whichever of them is left."""

from __future__ import annotations

from holdfast.checkpoint import restoring
from holdfast.checkpoint.book import Checkpoints
from holdfast.checkpoint.line import version_key
from holdfast.checkpoint.outdated import old_copy
from holdfast.checkpoint.rebuilding import SPARE_GENERATIONS, rebuild
from holdfast.checkpoint.values import Repair
from holdfast.errors import CheckpointDamaged, CheckpointError
from holdfast.model import CheckpointEntry, Head


def repair(checkpoints: Checkpoints) -> Repair:
    """Write again what is lost, and say what cannot be.

    With a ledger, manifests are written again from its copies, and its copies from manifests.
    Without one, its records are rebuilt from the manifests. A damaged manifest that nobody has a
    copy of is named and left alone, like every damaged file.

    Either way the next run has a generation that no sink has seen, even if the ledger is an old
    copy.
    """
    done: list[str] = []
    problems: list[str] = []
    with checkpoints.records.ledger.reading() as view:
        checkpoints.records.leases.refuse_if_held_in(view, checkpoints.pipeline)
    head = checkpoints.head()
    if head is None:
        rebuild(checkpoints, done, problems)
    else:
        for entry in checkpoints.entries():
            _repair_manifest(checkpoints, entry, done, problems)
        problems += [sentence for sentence in (old_copy(checkpoints, head),) if sentence]
        _skip_generations(checkpoints, head)
    line = checkpoints.line()
    if checkpoints.head() is not None and not line:
        problems.append("The head is a checkpoint that is not in the ledger.")
    whole = {e.version for e in checkpoints.entries() if _is_whole(checkpoints, e, problems)}
    newest_whole = next((entry for entry in line if entry.version in whole), None)
    return Repair(tuple(done), tuple(problems), line[0] if line else None, newest_whole)


def _repair_manifest(
    checkpoints: Checkpoints, entry: CheckpointEntry, done: list[str], problems: list[str]
) -> None:
    pipeline, records = checkpoints.pipeline, checkpoints.records
    copy = restoring.ledger_copy(pipeline, records, entry)
    try:
        content = restoring.read_manifest(checkpoints.objects, entry)
    except CheckpointDamaged as error:
        if copy is None:
            problems.append(f"{error.message} The ledger has no copy of it.")
        else:
            checkpoints.objects.put(entry.manifest.key, copy)
            done.append(f"{error.message} It was written again from the ledger's copy.")
        return
    if copy is None:
        key = version_key(pipeline, entry.version)
        with records.ledger.writing() as change:
            if records.checkpoints.get(change, key) == entry:
                records.manifests.put(change, key, content.decode())
                records.manifests.prune(change, key, 1)
        done.append(f"The ledger has a copy of the manifest of version {entry.version} again.")


def _skip_generations(checkpoints: Checkpoints, head: Head) -> None:
    """Leave out the generations that sinks may know from a ledger this one is an old copy of."""
    records, pipeline = checkpoints.records, checkpoints.pipeline
    with records.ledger.writing() as change:
        given = max(head.generation, records.leases.generation(change, pipeline))
        records.leases.raise_to(change, pipeline, given + SPARE_GENERATIONS)


def _is_whole(checkpoints: Checkpoints, entry: CheckpointEntry, problems: list[str]) -> bool:
    try:
        found = restoring.first_problem(checkpoints.objects, checkpoints.load(entry))
    except CheckpointDamaged:
        return False  # was named before
    except CheckpointError as error:
        problems.append(error.message)
        return False
    if found:
        problems.append(f"Version {entry.version} is damaged: {found}.")
    return not found
