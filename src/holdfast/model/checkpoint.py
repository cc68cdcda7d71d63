"""A checkpoint: everything a stream pipeline knows after one epoch, immutable and versioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from holdfast.model.token import Token

CHECKPOINT_FORMAT: Final = 1

Guarantee = Literal["exactly_once", "at_least_once"]
"""How often a row reaches a sink, however often the process is killed."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An immutable file in the checkpoint location, and how to tell that it is unharmed."""

    key: str
    bytes: int
    checksum: str
    """xxh3-128 of its content, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """How far a source was read in one epoch: from `start`, exclusive, to `end`, inclusive."""

    source: str
    """As the pipeline names it; sources are in the order of Spark's plan."""
    start: Any
    """The source's own offset, as JSON; `None` before the first epoch."""
    end: Any


@dataclass(frozen=True, slots=True)
class SparkLog:
    """The entries of Spark's checkpoint directory from which an epoch can be run, or gone on from.

    With them an empty directory becomes one in which Spark continues exactly here.
    """

    entries: dict[str, str]
    """Small files by their path, such as `metadata`, `offsets/6`, `offsets/7`, `commits/7`."""
    files: dict[str, StoredFile]
    """The logs of the sources by their path, such as `sources/0/9.compact`."""


@dataclass(frozen=True, slots=True)
class BatchSchema:
    """The columns of a batch, as Spark writes a schema in JSON."""

    fingerprint: str
    schema: str


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A batch that waits for its sink."""

    token: Token
    place: str
    """The directory of its rows."""
    rows: int | None
    bytes: int
    spooled_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a sink, in short: the batches themselves are in the directory of its spool.

    A checkpoint costs the same whether one batch waits or a thousand.
    """

    batches: int
    bytes: int
    first: Token
    last: Token
    """No batch of a later epoch counts, should there be one in the directory."""
    since: datetime

    def up_to(self, epoch: int) -> Waiting | None:
        """What is left of it without the batches after an epoch."""
        if epoch < self.first.epoch:
            return None
        if epoch >= self.last.epoch:
            return self
        batches = min(self.batches, epoch - self.first.epoch + 1)
        last = Token(self.last.pipeline, self.last.generation, epoch)
        share = self.bytes * batches // self.batches
        return Waiting(batches, share, self.first, last, self.since)


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """How far one sink got. It only ever advances over batches it took or was told to miss."""

    guarantee: Guarantee
    delivered: Token | None
    """The last batch it has; everything before it was taken too, or is counted as dropped."""
    waiting: Waiting | None = None
    """Batches in its spool, which come after it."""
    dropped: tuple[Token, ...] = ()
    """The last batches it was made to miss, oldest first."""
    dropped_count: int = 0


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The keyed state of one operator: one document per partition, and the files they name."""

    name: str
    partitions: tuple[dict[str, Any], ...]
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One version of a pipeline."""

    checkpoint_id: str
    pipeline: str
    version: int
    """Numbered by the ledger from 1; never used twice, not even after a roll-back."""
    epoch: int
    generation: int
    """That of the token its batch was delivered under."""
    parent: str | None
    """The id of the checkpoint it continues."""
    created_at: datetime
    run_id: str
    rows: int | None
    """Rows delivered in this epoch; `None` if no sink could tell."""
    positions: tuple[SourcePosition, ...]
    spark: SparkLog
    source: str
    """A digest of which source was read; offsets of one source mean nothing to another."""
    schemas: dict[str, BatchSchema]
    """`input`: as the source gave it; `output`: as the sinks got it."""
    sinks: dict[str, SinkPosition]
    operators: tuple[OperatorState, ...] = ()
    event_time: datetime | None = None
    """How far event time got."""
    format: int = CHECKPOINT_FORMAT

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """Every file it needs, beside its manifest."""
        state = [file for operator in self.operators for file in operator.files]
        return (*self.spark.files.values(), *state)

    @property
    def token(self) -> Token:
        """The name under which its batch was delivered."""
        return Token(self.pipeline, self.generation, self.epoch)


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """What the ledger remembers of a checkpoint; the rest is in its manifest."""

    checkpoint_id: str
    version: int
    epoch: int
    generation: int
    parent: str | None
    created_at: datetime
    rows: int | None
    manifest: StoredFile
    files: tuple[StoredFile, ...]
    schemas: dict[str, str] = field(default_factory=dict)
    """Fingerprints by name."""

    @property
    def bytes(self) -> int:
        """What it takes, files it shares with others included."""
        return self.manifest.bytes + sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a pipeline is now. Moving it is the one atomic point of an epoch."""

    checkpoint_id: str
    version: int
    epoch: int
    generation: int
    """Of the process that moved it; grows with every activation and roll-back."""
    moved_at: datetime
    newest_version: int
    """The highest version ever given; after a roll-back it is past `version`."""
    cause: Literal["epoch", "rollback", "repair"] = "epoch"


@dataclass(frozen=True, slots=True)
class Intent:
    """The epoch that is about to run, durable before its first row is read."""

    token: Token
    run_id: str
    created_at: datetime
    parent: str | None
    """The head checkpoint it was made from."""
    positions: tuple[SourcePosition, ...]
    spark: SparkLog
    source: str
    transforms: str = ""
    """A digest of what is done to the rows; with another one the same token means other rows."""


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema and the checkpoint at which it was first seen."""

    name: str
    """`input` or `output`."""
    fingerprint: str
    schema: str
    checkpoint_id: str
    version: int
    epoch: int
    generation: int
    seen_at: datetime
    changes: tuple[str, ...] = ()
    """How it differs from the one before it, as sentences."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A checkpoint that retention must leave alone."""

    version: int
    checkpoint_id: str
    note: str
    actor: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RollBack:
    """One roll-back, kept for audit; `open_sinks` have still to be told."""

    pipeline: str
    from_checkpoint: str
    from_version: int
    to_checkpoint: str
    to_version: int
    to: Token
    """What the sinks are told: everything past it in older generations never was."""
    actor: str
    note: str
    at: datetime
    open_sinks: tuple[str, ...] = ()
    effects: dict[str, str] = field(default_factory=dict)
    """What each sink said it did."""
