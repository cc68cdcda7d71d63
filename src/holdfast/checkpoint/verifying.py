"""Reading every file of a checkpoint and comparing it with what was written."""

from __future__ import annotations

from holdfast.checkpoint.book import Checkpoints
from holdfast.checkpoint.restoring import problem
from holdfast.checkpoint.values import Verification
from holdfast.errors import CheckpointError
from holdfast.model import CheckpointEntry, StoredFile


def verify(checkpoints: Checkpoints, entry: CheckpointEntry) -> Verification:
    """See that a checkpoint's manifest and every file of it are there and unharmed."""
    return _verify(checkpoints, entry, {})


def verify_all(checkpoints: Checkpoints) -> list[Verification]:
    """Verify every kept checkpoint, newest first; files they share are read once."""
    seen: dict[StoredFile, str] = {}
    return [_verify(checkpoints, entry, seen) for entry in checkpoints.entries()]


def _verify(
    checkpoints: Checkpoints, entry: CheckpointEntry, seen: dict[StoredFile, str]
) -> Verification:
    findings: list[tuple[str, str]] = []
    try:
        checkpoints.load(entry)
    except CheckpointError as error:
        findings.append((entry.manifest.key, error.message))
    files = dict.fromkeys(entry.files)
    for file in files:
        if file not in seen:
            seen[file] = problem(checkpoints.objects, file, thorough=True)
        if seen[file]:
            findings.append((file.key, f"The file {file.key} is damaged: {seen[file]}."))
    size = entry.manifest.bytes + sum(file.bytes for file in files)
    return Verification(entry, len(files) + 1, size, tuple(findings))
