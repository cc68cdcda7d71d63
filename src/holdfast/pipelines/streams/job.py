"""Everything the run of a stream needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.checkpoint import Checkpoints
from holdfast.clock import Clock
from holdfast.config.stream import StreamPipeline
from holdfast.ledger.records import Records
from holdfast.model import CheckpointEntry, Lease, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.errors import HoldfastError
    from holdfast.pipelines.streams.epochs import Epoch
    from holdfast.spark.session import SparkSession
    from holdfast.spark.sinks.contract import Sink
    from holdfast.spark.streaming.transforms import Transform


@dataclass(frozen=True)
class StreamJob:
    """One pipeline, one run of it."""

    name: str
    pipeline: StreamPipeline
    checkpoints: Checkpoints
    spark: SparkSession
    lease: Lease
    actor: str
    work: Path
    """Where Spark's own checkpoint directory is made."""
    spool_location: str
    log_path: Path | None = None
    stream: Callable[[SparkSession], Any] | None = None
    """Makes the streaming DataFrame, where the source is not in the configuration."""
    transforms: tuple[Transform, ...] = ()
    """Applied after those of the configuration."""
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    """Sinks that are there already, by name; the others are opened from the configuration."""

    @property
    def records(self) -> Records:
        """What the ledger remembers."""
        return self.checkpoints.records

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return self.lease.run_id

    @property
    def clock(self) -> Clock:
        """The ledger's clock, so that a run has one idea of the time."""
        return self.records.ledger.clock


class StreamProgress(Protocol):
    """Someone who is told how a stream goes on; called from several threads."""

    def started(self, pipeline: str, head: CheckpointEntry | None, notes: tuple[str, ...]) -> None:
        """It is known where the run starts from."""

    def committed(self, epoch: Epoch) -> None:
        """An epoch is done."""

    def waiting(self, waiting: Mapping[str, HoldfastError], seconds: float) -> None:
        """It cannot go on before something works again."""

    def stopping(self) -> None:
        """The batch in flight is finished, then the run ends."""


class StreamSilence:
    """Progress that nobody looks at."""

    def started(self, pipeline: str, head: CheckpointEntry | None, notes: tuple[str, ...]) -> None:
        """Say nothing."""

    def committed(self, epoch: Epoch) -> None:
        """Say nothing."""

    def waiting(self, waiting: Mapping[str, HoldfastError], seconds: float) -> None:
        """Say nothing."""

    def stopping(self) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class StreamResult:
    """A run of a stream that has ended."""

    run: Run
    epochs: int
    """Committed in this run."""
    rows: int
    """Delivered in this run, as far as the sinks could tell."""
    head: CheckpointEntry | None
    notes: tuple[str, ...] = ()
    """What a person should know about how it started or ended."""
