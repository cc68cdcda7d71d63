"""What is remembered of a replicated table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.model.batch import Batch
from holdfast.model.position import Position

Contents = Literal["absent", "empty", "ours", "foreign"]
"""What is at a target; `foreign`: files that no batch of Holdfast's accounts for."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a pipeline: where it is read, where it is written, how it is called."""

    pipeline: str
    source: str
    """As the source knows it: `orders` or `src__acme__eu__shop.orders`."""
    target: str
    """As the target knows it; the same unless discovery renames the schema."""

    @property
    def key(self) -> str:
        """The fully qualified name under which the ledger remembers it."""
        return f"{self.pipeline}.{self.target}"

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class Watermark:
    """One step in a table's history; the newest says where the next run starts."""

    position: Position | None
    """`None`: the next run copies the whole source and replaces the target."""
    updated_at: datetime
    cause: Literal["run", "set", "rewind", "delete"]
    actor: str
    run_id: str | None = None
    batch: Batch | None = None
    """The batch that moved it here, for `cause == "run"`."""
    rows: int = 0
    late_rows: str = ""
    """See `BatchManifest.late_rows`."""
    retire: tuple[str, ...] = ()
    """Batches past a rewound position, which the next batch replaces."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows a source had at one moment."""

    count: int
    at: datetime
    run_id: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a target, as Spark writes a schema in JSON, and since which batch."""

    schema: str
    batch_id: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns of a source made of Parquet files, and the kinds of files that gave them."""

    schema: str
    kinds: tuple[str, ...]
