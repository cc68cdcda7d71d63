"""From what somebody writes to the checkpoint that is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import CheckpointMissing
from holdfast.model import CheckpointEntry, Head

_SHORTEST_PREFIX: Final = 6


def find(
    pipeline: str, reference: str, head: Head | None, entries: Sequence[CheckpointEntry]
) -> CheckpointEntry:
    """Return the checkpoint that `head`, `latest`, a version, an id or its beginning names."""
    wanted = reference.strip().lower()
    if wanted in ("head", "latest"):
        at_head = [e for e in entries if head and e.version == head.version]
        if not at_head:
            raise _missing(f"Pipeline {pipeline} has no checkpoint yet.", entries)
        return at_head[0]
    if wanted.isascii() and wanted.isdigit():
        # An id may begin with digits only; a version is shorter and comes first.
        by_version = [e for e in entries if e.version == int(wanted)]
        if by_version:
            return by_version[0]
    found = [e for e in entries if e.checkpoint_id.lower() == wanted]
    if not found and len(wanted) >= _SHORTEST_PREFIX:
        found = [e for e in entries if e.checkpoint_id.lower().startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise CheckpointMissing(
            f"{reference!r} is the beginning of {len(found)} ids of pipeline {pipeline}: "
            f"{_listed(found)}.",
            hint="Name it by its version number, or with more of its id.",
        )
    raise _missing(f"Pipeline {pipeline} has no checkpoint {reference!r}.", entries)


def _missing(message: str, entries: Sequence[CheckpointEntry]) -> CheckpointMissing:
    hint = f"It has {_listed(entries)}." if entries else "It has none at all: run it first."
    return CheckpointMissing(message, hint=hint)


def _listed(entries: Sequence[CheckpointEntry], most: int = 5) -> str:
    named = ", ".join(f"{e.version} ({e.checkpoint_id})" for e in entries[:most])
    return named if len(entries) <= most else f"{named} and {len(entries) - most} more"
