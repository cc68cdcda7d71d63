"""How every stream is doing, from the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from holdfast.checkpoint.line import version_key
from holdfast.config import Config
from holdfast.config.sinks import ConsoleSink, HttpSink, PythonSink, SinkConfig
from holdfast.config.stream import StreamPipeline
from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import (
    CheckpointEntry,
    Guarantee,
    Head,
    Live,
    LiveState,
    Run,
    SinkPosition,
)
from holdfast.pipelines.streams.policy import Policy

StreamState = LiveState | Literal["never_run", "stopped", "failed", "died"]


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """Where one sink stands."""

    name: str
    required: bool
    guarantee: Guarantee
    position: SinkPosition | None
    """`None` before its first batch."""
    behind: int | None
    """How many epochs of the head it does not have yet; `None` if it has never had a turn."""
    untold: bool
    """Whether it has still to hear of a roll-back."""
    error: str | None
    """Why it failed the last time it was tried in the last run; `None` if it did not."""

    @property
    def spooled_bytes(self) -> int:
        """How much waits for it."""
        waiting = self.position.waiting if self.position else None
        return waiting.bytes if waiting else 0

    @property
    def spooled_batches(self) -> int:
        """How many batches wait for it."""
        waiting = self.position.waiting if self.position else None
        return waiting.batches if waiting else 0


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """One stream with its last run, its newest checkpoint and its sinks."""

    pipeline: str
    state: StreamState
    since: datetime | None
    """Since when it is in this state."""
    waiting: dict[str, str]
    """What it waits for this moment, by sink, or `source`, and why."""
    retry_at: datetime | None
    last_run: Run | None
    """Its status is `died` if the process is gone without having said how it ended."""
    head: Head | None
    entry: CheckpointEntry | None
    """The newest checkpoint; `None` before the first, or if the ledger has lost it."""
    age: timedelta | None
    """How long ago the newest checkpoint was made."""
    unfinished_epoch: int | None
    """An epoch that was begun and not committed."""
    policy: str
    """What a commit waits for, in words."""
    sinks: tuple[SinkStatus, ...]

    @property
    def guarantee(self) -> Guarantee:
        """How often a row reaches every sink: as often as the weakest of them promises."""
        return "at_least_once" if self.repeating else "exactly_once"

    @property
    def repeating(self) -> tuple[str, ...]:
        """The sinks that may get a row more than once after a crash."""
        return tuple(s.name for s in self.sinks if s.guarantee == "at_least_once")


def stream_statuses(config: Config, records: Records) -> list[StreamStatus]:
    """Look at every configured stream."""
    return [_status(records, name, stream) for name, stream in config.streams.items()]


def guarantee_of(config: SinkConfig) -> Guarantee:
    """What a sink of this configuration promises, without opening it."""
    if isinstance(config, ConsoleSink):
        return "at_least_once"
    if isinstance(config, HttpSink | PythonSink):
        return "exactly_once" if config.idempotent else "at_least_once"
    return "exactly_once"


def _status(records: Records, name: str, stream: StreamPipeline) -> StreamStatus:
    holder = records.leases.holder(name)
    with records.ledger.reading() as view:
        run = records.last_run(view, name)
        if run is not None and run.status == "running":
            alive = holder is not None and holder.run_id == run.run_id
            run = run if alive else replace(run, status="died")
        live = records.live.get(view, name)
        # What an older run was doing says nothing about this one.
        live = live if live and run and live.run_id == run.run_id else None
        head = records.heads.get(view, name)
        entry = records.checkpoints.get(view, version_key(name, head.version)) if head else None
        intent = records.epoch_intents.get(view, name)
        sinks = _sinks(view, records, name, stream, head, live)
    running = run is not None and run.status == "running"
    return StreamStatus(
        pipeline=name,
        state=_state(run, live),
        since=_since(run, live),
        waiting=live.waiting if live and running and live.state.startswith("waiting") else {},
        retry_at=live.retry_at if live and running else None,
        last_run=run,
        head=head,
        entry=entry,
        age=records.ledger.clock() - entry.created_at if entry else None,
        unfinished_epoch=intent.token.epoch if intent else None,
        policy=_policy(stream).describe(),
        sinks=sinks,
    )


def _state(run: Run | None, live: Live | None) -> StreamState:
    if run is None:
        return "never_run"
    if run.status == "running":
        return live.state if live is not None else "starting"
    if run.status in ("failed", "died"):
        return run.status
    return "stopped"


def _since(run: Run | None, live: Live | None) -> datetime | None:
    if run is None:
        return None
    if run.status == "running" and live is not None:
        return live.since
    return run.finished_at or run.started_at


def _policy(stream: StreamPipeline) -> Policy:
    return Policy(
        stream.batch.commit_policy,
        frozenset(sink.name for sink in stream.sinks),
        frozenset(sink.name for sink in stream.sinks if sink.required),
        stream.batch.quorum or 0,
    )


def _sinks(
    view: Transaction,
    records: Records,
    name: str,
    stream: StreamPipeline,
    head: Head | None,
    live: Live | None,
) -> tuple[SinkStatus, ...]:
    roll_back = records.rollbacks.get(view, name)
    untold = roll_back.open_sinks if roll_back is not None else ()
    lines = []
    for config in stream.sinks:
        position = records.sink_positions.get(view, f"{name}/{config.name}")
        lines.append(
            SinkStatus(
                name=config.name,
                required=config.required,
                guarantee=position.guarantee if position else guarantee_of(config),
                position=position,
                behind=_behind(head, position),
                untold=config.name in untold,
                error=live.waiting.get(config.name) if live else None,
            )
        )
    return tuple(lines)


def _behind(head: Head | None, position: SinkPosition | None) -> int | None:
    if head is None or position is None:
        return None
    if position.waiting is not None:
        return max(0, head.epoch - position.waiting.first.epoch + 1)
    if position.delivered is None:
        return None
    return max(0, head.epoch - position.delivered.epoch)
