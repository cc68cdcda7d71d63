"""What a run starts from, whatever happened to the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xxhash import xxh3_128_hexdigest

from holdfast.checkpoint.line import version_key
from holdfast.checkpoint.manifest import damaged, decode, manifests_of
from holdfast.checkpoint.values import Restored
from holdfast.errors import CheckpointDamaged, CheckpointError, ObjectMissing
from holdfast.ledger.records import Records
from holdfast.model import Checkpoint, CheckpointEntry, Head, Intent, StoredFile
from holdfast.objects import ObjectStore


def restore(
    pipeline: str,
    records: Records,
    objects: ObjectStore,
    head: CheckpointEntry,
    older: Callable[[], Sequence[CheckpointEntry]],
) -> Restored:
    """Return the head, or the newest of the older ones that is whole."""
    notes: list[str] = []
    checkpoint = _whole(pipeline, records, objects, head, notes)
    if checkpoint is not None:
        return Restored(checkpoint, head, tuple(notes))
    for entry in older():
        checkpoint = _whole(pipeline, records, objects, entry, notes)
        if checkpoint is not None:
            notes.append(
                f"Version {entry.version} (epoch {entry.epoch}) is the newest one that is whole."
            )
            return Restored(checkpoint, entry, tuple(notes), fell_back_from=head)
    tried = "\n".join(f"  {note}" for note in notes)
    raise CheckpointDamaged(
        f"No checkpoint of pipeline {pipeline} is whole:\n{tried}",
        hint=f"Put the files back from a copy of {objects.location}, then: "
        "holdfast checkpoint verify",
    )


def refuse_lost_ledger(pipeline: str, objects: ObjectStore, intent: Intent | None) -> None:
    """Refuse to start from nothing when only the ledger has nothing.

    With an intent the ledger is not lost: the first epoch ended between manifest and ledger.
    """
    if intent is None and next(objects.list(manifests_of(pipeline)), None) is not None:
        raise CheckpointError(
            f"The ledger knows no checkpoint of pipeline {pipeline}, but there are some in "
            f"{objects.location}.",
            hint="Rebuild the ledger's records from them: holdfast checkpoint repair; "
            "or, to begin anew, name another checkpoint location.",
        )


def read(
    pipeline: str,
    records: Records,
    objects: ObjectStore,
    entry: CheckpointEntry,
    notes: list[str],
) -> Checkpoint:
    """Read a checkpoint; a manifest that is damaged is written again from the ledger's copy."""
    try:
        return decode(read_manifest(objects, entry), entry.manifest.key)
    except CheckpointDamaged as error:
        copy = ledger_copy(pipeline, records, entry)
        if copy is None:
            raise
        checkpoint = decode(copy, f"{entry.manifest.key} in the ledger")
        objects.put(entry.manifest.key, copy)
        notes.append(f"{error.message} It was written again from the ledger's copy.")
        return checkpoint


def read_whole(
    pipeline: str, records: Records, objects: ObjectStore, entry: CheckpointEntry
) -> Checkpoint:
    """Read a checkpoint that a run can start from, or raise `CheckpointDamaged`."""
    checkpoint = read(pipeline, records, objects, entry, [])
    found = first_problem(objects, checkpoint)
    if found:
        raise CheckpointDamaged(
            f"Version {entry.version} (epoch {entry.epoch}) of pipeline {pipeline} is damaged: "
            f"{found}.",
            hint="See which versions are whole: holdfast checkpoint verify",
        )
    return checkpoint


def read_manifest(objects: ObjectStore, entry: CheckpointEntry) -> bytes:
    """Return a manifest's content if it is what was written."""
    key = entry.manifest.key
    try:
        content = objects.get(key)
    except ObjectMissing:
        raise damaged(key, "it is missing") from None
    if not _is(content, entry.manifest):
        raise damaged(key, "it is not what was written")
    return content


def ledger_copy(pipeline: str, records: Records, entry: CheckpointEntry) -> bytes | None:
    """Return the ledger's copy of a manifest, if it has one that is unharmed."""
    with records.ledger.reading() as view:
        text = records.manifests.get(view, version_key(pipeline, entry.version))
    copy = None if text is None else text.encode()
    return copy if copy is not None and _is(copy, entry.manifest) else None


def problem(objects: ObjectStore, file: StoredFile, *, thorough: bool) -> str:
    """Say what is wrong with a file, or nothing; read it whole only if `thorough`."""
    info = objects.head(file.key)
    if info is None:
        return "it is missing"
    if info.bytes != file.bytes:
        return f"it has {info.bytes} bytes instead of {file.bytes}"
    if thorough and objects.measure(file.key).checksum != file.checksum:
        return "its checksum is not the one recorded when it was written"
    return ""


def first_problem(objects: ObjectStore, checkpoint: Checkpoint) -> str:
    """Say which file keeps a run from starting here, or nothing.

    Spark's logs are small and read whole; the state checks its own files when it opens them.
    """
    logs = {file.key for file in checkpoint.spark.files.values()}
    for file in checkpoint.files:
        found = problem(objects, file, thorough=file.key in logs)
        if found:
            return f"{file.key}: {found}"
    return ""


def not_in_ledger(pipeline: str, head: Head) -> CheckpointDamaged:
    """Return the error for a head that points nowhere."""
    return CheckpointDamaged(
        f"The head of pipeline {pipeline} is version {head.version}, which is not in the ledger.",
        hint="Restore a copy of the ledger, or rebuild its records: holdfast checkpoint repair",
    )


def _whole(
    pipeline: str,
    records: Records,
    objects: ObjectStore,
    entry: CheckpointEntry,
    notes: list[str],
) -> Checkpoint | None:
    try:
        checkpoint = read(pipeline, records, objects, entry, notes)
    except CheckpointDamaged as error:
        notes.append(f"Version {entry.version} (epoch {entry.epoch}): {error.message}")
        return None
    found = first_problem(objects, checkpoint)
    if found:
        notes.append(f"Version {entry.version} (epoch {entry.epoch}) is damaged: {found}.")
        return None
    return checkpoint


def _is(content: bytes, file: StoredFile) -> bool:
    return len(content) == file.bytes and xxh3_128_hexdigest(content) == file.checksum
