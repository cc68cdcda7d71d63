"""A configuration file and its ledger, opened: the way in for Python and for the commands.

Nothing here imports Spark until something has to be read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.clock import Clock, utc_now
from holdfast.config import Config, load_config
from holdfast.errors import UsageError
from holdfast.ledger import Ledger, open_ledger
from holdfast.ledger.records import Records
from holdfast.model import Lease, Plan, TableName
from holdfast.pipelines.identity import current_actor, new_id
from holdfast.pipelines.leasing import heartbeat, leased
from holdfast.pipelines.state import StateBook

if TYPE_CHECKING:
    from holdfast.checkpoint import Checkpoints
    from holdfast.pipelines.job import Job, Progress
    from holdfast.pipelines.running import Runner, RunResult
    from holdfast.pipelines.streams.job import StreamProgress, StreamResult
    from holdfast.pipelines.streams.versions import Preview, RolledBack, Versions
    from holdfast.spark.session import SparkSession
    from holdfast.spark.sinks.contract import Sink

DEFAULT_CONFIG = Path("holdfast.toml")


class Project:
    """Everything that can be done with one configuration file.

    Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        config: Config,
        *,
        state_path: Path | None = None,
        spark: SparkSession | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.config = config
        self.ledger_path = state_path or Path(config.state.path)
        self._spark = spark
        self._clock = clock
        self._owns_spark = False

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, opened when it is first needed."""
        return open_ledger(self.ledger_path, clock=self._clock)

    @cached_property
    def records(self) -> Records:
        """What the ledger remembers, by kind."""
        return Records(self.ledger)

    @property
    def state(self) -> StateBook:
        """Watermarks and their history."""
        return StateBook(self.records, self.config, current_actor())

    @property
    def log_path(self) -> Path:
        """Where Spark's warnings and unexpected traces go."""
        return self.ledger_path.parent / "holdfast.log"

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started when it is first needed."""
        if self._spark is None:
            from holdfast.spark.session import has_session, start_session

            # A session that was there before, as in a notebook, is left running afterwards.
            self._owns_spark = not has_session()
            self._spark = start_session(
                self.config.spark.master,
                self.config.spark.conf,
                app_name="holdfast",
                log_path=self.log_path,
            )
        return self._spark

    def run(
        self,
        pipeline: str,
        *,
        tables: Sequence[str] = (),
        full_refresh: bool = False,
        resume: bool = False,
        allow_failed_checks: bool = False,
        progress: Progress | None = None,
    ) -> RunResult:
        """Copy what is new. `tables` are globs; with `resume`, only what the last run left."""
        from holdfast.pipelines.resuming import unfinished_run

        self.config.replicate_named(pipeline)
        with leased(self.records, pipeline) as lease:
            resumes = unfinished_run(self.records, pipeline) if resume else None
            job = self._job(
                pipeline, lease, full_refresh=full_refresh, allow_failed_checks=allow_failed_checks
            )
            chosen = self._choose(job, tables)
            if resumes is not None:
                chosen = [table for table in chosen if table.key in resumes.missing]
            return self._runner(job, progress).run(
                chosen, lease=lease, resumes=resumes.run_id if resumes else None
            )

    def run_stream(
        self,
        pipeline: str,
        *,
        once: bool = False,
        start_from: str = "latest",
        accept_source: bool = False,
        progress: StreamProgress | None = None,
    ) -> StreamResult:
        """Deliver what there is (`once`), or what comes until it is stopped.

        `start_from` is `latest`, a version or the id of a checkpoint; another one than the newest
        is rolled back to first.
        """
        from holdfast.pipelines.streams.job import StreamSilence
        from holdfast.pipelines.streams.opening import make_job
        from holdfast.pipelines.streams.running import StreamRunner

        settings = self.config.stream_named(pipeline)
        with leased(self.records, pipeline) as lease:
            job = make_job(
                pipeline,
                settings,
                self.records,
                ledger_path=self.ledger_path,
                lease=lease,
                spark=self.spark,
            )
            runner = StreamRunner(job, progress or StreamSilence())
            return runner.run(once=once, start_from=start_from, accept_source=accept_source)

    def checkpoints(self, pipeline: str) -> Checkpoints:
        """The checkpoints of a stream pipeline."""
        from holdfast.pipelines.streams.opening import open_checkpoints

        return open_checkpoints(pipeline, self.config.stream_named(pipeline), self.records)

    def versions(self, pipeline: str) -> Versions:
        """The versions of a stream pipeline: list, show, keep, compare."""
        from holdfast.pipelines.streams.versions import Versions

        return Versions(self.checkpoints(pipeline), current_actor())

    @contextmanager
    def sinks(self, pipeline: str) -> Iterator[dict[str, Sink]]:
        """The sinks of a stream pipeline, opened; this starts Spark."""
        from holdfast.spark.sinks.opening import open_sink

        with ExitStack() as closing:
            opened = {}
            for config in self.config.stream_named(pipeline).sinks:
                sink = open_sink(config, pipeline=pipeline, spark=self.spark)
                closing.callback(sink.close)
                opened[config.name] = sink
            yield opened

    def preview_roll_back(self, pipeline: str, reference: str) -> Preview:
        """What a roll-back would do, without doing it."""
        versions = self.versions(pipeline)
        with self.sinks(pipeline) as sinks:
            return versions.preview(reference, sinks)

    def roll_back(self, pipeline: str, reference: str, *, note: str = "") -> RolledBack:
        """Go back to an old version under a new generation, and tell the sinks."""
        versions = self.versions(pipeline)
        with (
            leased(self.records, pipeline) as lease,
            # Whoever overtakes it is told apart by the generation, which the ledger checks.
            heartbeat(self.records, pipeline, lease, lost=lambda: None),
            self.sinks(pipeline) as sinks,
        ):
            return versions.roll_back(reference, sinks, generation=lease.generation, note=note)

    def plan(
        self,
        pipeline: str,
        *,
        tables: Sequence[str] = (),
        full_refresh: bool = False,
        progress: Progress | None = None,
    ) -> Plan:
        """Decide what a run would do, and store it."""
        from holdfast.pipelines.job import Silence
        from holdfast.pipelines.planning import make_plan

        job = self._job(pipeline, None, full_refresh=full_refresh)
        return make_plan(job, self.config, self._choose(job, tables), progress or Silence())

    def apply(
        self,
        plan_id: str,
        *,
        allow_failed_checks: bool = False,
        progress: Progress | None = None,
    ) -> RunResult:
        """Run exactly a stored plan, or refuse and say what moved."""
        from holdfast.pipelines.plans import load_plan, mark_applied, refuse_stale

        plan = load_plan(self.records, plan_id)
        self.config.replicate_named(plan.pipeline)
        with leased(self.records, plan.pipeline) as lease:
            # Under the lease nothing can move between the comparison and the run.
            refuse_stale(plan, self.config, self.records)
            job = self._job(
                plan.pipeline,
                lease,
                full_refresh=plan.full_refresh,
                allow_failed_checks=allow_failed_checks,
            )
            names = {entry.table: entry for entry in plan.tables}
            chosen = [
                TableName(plan.pipeline, entry.source, entry.table.partition(".")[2])
                for entry in plan.tables
            ]
            mark_applied(self.records, plan, job.run_id)
            return self._runner(job, progress).run(
                chosen, lease=lease, plans=names, plan_id=plan.plan_id
            )

    def close(self) -> None:
        """Let go of the ledger, and of Spark if it was started here."""
        if "ledger" in self.__dict__:
            self.ledger.close()
        if self._owns_spark and self._spark is not None:
            from holdfast.spark.session import stop_session

            stop_session(self._spark)
            self._spark = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _job(
        self,
        pipeline: str,
        lease: Lease | None,
        *,
        full_refresh: bool = False,
        allow_failed_checks: bool = False,
    ) -> Job:
        from holdfast.pipelines.job import Job
        from holdfast.spark.jobs import working_session

        return Job(
            name=pipeline,
            pipeline=self.config.replicate_named(pipeline),
            records=self.records,
            spark=working_session(self.spark),
            run_id=lease.run_id if lease else new_id(),
            generation=lease.generation if lease else 0,
            actor=current_actor(),
            started_at=self.ledger.clock(),
            full_refresh=full_refresh,
            allow_failed_checks=allow_failed_checks,
        )

    def _runner(self, job: Job, progress: Progress | None) -> Runner:
        from holdfast.pipelines.job import Silence
        from holdfast.pipelines.running import Runner

        return Runner(job, progress or Silence(), log_path=self.log_path)

    def _choose(self, job: Job, patterns: Sequence[str]) -> list[TableName]:
        from holdfast.spark.discovery import tables_of

        tables = tables_of(job.spark, job.name, job.pipeline)
        if not patterns:
            return tables
        chosen = [t for t in tables if any(_named(t, pattern) for pattern in patterns)]
        for pattern in patterns:
            if not any(_named(table, pattern) for table in tables):
                raise UsageError(
                    f"Pipeline {job.name} has no table {pattern}.",
                    hint=f"It has: {', '.join(table.target for table in tables)}.",
                )
        return chosen


def open_project(
    path: str | Path = DEFAULT_CONFIG,
    *,
    state_path: str | Path | None = None,
    spark: SparkSession | None = None,
    clock: Clock = utc_now,
) -> Project:
    """Open a configuration file.

    `state_path` is used instead of the configured ledger, `spark` instead of a new session, and
    `clock` instead of this machine's.
    """
    return Project(
        load_config(Path(path)),
        state_path=Path(state_path) if state_path is not None else None,
        spark=spark,
        clock=clock,
    )


def _named(table: TableName, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (table.key, table.target, table.source))
