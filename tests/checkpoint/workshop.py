"""A pipeline whose checkpoints are made up, and the doors to what is stored of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from uuid_utils import uuid7

from holdfast.checkpoint import Checkpoints
from holdfast.ledger import Ledger
from holdfast.ledger.records import Records
from holdfast.model import (
    BatchSchema,
    Checkpoint,
    CheckpointEntry,
    Head,
    Intent,
    OperatorState,
    SinkPosition,
    SourcePosition,
    SparkLog,
    StoredFile,
    Token,
)
from holdfast.objects import ObjectStore

PIPELINE = "payments"
START = datetime(2025, 3, 15, 14, 30, tzinfo=UTC)


def schema(**columns: str) -> BatchSchema:
    """Return the schema of a batch with these columns."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    return BatchSchema(f"{zlib.crc32(text.encode()):08x}", text)


PAYMENT = schema(merchant="string", paise="long")


@dataclass
class Workshop:
    """One pipeline and its clock."""

    ledger: Ledger
    objects: ObjectStore
    pipeline: str = PIPELINE
    now: datetime = START
    generation: int = 0
    run: int = 0
    checkpoints: Checkpoints = field(init=False)

    def __post_init__(self) -> None:
        self.ledger.clock = lambda: self.now
        self.reopen()

    def reopen(self) -> Checkpoints:
        """Look at the checkpoints anew, as another process would."""
        self.records = Records(self.ledger)
        self.checkpoints = Checkpoints(self.pipeline, self.records, self.objects)
        return self.checkpoints

    def activate(self) -> int:
        """Take the pipeline over under the next generation."""
        self.run += 1
        lease = self.records.leases.acquire(self.pipeline, f"{self.pipeline}-run-{self.run}")
        self.generation = lease.generation
        self.records.leases.release(self.pipeline, lease)
        return self.generation

    def sleep(self, **duration: float) -> None:
        """Let time pass."""
        self.now += timedelta(**duration)

    def make(
        self,
        expect: Head | None,
        *,
        carried: tuple[StoredFile, ...] = (),
        schemas: Mapping[str, BatchSchema] | None = None,
        sinks: Mapping[str, SinkPosition] | None = None,
        rows: int | None = 10,
        **fields: Any,
    ) -> Checkpoint:
        """Store the files of the next epoch and return its checkpoint, not committed."""
        epoch = expect.epoch + 1 if expect else 0
        checkpoint_id = str(uuid7())
        token = Token(self.pipeline, self.generation, epoch)
        files = f"{self.pipeline}/files/{checkpoint_id}"
        log = self.objects.store(f"{files}-sources-0-{epoch}", b"v1\nlog %d" % epoch)
        state = self.objects.store(f"{files}-state.run", b"state %d " % epoch * 20)
        values: dict[str, Any] = {
            "checkpoint_id": checkpoint_id,
            "pipeline": self.pipeline,
            "version": self.checkpoints.next_version(expect),
            "epoch": epoch,
            "generation": self.generation,
            "parent": expect.checkpoint_id if expect else None,
            "created_at": self.now,
            "run_id": "run",
            "rows": rows,
            "positions": (
                SourcePosition("events", {"logOffset": epoch - 1}, {"logOffset": epoch}),
            ),
            "spark": SparkLog({f"offsets/{epoch}": "v1\n{}\n"}, {f"sources/0/{epoch}": log}),
            "source": "digest",
            "schemas": {"input": PAYMENT} if schemas is None else dict(schemas),
            "sinks": {"lake": SinkPosition("exactly_once", token)} if sinks is None else sinks,
            "operators": (OperatorState("totals", ({"partition": 0},), (*carried, state)),),
        }
        return Checkpoint(**(values | fields))

    def commit(self, **options: Any) -> CheckpointEntry:
        """Run one epoch."""
        head = self.checkpoints.head()
        made = self.make(head, **options)
        return self.checkpoints.commit(made, generation=self.generation, expect=head)

    def commits(self, count: int, **options: Any) -> list[CheckpointEntry]:
        """Run some epochs."""
        return [self.commit(**options) for _ in range(count)]

    def intent(self, files: tuple[StoredFile, ...] = ()) -> Intent:
        """Return the intent of the next epoch."""
        head = self.checkpoints.head()
        return Intent(
            token=Token(self.pipeline, self.generation, head.epoch + 1 if head else 0),
            run_id="run",
            created_at=self.now,
            parent=head.checkpoint_id if head else None,
            positions=(),
            spark=SparkLog({}, {file.key: file for file in files}),
            source="digest",
        )

    def roll_back(self, to: CheckpointEntry, *sinks: str, **options: Any) -> None:
        """Roll back under a new generation."""
        self.activate()
        self.checkpoints.roll_back(
            to, generation=self.generation, actor="me", note="a test", sinks=sinks, **options
        )

    def files(self) -> set[str]:
        """Every file in the location."""
        return {info.key for info in self.objects.list(f"{self.pipeline}/")}


def named(entry: CheckpointEntry) -> set[str]:
    """Every file that a checkpoint needs, its manifest included."""
    return {entry.manifest.key, *(file.key for file in entry.files)}


def path_of(workshop: Workshop, key: str) -> Path:
    """Where a local location keeps a file."""
    return Path(workshop.objects.location, key)
