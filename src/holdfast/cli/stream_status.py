"""How a stream is doing, for people and for programs."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.cli import documents, stream_documents
from holdfast.cli.amounts import count, size
from holdfast.cli.tables import Cell, print_table
from holdfast.clock import describe_age, isoformat, utc_now
from holdfast.pipelines.streams.status import SinkStatus, StreamStatus

_STYLES = {
    "running": "cyan",
    "starting": "cyan",
    "stopping": "cyan",
    "waiting_for_sink": "yellow",
    "waiting_for_source": "yellow",
    "stopped": "green",
    "failed": "bold red",
    "died": "bold red",
}


def print_stream(out: Console, status: StreamStatus) -> None:
    """Show one stream: what it does, where it is, what it promises, and its sinks."""
    out.print(_headline(status), soft_wrap=True)
    for name, why in status.waiting.items():
        out.print(Text(f"  {name}: {why}", style="yellow"), soft_wrap=True)
    run = status.last_run
    if run is not None and run.failure is not None:
        out.print(Text(f"  {run.failure.message}", style="yellow"), soft_wrap=True)
        if run.failure.hint:
            hint = run.failure.hint.replace("\n", "\n  ")
            out.print(Text(f"  {hint}", style="cyan"), soft_wrap=True)
    out.print(f"  {_where(status)}", soft_wrap=True)
    out.print(f"  {_promise(status)}", soft_wrap=True)
    print_table(
        out,
        ("  sink", "at epoch", "behind", "waiting", "dropped", "guarantee", "look at"),
        [_row(sink) for sink in status.sinks],
        numbers=("at epoch", "behind"),
    )
    partial = run is not None and run.status == "partial"
    if status.state in ("failed", "died") or partial:
        out.print(Text(f"  holdfast run {status.pipeline}", style="cyan"))


def document(status: StreamStatus) -> dict[str, Any]:
    """One stream as JSON."""
    run, head = status.last_run, status.head
    return {
        "pipeline": status.pipeline,
        "state": status.state,
        "since": documents.moment(status.since),
        "waiting": dict(status.waiting),
        "retry_at": documents.moment(status.retry_at),
        "version": head.version if head else None,
        "epoch": head.epoch if head else None,
        "generation": head.generation if head else None,
        "checkpoint": stream_documents.entry(status.entry) if status.entry else None,
        "checkpoint_age_seconds": status.age.total_seconds() if status.age is not None else None,
        "unfinished_epoch": status.unfinished_epoch,
        "commit_policy": status.policy,
        "guarantee": status.guarantee,
        "at_least_once_sinks": list(status.repeating),
        "last_run": None
        if run is None
        else {
            "run_id": run.run_id,
            "status": run.status,
            "started_at": documents.moment(run.started_at),
            "finished_at": documents.moment(run.finished_at),
            "actor": run.actor,
            "failure": documents.failure(run.failure),
        },
        "sinks": [_sink_document(sink) for sink in status.sinks],
    }


def _headline(status: StreamStatus) -> Text:
    said = Text.assemble((status.pipeline, "bold"), ": ")
    if status.state == "never_run":
        return said.append("never run")
    word = status.state.replace("_", " ")
    if status.state == "waiting_for_sink" and status.waiting:
        word = f"waiting for sink {', '.join(status.waiting)}"
    said.append(word, style=_STYLES[status.state])
    if status.since is not None and status.last_run is not None:
        age = describe_age(utc_now() - status.since)
        said.append(f" {_when(status, age)} (run {status.last_run.run_id})")
    if status.retry_at is not None and status.waiting:
        said.append(f", next try at {isoformat(status.retry_at)}")
    return said


def _when(status: StreamStatus, age: str) -> str:
    if status.state == "died":
        return f"after it was started {age} ago"  # when it died nobody knows
    return f"{age} ago" if status.state in ("stopped", "failed") else f"for {age}"


def _where(status: StreamStatus) -> str:
    head = status.head
    if head is None:
        said = "no checkpoint yet"
    else:
        said = f"version {head.version}, epoch {head.epoch}, generation {head.generation}"
        if status.age is not None:
            said += f", checkpoint made {describe_age(status.age)} ago"
    if status.unfinished_epoch is not None and status.state not in ("running", "stopping"):
        said += f"; epoch {status.unfinished_epoch} was begun and is not committed"
    return said


def _promise(status: StreamStatus) -> str:
    said = f"commits when {status.policy} has the batch; "
    if not status.repeating:
        return said + "exactly once"
    return (
        said
        + f"at least once to {', '.join(status.repeating)}"
        + (", exactly once to the others" if len(status.repeating) < len(status.sinks) else "")
    )


def _row(sink: SinkStatus) -> tuple[Cell, ...]:
    at = sink.position
    waiting = sink.spooled_batches
    remarks = [] if sink.required else ["optional"]
    if sink.untold:
        remarks.append("roll-back not told yet")
    if sink.error:
        remarks.append(sink.error)
    return (
        f"  {sink.name}",
        str(at.delivered.epoch) if at and at.delivered else "",
        count(sink.behind, "epoch") if sink.behind else "",
        f"{count(waiting, 'batch', 'batches')}, {size(sink.spooled_bytes)}" if waiting else "",
        f"{at.dropped_count:,}" if at and at.dropped_count else "",
        sink.guarantee.replace("_", " "),
        Text(", ".join(remarks), style="yellow" if sink.error or sink.untold else "dim"),
    )


def _sink_document(sink: SinkStatus) -> dict[str, Any]:
    at = sink.position
    return {
        "sink": sink.name,
        "required": sink.required,
        "guarantee": sink.guarantee,
        "delivered": stream_documents.token(at.delivered if at else None),
        "behind_epochs": sink.behind,
        "spool_batches": sink.spooled_batches,
        "spool_bytes": sink.spooled_bytes,
        "dropped_count": at.dropped_count if at else 0,
        "roll_back_untold": sink.untold,
        "error": sink.error,
    }
