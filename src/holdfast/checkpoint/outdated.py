"""Noticing a ledger that somebody put back from an old copy."""

from __future__ import annotations

from holdfast.checkpoint.book import Checkpoints
from holdfast.checkpoint.manifest import manifests_of
from holdfast.errors import CheckpointError
from holdfast.model import Head


def old_copy(checkpoints: Checkpoints, head: Head) -> str:
    """Say that the location has versions the ledger does not know; nothing if that is not so."""
    beyond = []
    for info in checkpoints.objects.list(manifests_of(checkpoints.pipeline)):
        number = info.key.rpartition("/")[2].partition("-")[0]
        # One version may be beyond: its epoch ended between manifest and ledger.
        if number.isdigit() and int(number) > head.newest_version + 1:
            beyond.append(info.key)
    if not beyond:
        return ""
    return (
        f"There are {len(beyond)} manifests of versions the ledger has not come to yet, up to "
        f"{beyond[-1]}: it seems to be an old copy. To go on from the newest of them, move "
        "the ledger away and repair again."
    )


def refuse_old_copy(checkpoints: Checkpoints) -> None:
    """Refuse to write, or remove, anything by the word of an old ledger."""
    head = checkpoints.head()
    said = old_copy(checkpoints, head) if head is not None else ""
    if said:
        raise CheckpointError(
            f"Pipeline {checkpoints.pipeline}: {said}",
            hint=f"holdfast checkpoint repair {checkpoints.pipeline}",
        )
