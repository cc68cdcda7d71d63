"""One epoch: intent, compute, deliver, decide, commit.

    1 intent     what will be read is durable before the first row is
    2 compute    the rows, once
    3 deliver    to every sink, side by side, under the token of the intent
    4 decide     the commit policy over the set of sinks that acknowledged
    5 commit     files, manifest, then the ledger's head: the one atomic point
    6 after      what is no longer needed is removed

Killed before 5, the epoch runs again under the same token and with the same rows. Killed after
it, the next one follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.checkpoint import Checkpoints
from holdfast.config.stream import OnSchemaChange, Retention
from holdfast.errors import CheckpointError, HoldfastError, LeaseLost
from holdfast.failpoints import reach
from holdfast.model import (
    BatchSchema,
    Checkpoint,
    CheckpointEntry,
    Head,
    Intent,
    StoredFile,
    Token,
)
from holdfast.pipelines.identity import new_id
from holdfast.pipelines.streams.delivering import Deliveries
from holdfast.pipelines.streams.schemas import examine
from holdfast.pipelines.streams.starting import open_intent
from holdfast.spark.sinks.contract import Delivery
from holdfast.spark.streaming.gate import Gate
from holdfast.spark.streaming.offsets import positions, read_offsets
from holdfast.spark.streaming.results import Results
from holdfast.spark.streaming.schemas import batch_schema
from holdfast.spark.streaming.scratch import Scratch
from holdfast.spark.streaming.transforms import Transform

if TYPE_CHECKING:
    from holdfast.spark.session import DataFrame

STEPS: Final = (
    "stream.begun",  # Spark has decided what to read
    "stream.intended",  # so has the ledger
    "stream.computed",  # the batch is ready, no sink has seen it
    "stream.delivered",  # to one of the sinks
    "stream.decided",  # enough sinks have it
    "commit.manifest",  # its files are durable
    "commit.ledger",  # so is its manifest
    "commit.done",  # the head has moved
    "stream.after",  # what is no longer needed has been removed
)
"""The steps a crash test can end a process at."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """A committed epoch, for whoever watches."""

    entry: CheckpointEntry
    seconds: float
    commit_seconds: float
    put_off: tuple[str, ...]
    """The sinks that get it later."""


Watcher = Callable[[Epoch], None]


@dataclass(frozen=True)
class EpochSettings:
    """What does not change while a pipeline runs."""

    pipeline: str
    run_id: str
    generation: int
    source: str
    """The digest of the source."""
    source_names: tuple[str, ...]
    transforms: str
    """The digest of what is done to the rows."""
    retain: Retention
    on_schema_change: OnSchemaChange


class Epochs:
    """Runs the epochs of one pipeline, one after the other."""

    def __init__(
        self,
        settings: EpochSettings,
        checkpoints: Checkpoints,
        scratch: Scratch,
        deliveries: Deliveries,
        transform: Transform,
        gate: Gate,
        *,
        watch: Watcher,
        begun: Callable[[], None],
        trouble: Callable[[HoldfastError], None],
    ) -> None:
        self._settings = settings
        self._checkpoints = checkpoints
        self._scratch = scratch
        self._deliveries = deliveries
        self._transform = transform
        self._gate = gate
        self._watch = watch
        self._begun = begun
        self._trouble = trouble
        self._head: Head | None = None
        self._last: Checkpoint | None = None

    def start_from(self, head: Head | None, last: Checkpoint | None) -> None:
        """Go on after a checkpoint."""
        self._head, self._last = head, last

    @property
    def head(self) -> Head | None:
        """Where the pipeline is."""
        return self._head

    @property
    def last(self) -> Checkpoint | None:
        """The checkpoint that was committed last."""
        return self._last

    def run(self, frame: DataFrame, epoch: int) -> None:
        """Take a micro-batch from Spark's hands to a committed checkpoint."""
        with self._gate.entered():
            self._refuse_out_of_turn(epoch)
            started = time.monotonic()
            self._begun()
            reach("stream.begun", self._settings.pipeline)
            intent = self._intend(epoch)
            reach("stream.intended", self._settings.pipeline)
            self._run(frame, intent, started)
            reach("stream.after", self._settings.pipeline)

    def _refuse_out_of_turn(self, epoch: int) -> None:
        expected = 0 if self._head is None else self._head.epoch + 1
        if epoch != expected:
            raise CheckpointError(
                f"{self._settings.pipeline}: Spark began epoch {epoch} where epoch {expected} is "
                "next.",
                hint=f"Start the pipeline again: holdfast run {self._settings.pipeline}",
            )

    def _run(self, frame: DataFrame, intent: Intent, started: float) -> None:
        settings = self._settings
        what = f"{settings.pipeline}, epoch {intent.token.epoch}"
        schemas = {"input": batch_schema(frame.schema)}
        result = self._transform(frame)
        output = result.schema
        schemas["output"] = batch_schema(output)
        before = self._last.schemas if self._last is not None else {}
        changes = examine(settings.pipeline, before, schemas, settings.on_schema_change)
        outlets = self._deliveries.outlets
        with Results(result, what=what, readers=len(outlets)) as results:
            reach("stream.computed", settings.pipeline)
            delivery = Delivery(intent.token, results.frame, output)
            done = self._deliveries.deliver(delivery, results.rows, results.keep)
            reach("stream.decided", settings.pipeline)
            committing = time.monotonic()
            checkpoint = self._checkpoint(intent, done.rows, schemas)
            entry = self._checkpoints.commit(
                checkpoint, generation=settings.generation, expect=self._head, changes=changes
            )
            committed = time.monotonic()
        self._head, self._last = self._checkpoints.head(), checkpoint
        self._after()
        put_off = tuple(o.name for o in outlets if o.name not in done.acknowledged)
        self._watch(Epoch(entry, committed - started, committed - committing, put_off))

    def _intend(self, epoch: int) -> Intent:
        settings = self._settings
        before = self._last
        known = open_intent(self._checkpoints, before)
        if known is not None and known.token.epoch == epoch:
            if known.spark.entries[f"offsets/{epoch}"] != self._scratch.offsets(epoch):
                raise CheckpointError(
                    f"{settings.pipeline}: epoch {epoch} was begun with other rows than Spark has "
                    "for it now.",
                    hint=f"Start the pipeline again: holdfast run {settings.pipeline}",
                )
            return known  # under its old token: some sinks may have it
        log = self._scratch.capture(epoch, before.spark if before else None, self._store(epoch))
        place = f"offsets/{epoch}"
        start = tuple(p.end for p in before.positions) if before is not None else ()
        end = read_offsets(log.entries[place], place=place)
        intent = Intent(
            token=Token(settings.pipeline, settings.generation, epoch, new_id()),
            run_id=settings.run_id,
            created_at=self._checkpoints.records.ledger.clock(),
            parent=before.checkpoint_id if before is not None else None,
            positions=positions(settings.source_names, start, end),
            spark=log,
            source=settings.source,
            transforms=settings.transforms,
        )
        self._checkpoints.intend(intent, generation=settings.generation)
        return intent

    def _store(self, epoch: int) -> Callable[[str, bytes], StoredFile]:
        def store(path: str, content: bytes) -> StoredFile:
            name = path.replace("/", ".")
            pipeline, run_id = self._settings.pipeline, self._settings.run_id
            key = f"{pipeline}/files/{epoch:012d}-{run_id}-{name}"
            return self._checkpoints.objects.store(key, content)

        return store

    def _checkpoint(
        self, intent: Intent, rows: int | None, schemas: dict[str, BatchSchema]
    ) -> Checkpoint:
        epoch = intent.token.epoch
        return Checkpoint(
            checkpoint_id=new_id(),
            pipeline=self._settings.pipeline,
            version=self._checkpoints.next_version(self._head),
            epoch=epoch,
            generation=intent.token.generation,
            parent=self._last.checkpoint_id if self._last is not None else None,
            created_at=self._checkpoints.records.ledger.clock(),
            run_id=self._settings.run_id,
            rows=rows,
            positions=intent.positions,
            spark=self._scratch.committed(intent.spark, epoch),
            source=self._settings.source,
            schemas=schemas,
            sinks={outlet.name: outlet.position for outlet in self._deliveries.outlets},
        )

    def _after(self) -> None:
        """Remove old checkpoints; that one cannot be removed is told, but no reason to stop."""
        retain = self._settings.retain
        try:
            self._checkpoints.retain(
                min_count=retain.min_count,
                min_age=retain.min_age,
                generation=self._settings.generation,
            )
        except LeaseLost:
            raise
        except HoldfastError as error:
            self._trouble(error)
