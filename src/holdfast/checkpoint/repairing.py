"""Making ledger and checkpoint location agree again, from whichever of them is left."""

from __future__ import annotations

from holdfast.checkpoint import restoring
from holdfast.checkpoint.book import Checkpoints
from holdfast.checkpoint.line import version_key
from holdfast.checkpoint.manifest import manifests_of
from holdfast.checkpoint.rebuilding import rebuild
from holdfast.checkpoint.values import Repair
from holdfast.errors import CheckpointDamaged, CheckpointError
from holdfast.model import CheckpointEntry, Head


def repair(checkpoints: Checkpoints) -> Repair:
    """Write again what is lost, and say what cannot be.

    With a ledger, manifests are written again from its copies, and its copies from manifests.
    Without one, its records are rebuilt from the manifests. A damaged manifest that nobody has a
    copy of is named and left alone, like every damaged file.
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
        _report_newer(checkpoints, head, problems)
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


def _report_newer(checkpoints: Checkpoints, head: Head, problems: list[str]) -> None:
    """Notice a ledger that is older than the checkpoints: somebody put an old copy back."""
    beyond = []
    for info in checkpoints.objects.list(manifests_of(checkpoints.pipeline)):
        number = info.key.rpartition("/")[2].partition("-")[0]
        # One version may be beyond: its epoch ended between manifest and ledger.
        if number.isdigit() and int(number) > head.newest_version + 1:
            beyond.append(info.key)
    if beyond:
        problems.append(
            f"There are {len(beyond)} manifests of versions the ledger has not come to yet, up to "
            f"{beyond[-1]}: it seems to be an old copy. To go on from the newest of them, move "
            "the ledger away and repair again."
        )


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
