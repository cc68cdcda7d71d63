"""Running a stream: from where it got to, until it is done, stopped or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from holdfast.checkpoint import gc
from holdfast.config import source_digest, source_options
from holdfast.errors import (
    HoldfastError,
    Interrupted,
    LeaseLost,
    SourceError,
    Undelivered,
)
from holdfast.model import Failure, LiveState, Run, RunStatus, SinkPosition
from holdfast.pipelines.leasing import heartbeat
from holdfast.pipelines.mistakes import unexpected
from holdfast.pipelines.signals import noticing_interrupts
from holdfast.pipelines.streams.delivering import Deliveries
from holdfast.pipelines.streams.epochs import Epoch, Epochs, EpochSettings
from holdfast.pipelines.streams.job import StreamJob, StreamProgress, StreamResult
from holdfast.pipelines.streams.live import Board
from holdfast.pipelines.streams.outlets import Outlet
from holdfast.pipelines.streams.policy import Policy
from holdfast.pipelines.streams.starting import LATEST, Start, choose_start, refuse_other_source
from holdfast.spark.sinks.opening import open_sink
from holdfast.spark.streaming.gate import Gate
from holdfast.spark.streaming.query import MicroBatches
from holdfast.spark.streaming.scratch import Scratch
from holdfast.spark.streaming.source import describe_source, open_stream
from holdfast.spark.streaming.spooling import Spools
from holdfast.spark.streaming.transforms import (
    Transform,
    by_function,
    by_query,
    load_function,
    narrowed,
)

if TYPE_CHECKING:
    from holdfast.spark.session import DataFrame

_TURN_SECONDS: Final = 0.2
"""How often the main thread looks up: for a signal, or for a spool that can be drained."""
_IDLE_DRAIN_SECONDS: Final = 5.0


class StreamRunner:
    """One run of a stream under its lease."""

    def __init__(self, job: StreamJob, progress: StreamProgress) -> None:
        self._job = job
        self._progress = progress
        self._gate = Gate()
        self._board = Board(job.records, job.name, job.run_id)
        self._epochs_done = 0
        self._rows = 0
        self._notes: tuple[str, ...] = ()
        self._lost = False
        self._asked_to_stop: Callable[[], bool] = lambda: False

    def run(
        self, *, once: bool = False, start_from: str = LATEST, accept_source: bool = False
    ) -> StreamResult:
        """Deliver what there is (`once`), or what comes, until somebody stops it."""
        job = self._job
        run = Run(
            run_id=job.run_id,
            pipeline=job.name,
            status="running",
            started_at=job.clock(),
            finished_at=None,
            tables=(),
            actor=job.actor,
            generation=job.lease.generation,
        )
        self._remember(run)
        try:
            with (
                heartbeat(job.records, job.name, job.lease, self._lease_lost),
                noticing_interrupts() as asked,
            ):
                self._asked_to_stop = asked.is_set
                self._board.show("starting")
                self._run(once=once, start_from=start_from, accept_source=accept_source)
        except Undelivered as error:
            notes = (*self._notes, f"{error.message} {error.hint}")
            run = self._finish(run, "partial", error)
        except KeyboardInterrupt:
            self._finish(run, "interrupted", None)
            raise
        except HoldfastError as error:
            self._finish(run, "failed", error)
            raise
        else:
            notes = self._notes
            run = self._finish(run, "success", None)
        head = job.checkpoints.head()
        entry = None if head is None else job.checkpoints.entry(head.version)
        return StreamResult(run, self._epochs_done, self._rows, entry, notes)

    def stop(self) -> None:
        """Ask it to end after the batch in flight; returns at once."""
        self._gate.close()

    def _run(self, *, once: bool, start_from: str, accept_source: bool) -> None:
        job = self._job
        opened = self._open_sinks()
        start = choose_start(
            job.checkpoints,
            start_from,
            generation=job.lease.generation,
            actor=job.actor,
            sinks=tuple(opened),
            fail_if_none=job.pipeline.checkpoint.fail_if_no_checkpoint,
        )
        digest = source_digest(job.pipeline)
        refuse_other_source(job.name, start, digest, accept=accept_source)
        self._notes = start.notes
        self._progress.started(job.name, start.entry, start.notes)
        if start.head is not None:
            # What processes that were killed left behind.
            gc(job.checkpoints, dry_run=False, generation=job.lease.generation)
        deliveries = self._deliveries(opened)
        scratch = Scratch(job.work / job.run_id)
        try:
            epochs = Epochs(
                self._epoch_settings(digest),
                job.checkpoints,
                scratch,
                deliveries,
                self._transform(),
                self._gate,
                watch=self._watch,
                begun=lambda epoch: self._board.show(
                    "running", epoch=epoch, waiting=deliveries.errors
                ),
            )
            self._follow(start, scratch, epochs, deliveries, once=once)
        finally:
            deliveries.close()
            scratch.remove()

    def _follow(
        self,
        start: Start,
        scratch: Scratch,
        epochs: Epochs,
        deliveries: Deliveries,
        *,
        once: bool,
    ) -> None:
        """Run Spark's query, and run it again whenever its source is back."""
        job = self._job
        delay, down_since = 0.0, None
        while True:
            done_before = self._epochs_done
            error = self._follow_once(start, scratch, epochs, deliveries, once=once)
            if error is None:
                return
            seen_before = start.head is not None or self._epochs_done > 0
            if not isinstance(error, SourceError) or not seen_before:
                raise error
            if self._epochs_done > done_before:
                delay, down_since = 0.0, None
            retry = job.pipeline.source_retry
            now = time.monotonic()
            down_since = down_since if down_since is not None else now
            limit = retry.give_up_after
            if limit is not None and now - down_since >= limit.total_seconds():
                raise error
            delay = min(
                max(delay * 2, retry.first_delay.total_seconds()),
                retry.max_delay.total_seconds(),
            )
            self._wait_for("waiting_for_source", {"source": error}, delay)
            if self._pause(delay):
                return
            # From where this process got to: its checkpoint is in memory, whatever the disk says.
            start = Start(
                job.checkpoints.head(), start.entry, epochs.last, job.checkpoints.intent()
            )

    def _follow_once(
        self,
        start: Start,
        scratch: Scratch,
        epochs: Epochs,
        deliveries: Deliveries,
        *,
        once: bool,
    ) -> HoldfastError | None:
        job = self._job
        epochs.start_from(start.head, start.checkpoint)
        scratch.rebuild(
            start.checkpoint.spark if start.checkpoint is not None else None,
            start.intent.spark if start.intent is not None else None,
            lambda file: job.checkpoints.objects.get(file.key),
        )
        try:
            batches = MicroBatches(self._stream(), epochs.run, name=job.name)
            batches.start(scratch.directory, once=once, interval_ms=job.pipeline.batch.max_ms)
        except HoldfastError as failed:
            return failed
        self._board.show("running")
        try:
            self._attend(batches, deliveries)
        finally:
            batches.stop()
        error = self._named(batches.failure())
        if self._lost:
            raise self._overtaken()
        if error is None:
            self._drain(deliveries, seconds=_IDLE_DRAIN_SECONDS)
        if type(error) is Interrupted and self._gate.closing.is_set():
            return None  # no further batch was begun, as it should be
        return error

    def _named(self, error: Exception | None) -> HoldfastError | None:
        if error is None or isinstance(error, HoldfastError):
            return error
        job = self._job
        return unexpected(job.name, error, log_path=job.log_path, now=job.clock())

    def _attend(self, batches: MicroBatches, deliveries: Deliveries) -> None:
        """Be there while Spark works, and see that a stop is a clean one."""
        told = False
        while not batches.ended(_TURN_SECONDS):
            if self._asked_to_stop() or self._gate.closing.is_set():
                self._gate.close()
                if not told:
                    told = True
                    self._progress.stopping()
                    self._board.show("stopping")
                if self._gate.drained(_TURN_SECONDS):
                    return
            else:
                with self._gate.if_free() as free:
                    if free:
                        self._drain(deliveries, seconds=_TURN_SECONDS)

    def _drain(self, deliveries: Deliveries, *, seconds: float) -> None:
        """Deliver what waits for sinks that are back, between two epochs."""
        job = self._job
        for outlet in deliveries.outlets:
            if not outlet.has_work or outlet.resting:
                continue
            before = outlet.position
            outlet.try_to_drain(seconds)
            if outlet.position != before:
                job.checkpoints.remember_sink(
                    outlet.name, outlet.position, generation=job.lease.generation
                )
                outlet.clean()
        self._board.show("running", waiting=deliveries.errors)

    def _stream(self) -> DataFrame:
        job = self._job
        if job.stream is not None:
            frame: DataFrame = job.stream(job.spark)
        else:
            source = job.pipeline.source
            options = source_options(source, job.pipeline.batch)
            frame = open_stream(job.spark, source, options, pipeline=job.name)
        return narrowed(frame, job.pipeline.where, job.pipeline.select)

    def _transform(self) -> Transform:
        pipeline = self._job.pipeline
        steps: list[Transform] = []
        if pipeline.sql is not None:
            steps.append(by_query(pipeline.sql))
        if pipeline.python is not None:
            steps.append(by_function(load_function(pipeline.python), pipeline.python))
        steps += self._job.transforms

        def transform(frame: DataFrame) -> DataFrame:
            for step in steps:
                frame = step(frame)
            return frame

        return transform

    def _open_sinks(self) -> dict[str, Outlet]:
        job = self._job
        spools = Spools(job.spark, job.spool_location, job.clock)
        positions: dict[str, SinkPosition] = job.checkpoints.sink_positions()
        outlets: dict[str, Outlet] = {}
        for config in job.pipeline.sinks:
            given = job.sinks.get(config.name)
            sink = given or open_sink(config, pipeline=job.name, spark=job.spark)
            outlets[config.name] = Outlet(sink, config, positions.get(config.name), spools)
        return outlets

    def _deliveries(self, outlets: Mapping[str, Outlet]) -> Deliveries:
        job = self._job
        positions = job.checkpoints.sink_positions()  # a roll-back has changed them
        for outlet in outlets.values():
            outlet.position = positions.get(outlet.name, outlet.position)
        roll_back = job.checkpoints.open_roll_back()
        if roll_back is not None:
            for name in roll_back.open_sinks:
                if name in outlets:
                    outlets[name].must_roll_back(roll_back.to, job.checkpoints.told)
        batch = job.pipeline.batch
        policy = Policy(
            batch.commit_policy,
            frozenset(outlets),
            frozenset(c.name for c in job.pipeline.sinks if c.required),
            batch.quorum or 0,
        )
        return Deliveries(
            tuple(outlets.values()),
            policy,
            closing=self._gate.closing,
            waiting=lambda errors, seconds: self._wait_for("waiting_for_sink", errors, seconds),
        )

    def _epoch_settings(self, digest: str) -> EpochSettings:
        job = self._job
        named = job.stream is None
        return EpochSettings(
            pipeline=job.name,
            run_id=job.run_id,
            generation=job.lease.generation,
            source=digest,
            source_names=(describe_source(job.pipeline.source),) if named else (),
            retain=job.pipeline.checkpoint.retain,
            on_schema_change=job.pipeline.on_schema_change,
        )

    def _watch(self, epoch: Epoch) -> None:
        self._epochs_done += 1
        self._rows += epoch.entry.rows or 0
        self._progress.committed(epoch)

    def _wait_for(
        self, state: LiveState, errors: Mapping[str, HoldfastError], seconds: float
    ) -> None:
        self._board.show(state, waiting=errors, seconds=seconds)
        self._progress.waiting(errors, seconds)

    def _pause(self, seconds: float) -> bool:
        """Wait; whether the run is to stop instead of going on."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._asked_to_stop():
                self._gate.close()
            if self._gate.closing.wait(min(_TURN_SECONDS, max(0.0, end - time.monotonic()))):
                return True
        return False

    def _lease_lost(self) -> None:
        self._lost = True
        self._gate.close()

    def _overtaken(self) -> LeaseLost:
        return LeaseLost(
            f"Pipeline {self._job.name} was taken over by a newer run.",
            hint="Nothing more was committed by this run. Look at the newer one: holdfast status",
        )

    def _finish(self, run: Run, status: RunStatus, error: HoldfastError | None) -> Run:
        failure = (
            None if error is None else Failure(type(error).__name__, error.message, error.hint)
        )
        run = replace(run, status=status, finished_at=self._job.clock(), failure=failure)
        self._remember(run)
        return run

    def _remember(self, run: Run) -> None:
        with self._job.records.ledger.writing() as change:
            self._job.records.remember_run(change, run)
