"""The manifest: one checkpoint as a JSON file that can tell whether it is unharmed.

    {"checkpoint": {…}, "checksum": "<xxh3-128 in hexadecimal>", "format": 1}

The checksum is that of the checkpoint as compact JSON with sorted keys, in UTF-8.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_hexdigest

from holdfast.errors import CheckpointDamaged, CheckpointError
from holdfast.model import Checkpoint, CheckpointEntry, StoredFile
from holdfast.model.checkpoint import CHECKPOINT_FORMAT

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def manifests_of(pipeline: str) -> str:
    """Return what the keys of a pipeline's manifests start with."""
    return f"{pipeline}/manifests/"


def manifest_key(pipeline: str, version: int, checkpoint_id: str) -> str:
    """Return where a checkpoint's manifest is kept."""
    return f"{manifests_of(pipeline)}{version:012d}-{checkpoint_id}.json"


def entry_of(checkpoint: Checkpoint, manifest: StoredFile) -> CheckpointEntry:
    """Return what the ledger remembers of a checkpoint."""
    return CheckpointEntry(
        checkpoint_id=checkpoint.checkpoint_id,
        version=checkpoint.version,
        epoch=checkpoint.epoch,
        generation=checkpoint.generation,
        parent=checkpoint.parent,
        created_at=checkpoint.created_at,
        rows=checkpoint.rows,
        manifest=manifest,
        files=checkpoint.files,
        schemas={name: schema.fingerprint for name, schema in checkpoint.schemas.items()},
    )


def encode(checkpoint: Checkpoint) -> bytes:
    """Write a manifest; refuse a checkpoint that could not be read back."""
    try:
        plain = _adapter().dump_python(checkpoint, mode="json", warnings="error")
        text = _canonical(plain)
        _adapter().validate_json(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"Checkpoint {checkpoint.version} of {checkpoint.pipeline} cannot be written: {error}"
        ) from error
    checksum = xxh3_128_hexdigest(text)
    head = b'{"checkpoint":%s,"checksum":"%s","format":%d}\n'
    return head % (text, checksum.encode(), checkpoint.format)


def decode(content: bytes, name: str) -> Checkpoint:
    """Read a manifest; `name` says in an error which one it was."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise damaged(name, "it is not JSON") from None
    if not isinstance(document, dict):
        raise damaged(name, "it is not a JSON object")
    version = document.get("format")
    if isinstance(version, int) and version > CHECKPOINT_FORMAT:
        raise CheckpointError(
            f"The manifest {name} has format {version}; this version of Holdfast reads up to "
            f"{CHECKPOINT_FORMAT}.",
            hint="Use the newer version of Holdfast that wrote it.",
        )
    if version != CHECKPOINT_FORMAT:
        raise damaged(name, f"its format is {version!r}")
    try:
        text = _canonical(document.get("checkpoint"))
    except ValueError:
        raise damaged(name, "its text is not Unicode") from None
    if xxh3_128_hexdigest(text) != document.get("checksum"):
        raise damaged(name, "its checksum is not the one recorded when it was written")
    try:
        return _adapter().validate_json(text)
    except ValueError as error:
        raise damaged(name, f"it is not a checkpoint: {error}") from error


def damaged(name: str, reason: str) -> CheckpointDamaged:
    """Return the error for a manifest that is not what was written."""
    return CheckpointDamaged(
        f"The manifest {name} is damaged: {reason}.",
        hint="Write it again from the ledger's copy: holdfast checkpoint repair",
    )


def _canonical(plain: Any) -> bytes:
    return json.dumps(
        plain, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


@cache
def _adapter() -> TypeAdapter[Checkpoint]:
    # Imported on first use: it takes longer than everything else a short command does.
    from pydantic import TypeAdapter

    return TypeAdapter(Checkpoint)
