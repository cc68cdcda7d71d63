"""Which checkpoints the head continues, and which a roll-back left behind.

A checkpoint names its parent. Retention may remove checkpoints from the middle of the line, when
an older one is pinned; `Records.ancestors` then says which kept one a checkpoint continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import CheckpointEntry


def version_key(pipeline: str, version: int) -> str:
    """Return the ledger's key for one version of a pipeline."""
    return f"{pipeline}/{version:012d}"


def version_of(key: str) -> int:
    """Return the version that a key of the ledger is for."""
    return int(key.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Node:
    """A checkpoint's place in the history."""

    version: int
    checkpoint_id: str
    before: str | None
    """The kept checkpoint it continues, or the parent it had."""
    created_at: datetime


def node_of(entry: CheckpointEntry, ancestors: Mapping[int, str]) -> Node:
    """Return an entry's place in the history."""
    before = ancestors.get(entry.version, entry.parent)
    return Node(entry.version, entry.checkpoint_id, before, entry.created_at)


def ancestors_in(view: Transaction, records: Records, pipeline: str) -> dict[int, str]:
    """Return which checkpoint a version continues, where its own parent was removed."""
    found = records.ancestors.items(view, f"{pipeline}/")
    return {version_of(key): checkpoint_id for key, checkpoint_id in found}


def line_from(checkpoint_id: str | None, nodes: Iterable[Node]) -> list[int]:
    """Return the versions of a checkpoint and of its kept ancestors, newest first."""
    by_id = {node.checkpoint_id: node for node in nodes}
    line: list[int] = []
    while checkpoint_id is not None and (node := by_id.get(checkpoint_id)) is not None:
        if line and node.version >= line[-1]:
            break  # a parent is older than its child, or somebody tampered with the ledger
        line.append(node.version)
        checkpoint_id = node.before
    return line
