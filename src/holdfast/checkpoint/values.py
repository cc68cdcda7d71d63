"""What the operations on checkpoints answer."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model import Checkpoint, CheckpointEntry


@dataclass(frozen=True, slots=True)
class Restored:
    """What a run starts from."""

    checkpoint: Checkpoint
    entry: CheckpointEntry
    notes: tuple[str, ...] = ()
    """What was wrong and what was done about it, as sentences."""
    fell_back_from: CheckpointEntry | None = None
    """The head, if it is damaged and this is an older version: roll back to it before going on."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What retention or garbage collection took away."""

    versions: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    """Keys in the checkpoint location, manifests included."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Verification:
    """How one checkpoint stands, read whole."""

    entry: CheckpointEntry
    files: int
    """How many were looked at, its manifest included."""
    bytes: int
    findings: tuple[tuple[str, str], ...] = ()
    """A file's key and what is wrong with it."""

    @property
    def whole(self) -> bool:
        """Whether a run can start from it."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did and what it could not."""

    done: tuple[str, ...] = ()
    """Every change, as a sentence."""
    problems: tuple[str, ...] = ()
    """What is still wrong, as sentences."""
    head: CheckpointEntry | None = None
    """Where the pipeline is now."""
    newest_whole: CheckpointEntry | None = None
    """The newest checkpoint on the line that a run can start from."""
