"""The JSON documents of streams and their checkpoints, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.cli.documents import failure, moment
from holdfast.model import (
    BatchSchema,
    Checkpoint,
    CheckpointEntry,
    Pin,
    RollBack,
    SchemaEntry,
    SinkPosition,
    StoredFile,
    Token,
    Waiting,
)

if TYPE_CHECKING:
    from holdfast.checkpoint import Difference, Removed, Repair, Verification
    from holdfast.pipelines.streams.job import StreamResult
    from holdfast.pipelines.streams.versions import RolledBack, VersionLine


def entry(value: CheckpointEntry) -> dict[str, Any]:
    """A checkpoint as the ledger knows it."""
    return {
        "version": value.version,
        "checkpoint_id": value.checkpoint_id,
        "epoch": value.epoch,
        "generation": value.generation,
        "parent": value.parent,
        "created_at": moment(value.created_at),
        "rows": value.rows,
        "bytes": value.bytes,
    }


def version(value: VersionLine) -> dict[str, Any]:
    """A checkpoint as a list shows it."""
    return {
        **entry(value.entry),
        "head": value.head,
        "abandoned": not value.on_line,
        "kept": pin(value.pin),
    }


def pin(value: Pin | None) -> dict[str, Any] | None:
    """Why a checkpoint is kept on purpose, or null."""
    if value is None:
        return None
    return {
        "version": value.version,
        "checkpoint_id": value.checkpoint_id,
        "note": value.note,
        "actor": value.actor,
        "created_at": moment(value.created_at),
    }


def token(value: Token | None) -> dict[str, int] | None:
    """The name of a batch, or null."""
    return None if value is None else {"generation": value.generation, "epoch": value.epoch}


def sink(value: SinkPosition | None) -> dict[str, Any] | None:
    """How far a sink got, or null."""
    if value is None:
        return None
    return {
        "guarantee": value.guarantee,
        "delivered": token(value.delivered),
        "spool": spooled(value.waiting),
        "dropped": [token(missed) for missed in value.dropped],
        "dropped_count": value.dropped_count,
    }


def spooled(value: Waiting | None) -> dict[str, Any] | None:
    """What waits for a sink, or null."""
    if value is None:
        return None
    return {
        "batches": value.batches,
        "bytes": value.bytes,
        "first": token(value.first),
        "last": token(value.last),
        "since": moment(value.since),
    }


def file(value: StoredFile) -> dict[str, Any]:
    """A file of a checkpoint."""
    return {"key": value.key, "bytes": value.bytes, "checksum": value.checksum}


def columns(schema: str) -> list[dict[str, Any]]:
    """The columns of a schema, as SQL names their types."""
    from holdfast.checkpoint import type_name

    return [
        {
            "name": field["name"],
            "type": type_name(field["type"]),
            "nullable": bool(field.get("nullable", True)),
        }
        for field in json.loads(schema)["fields"]
    ]


def batch_schema(value: BatchSchema) -> dict[str, Any]:
    """The columns a batch had."""
    return {"fingerprint": value.fingerprint, "columns": columns(value.schema)}


def schema_entry(value: SchemaEntry) -> dict[str, Any]:
    """A schema and since when it is there."""
    return {
        "name": value.name,
        "fingerprint": value.fingerprint,
        "since": {
            "version": value.version,
            "checkpoint_id": value.checkpoint_id,
            "epoch": value.epoch,
            "generation": value.generation,
            "seen_at": moment(value.seen_at),
        },
        "changes": list(value.changes),
    }


def checkpoint(line: VersionLine, value: Checkpoint) -> dict[str, Any]:
    """One checkpoint in full."""
    return {
        **version(line),
        "run_id": value.run_id,
        "event_time": moment(value.event_time),
        "positions": [
            {"source": each.source, "start": each.start, "end": each.end}
            for each in value.positions
        ],
        "schemas": {name: batch_schema(schema) for name, schema in value.schemas.items()},
        "sinks": {name: sink(position) for name, position in value.sinks.items()},
        "operators": [
            {
                "name": operator.name,
                "partitions": len(operator.partitions),
                "files": [file(each) for each in operator.files],
            }
            for operator in value.operators
        ],
        "manifest": file(line.entry.manifest),
        "files": [file(each) for each in value.files],
    }


def difference(value: Difference) -> dict[str, Any]:
    """What moved between two checkpoints."""
    return {
        "epochs": value.epochs,
        "rows": value.rows,
        "same_source": value.same_source,
        "positions": [
            {"source": move.source, "before": move.before, "after": move.after}
            for move in value.positions
        ],
        "schemas": {name: list(changes) for name, changes in value.schemas.items()},
        "operators": [
            {
                "name": moved.operator,
                "added_files": moved.added,
                "added_bytes": moved.added_bytes,
                "removed_files": moved.removed,
                "removed_bytes": moved.removed_bytes,
            }
            for moved in value.state
        ],
        "sinks": {
            move.sink: {"before": sink(move.before), "after": sink(move.after)}
            for move in value.sinks
        },
    }


def roll_back(value: RollBack) -> dict[str, Any]:
    """A roll-back as it is kept for audit."""
    return {
        "from": {"version": value.from_version, "checkpoint_id": value.from_checkpoint},
        "to": {"version": value.to_version, "checkpoint_id": value.to_checkpoint},
        "epoch": value.to.epoch,
        "generation": value.to.generation,
        "actor": value.actor,
        "note": value.note,
        "at": moment(value.at),
        "effects": dict(value.effects),
    }


def rolled_back(value: RolledBack) -> dict[str, Any]:
    """What a roll-back did, and which sinks have still to be told."""
    return {**roll_back(value.record), "untold": errors(value.untold)}


def errors(value: Mapping[str, Any]) -> dict[str, Any]:
    """Errors by name."""
    return {
        name: {"error": type(error).__name__, "message": error.message, "hint": error.hint}
        for name, error in value.items()
    }


def verification(value: Verification) -> dict[str, Any]:
    """How one checkpoint stands."""
    return {
        "version": value.entry.version,
        "checkpoint_id": value.entry.checkpoint_id,
        "whole": value.whole,
        "files": value.files,
        "bytes": value.bytes,
        "findings": [{"file": key, "problem": problem} for key, problem in value.findings],
    }


def repair(value: Repair) -> dict[str, Any]:
    """What a repair did and what it could not."""
    return {
        "done": list(value.done),
        "problems": list(value.problems),
        "head": None if value.head is None else entry(value.head),
        "newest_whole": None if value.newest_whole is None else entry(value.newest_whole),
    }


def removed(value: Removed) -> dict[str, Any]:
    """What was taken away, or would be."""
    return {"files": list(value.files), "bytes": value.bytes}


def stream_run(value: StreamResult, *, stopped: bool) -> dict[str, Any]:
    """A run of a stream."""
    run = value.run
    return {
        "run_id": run.run_id,
        "pipeline": run.pipeline,
        "status": run.status,
        "stopped": stopped,
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "actor": run.actor,
        "generation": run.generation,
        "epochs": value.epochs,
        "rows": value.rows,
        "head": None if value.head is None else entry(value.head),
        "notes": list(value.notes),
        "failure": failure(run.failure),
    }
