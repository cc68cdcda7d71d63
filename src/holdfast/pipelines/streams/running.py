"""Running a stream: from where it got to, until it is done, stopped or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final

from holdfast.checkpoint import gc
from holdfast.errors import (
    CheckpointDamaged,
    DiskFull,
    HoldfastError,
    Interrupted,
    LeaseLost,
    LedgerError,
    ObjectMissing,
    SourceError,
    Undelivered,
)
from holdfast.model import Failure, LiveState, Run, RunStatus, StoredFile
from holdfast.objects import describe
from holdfast.pipelines.leasing import heartbeat
from holdfast.pipelines.mistakes import unexpected
from holdfast.pipelines.signals import noticing_interrupts
from holdfast.pipelines.streams.assembling import (
    digest_of_source,
    epoch_settings,
    make_outlets,
    make_policy,
    make_stream,
    make_transform,
    open_sinks,
    transform_digest,
)
from holdfast.pipelines.streams.delivering import Deliveries
from holdfast.pipelines.streams.epochs import Epoch, Epochs
from holdfast.pipelines.streams.job import StreamJob, StreamProgress, StreamResult
from holdfast.pipelines.streams.live import Board
from holdfast.pipelines.streams.outlets import Outlet
from holdfast.pipelines.streams.patience import Patience
from holdfast.pipelines.streams.starting import (
    LATEST,
    Start,
    changed_transforms,
    choose_start,
    open_intent,
    refuse_other_source,
)
from holdfast.spark.streaming.gate import Gate
from holdfast.spark.streaming.query import MicroBatches
from holdfast.spark.streaming.scratch import Scratch, new_files
from holdfast.spark.streaming.source import refuse_vanished

_TURN_SECONDS: Final = 0.2
"""How often the main thread looks up: for a signal, or for a spool that can be drained."""
_LAST_DRAIN_SECONDS: Final = 5.0
"""How long a run that is done goes on for batches that waited for a sink that is back."""


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
        except Exception as failed:
            named = self._named(failed)
            # The ledger may be what failed: the first error is the one to tell.
            with suppress(LedgerError, DiskFull):
                self._finish(run, "failed", named)
            if named is failed:
                raise
            raise named from failed
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
        with ExitStack() as closing:
            sinks = open_sinks(job, closing)
            start = choose_start(
                job.checkpoints,
                start_from,
                generation=job.lease.generation,
                actor=job.actor,
                sinks=tuple(sinks),
                fail_if_none=job.pipeline.checkpoint.fail_if_no_checkpoint,
            )
            digest = digest_of_source(job)
            refuse_other_source(job.name, start, digest, accept=accept_source)
            outlets, missed = make_outlets(job, sinks, start.checkpoint)
            changed = changed_transforms(job.name, start, transform_digest(job))
            self._notes = (*start.notes, *missed, *changed)
            self._progress.started(job.name, start.entry, self._notes)
            if start.head is not None:
                # What processes that were killed left behind.
                gc(job.checkpoints, dry_run=False, generation=job.lease.generation)
            self._deliver(start, digest, outlets, once=once)

    def _deliver(
        self, start: Start, digest: str, outlets: tuple[Outlet, ...], *, once: bool
    ) -> None:
        job = self._job
        deliveries = Deliveries(
            outlets,
            make_policy(job.pipeline),
            closing=self._gate.closing,
            waiting=lambda errors, seconds: self._wait_for("waiting_for_sink", errors, seconds),
        )
        scratch = Scratch(job.work / job.run_id)
        epochs = Epochs(
            epoch_settings(job, digest),
            job.checkpoints,
            scratch,
            deliveries,
            make_transform(job),
            self._gate,
            watch=self._watch,
            begun=lambda: self._board.show("running", waiting=deliveries.errors),
            trouble=self._remark,
        )
        try:
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
        patience = Patience(job.pipeline.source_retry, once=once)
        while True:
            done_before = self._epochs_done
            error = self._follow_once(start, scratch, epochs, deliveries, once=once)
            if error is None:
                return
            # A source that never worked is a mistake, not an outage.
            seen_before = start.head is not None or self._epochs_done > 0
            if not isinstance(error, SourceError) or not seen_before:
                raise error
            if self._epochs_done > done_before:
                patience.restored()
            delay = patience.delay()
            if delay is None:
                raise error
            self._wait_for("waiting_for_source", {"source": error}, delay)
            if self._pause(delay, deliveries):
                self._refuse_open_epoch(epochs)
                return
            # From where this process got to: its checkpoint is in memory, whatever the disk says.
            start = Start(
                epochs.head, start.entry, epochs.last, open_intent(job.checkpoints, epochs.last)
            )

    def _refuse_open_epoch(self, epochs: Epochs) -> None:
        """Say so if the run ends with an epoch under way."""
        intent = open_intent(self._job.checkpoints, epochs.last)
        if intent is not None:
            raise Undelivered(
                f"Epoch {intent.token.epoch} was begun and its source could not be read.",
                hint="It is the first one when the pipeline is started again.",
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
        done = start.checkpoint.spark if start.checkpoint is not None else None
        begun = start.intent.spark if start.intent is not None else None
        scratch.rebuild(done, begun, self._fetch)
        try:
            refuse_vanished(
                job.spark,
                {path: self._fetch(file) for path, file in new_files(done, begun).items()},
                pipeline=job.name,
            )
            batches = MicroBatches(make_stream(job), epochs.run, name=job.name)
            batches.start(scratch.directory, once=once, interval_ms=job.pipeline.batch.max_ms)
        except HoldfastError as failed:
            return failed
        self._board.show("running")
        try:
            self._attend(batches, deliveries)
        finally:
            batches.stop()
        failure = batches.failure()
        error = None if failure is None else self._named(failure)
        if self._lost:
            raise self._overtaken()
        if type(error) is Interrupted and self._gate.closing.is_set():
            return None  # no further batch was begun, as it should be
        if error is None and not self._gate.closing.is_set():
            self._drain(deliveries, seconds=_LAST_DRAIN_SECONDS)
        return error

    def _fetch(self, file: StoredFile) -> bytes:
        """A file of Spark's log, as it was stored."""
        objects = self._job.checkpoints.objects
        try:
            content = objects.get(file.key)
        except ObjectMissing:
            content = b""
        if describe(file.key, content) != file:
            raise CheckpointDamaged(
                f"{file.key} in {objects.location} is damaged or gone.",
                hint="If it belongs to an epoch that was begun and not committed, give that up: "
                f"holdfast checkpoint rollback {self._job.name} latest",
            )
        return content

    def _named(self, error: BaseException) -> HoldfastError:
        if isinstance(error, HoldfastError):
            return error
        job = self._job
        if not isinstance(error, Exception):
            return HoldfastError(f"{job.name}: ended by {error!r}.", hint="Nothing is lost.")
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
        drained = False
        for outlet in deliveries.outlets:
            if not outlet.has_work or outlet.resting:
                continue
            drained = True
            outlet.try_to_drain(seconds)
        if drained and self._board.state == "running":
            self._board.show("running", waiting=deliveries.errors)

    def _watch(self, epoch: Epoch) -> None:
        self._epochs_done += 1
        self._rows += epoch.entry.rows or 0
        self._progress.committed(epoch)

    def _wait_for(
        self, state: LiveState, errors: Mapping[str, HoldfastError], seconds: float
    ) -> None:
        self._board.show(state, waiting=errors, seconds=seconds)
        self._progress.waiting(errors, seconds)

    def _pause(self, seconds: float, deliveries: Deliveries) -> bool:
        """Wait; whether the run is to stop instead of going on."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._asked_to_stop():
                self._gate.close()
            if self._gate.closing.wait(min(_TURN_SECONDS, max(0.0, end - time.monotonic()))):
                if self._lost:
                    raise self._overtaken()
                return True
            self._drain(deliveries, seconds=_TURN_SECONDS)
        return False

    def _remark(self, error: HoldfastError) -> None:
        """Keep what went wrong beside the work for the end of the run, each thing once."""
        if error.message not in self._notes:
            self._notes = (*self._notes, error.message)

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
