"""What a checkpoint of one operator partition consists of: immutable files, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from holdfast.errors import StateDamaged, StateFormatMismatch, StateMismatch
from holdfast.state.columns import Bools, Int32s
from holdfast.state.schema import TableSchema

FORMAT: Final = 1
"""The version of the description of a snapshot."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One of the `count` parts that an operator's keys are split over."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise StateMismatch(
                f"There is no partition {self.index} of {self.count}.",
                hint="Partitions are numbered from 0.",
            )

    def owns(self, partition_hashes: Int32s) -> Bools:
        """Say which keys live here: `pmod(hash, count) == index`, as Spark's shuffle does."""
        if self.count & (self.count - 1) == 0:
            return np.asarray(partition_hashes & (self.count - 1) == self.index, np.bool_)
        return np.asarray(np.mod(partition_hashes, np.int32(self.count)) == self.index, np.bool_)

    def shares_keys_with(self, other: Partition) -> bool:
        """Say whether some key can belong to both, each under its own count."""
        return (self.index - other.index) % gcd(self.count, other.count) == 0

    def __str__(self) -> str:
        return f"{self.index} of {self.count}"


@dataclass(frozen=True, slots=True)
class StateFile:
    """One immutable file of a snapshot."""

    name: str
    """Relative to the directory of the operator; never given to other content."""
    bytes: int
    checksum: str
    """xxh3-128 of the whole file, in hexadecimal."""
    table: str = ""
    """The table whose rows it holds; empty if it is not of one table."""
    rows: int = 0
    """Deletions included; 0 where the backend does not count."""
    role: str = ""
    """What the backend uses it for."""
    footer: str = ""
    """Of a run: xxh3_64 of its footer, so that opening it need not read it whole."""


@dataclass(frozen=True)
class Snapshot:
    """The state of one operator partition at the end of one epoch."""

    backend: str
    epoch: int
    partition: Partition
    tables: tuple[TableSchema, ...]
    files: tuple[StateFile, ...]
    """Everything needed to open the state, in the order in which the backend reads it."""
    new: frozenset[str] = frozenset()
    """The names of the files that the snapshot before it did not have."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the backend needs besides; values that JSON can hold."""

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.bytes for file in self.files)

    @property
    def new_bytes(self) -> int:
        """The size of its new files: what a checkpoint costs."""
        return sum(file.bytes for file in self.files if file.name in self.new)

    def table(self, name: str) -> TableSchema | None:
        """Return the declaration of a table, if the snapshot has it."""
        return next((table for table in self.tables if table.name == name), None)

    def document(self) -> dict[str, Any]:
        """Return this description as JSON can hold it."""
        return {
            "format": FORMAT,
            "backend": self.backend,
            "epoch": self.epoch,
            "partition": [self.partition.index, self.partition.count],
            "tables": [table.document() for table in self.tables],
            "files": [
                {
                    "name": file.name,
                    "bytes": file.bytes,
                    "checksum": file.checksum,
                    "table": file.table,
                    "rows": file.rows,
                    "role": file.role,
                    "footer": file.footer,
                }
                for file in self.files
            ],
            "new": sorted(self.new),
            "details": dict(self.details),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read what `document` wrote."""
        if document.get("format") != FORMAT:
            raise StateFormatMismatch(
                f"A snapshot of keyed state has format {document.get('format')!r}; "
                f"this version reads format {FORMAT}.",
                hint="Open it with the version of Holdfast that wrote it.",
            )
        try:
            return cls(
                backend=str(document["backend"]),
                epoch=int(document["epoch"]),
                partition=Partition(*document["partition"]),
                tables=tuple(TableSchema.from_document(table) for table in document["tables"]),
                files=tuple(StateFile(**file) for file in document["files"]),
                new=frozenset(document["new"]),
                details=dict(document["details"]),
            )
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise StateDamaged(
                f"The description of a snapshot cannot be read: {type(error).__name__}: {error}.",
                hint="Give the document as it was written, or another checkpoint.",
            ) from error


def sources(snapshots: Sequence[Snapshot], partition: Partition) -> tuple[Snapshot, ...]:
    """Return the snapshots of one epoch that hold keys of a partition.

    They may have been written under another count; then several of them may hold its keys.
    """
    if not snapshots:
        return ()
    epochs = {snapshot.epoch for snapshot in snapshots}
    counts = {snapshot.partition.count for snapshot in snapshots}
    if len(epochs) > 1 or len(counts) > 1:
        raise StateMismatch(
            f"Snapshots of different epochs {sorted(epochs)} or of different numbers of "
            f"partitions {sorted(counts)} do not make up one state.",
            hint="Open a partition with the snapshots of one checkpoint.",
        )
    wanted = [Partition(index, *counts) for index in range(*counts)]
    wanted = [one for one in wanted if partition.shares_keys_with(one)]
    if partition.count in counts:
        wanted = [partition]
    by_partition = {snapshot.partition: snapshot for snapshot in snapshots}
    missing = [one for one in wanted if one not in by_partition]
    if missing:
        raise StateMismatch(
            f"The snapshot of partition {missing[0]} at epoch {min(epochs)} was not given, "
            f"and partition {partition} may have keys in it.",
            hint="Give the snapshots of all partitions of the checkpoint.",
        )
    return tuple(by_partition[one] for one in wanted)
