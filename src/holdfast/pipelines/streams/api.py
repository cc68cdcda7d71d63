"""Streams in Python, the way Spark reads:

import holdfast as hf

query = (
    hf.stream("payments", format="json", path="events", schema="merchant string, paise long")
    .where("paise > 0")
    .to(hf.sinks.files("lake/payments"))
    .start(once=True)
)
print(query.wait().rows)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.config.described import stream_from_document
from holdfast.errors import UsageError
from holdfast.ledger import open_ledger
from holdfast.ledger.records import Records
from holdfast.pipelines.identity import current_actor
from holdfast.pipelines.leasing import leased
from holdfast.pipelines.streams.job import StreamResult, StreamSilence
from holdfast.pipelines.streams.opening import make_job, open_checkpoints
from holdfast.pipelines.streams.sinks import SinkSpec
from holdfast.pipelines.streams.starting import LATEST
from holdfast.pipelines.streams.versions import VersionLine, Versions

if TYPE_CHECKING:
    from holdfast.config.stream import StreamPipeline
    from holdfast.pipelines.streams.job import StreamProgress
    from holdfast.pipelines.streams.running import StreamRunner
    from holdfast.spark.session import DataFrame, SparkSession

DEFAULT_LEDGER = Path(".holdfast/ledger.db")


@dataclass(frozen=True)
class Stream:
    """A stream that is being described; every method returns a new one."""

    name: str
    source: DataFrame | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    """The pipeline as it would stand in the configuration file."""
    functions: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    sinks: tuple[tuple[Mapping[str, Any], SinkSpec], ...] = ()

    def where(self, condition: str) -> Stream:
        """Keep only rows for which a SQL condition is true."""
        return self._with(where=condition)

    def select(self, *expressions: str) -> Stream:
        """Choose and compute columns by SQL expressions."""
        return self._with(select=list(expressions))

    def sql(self, query: str) -> Stream:
        """Apply a query to every micro-batch, which it knows as the view `batch`."""
        return self._with(sql=query)

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> Stream:
        """Apply a function to every micro-batch."""
        return replace(self, functions=(*self.functions, function))

    def limit(
        self,
        *,
        max_events: int | None = None,
        max_files: int | None = None,
        max_bytes: int | str | None = None,
        max_ms: int | None = None,
    ) -> Stream:
        """Say how much goes into one micro-batch."""
        limits = {
            "max_events": max_events,
            "max_files": max_files,
            "max_bytes": max_bytes,
            "max_ms": max_ms,
        }
        return self._with_batch({key: v for key, v in limits.items() if v is not None})

    def commit_when(
        self, policy: Literal["all", "required", "quorum"], *, quorum: int | None = None
    ) -> Stream:
        """Say which sinks must have a batch before it is committed."""
        settings: dict[str, Any] = {"commit_policy": policy}
        if quorum is not None:
            settings["quorum"] = quorum
        return self._with_batch(settings)

    def checkpoint(
        self,
        location: str | Path | None = None,
        *,
        min_count: int | None = None,
        min_age: str | None = None,
        fail_if_no_checkpoint: bool = False,
    ) -> Stream:
        """Say where checkpoints are kept, and for how long."""
        found: dict[str, Any] = {"fail_if_no_checkpoint": fail_if_no_checkpoint}
        if location is not None:
            found["location"] = str(location)
        retain = {"min_count": min_count, "min_age": min_age}
        found["retain"] = {key: value for key, value in retain.items() if value is not None}
        return self._with(checkpoint=found)

    def on_schema_change(self, what: Literal["refuse", "continue"]) -> Stream:
        """Say what happens when the columns change incompatibly."""
        return self._with(on_schema_change=what)

    def to(
        self,
        sink: SinkSpec,
        *,
        name: str | None = None,
        required: bool = True,
        on_failure: Literal["spool", "drop"] | None = None,
        **settings: Any,
    ) -> Stream:
        """Deliver to a sink as well. `settings` are its other keys: `retry`, `spool`."""
        entry: dict[str, Any] = {
            "name": name or self._free_name(sink.type),
            "type": sink.type,
            "required": required,
            **sink.settings,
            **settings,
        }
        if on_failure is not None:
            entry["on_failure"] = on_failure
        return replace(self, sinks=(*self.sinks, (entry, sink)))

    def start(
        self,
        *,
        once: bool = False,
        start_from: str = LATEST,
        accept_source: bool = False,
        spark: SparkSession | None = None,
        ledger: str | Path = DEFAULT_LEDGER,
        progress: StreamProgress | None = None,
    ) -> StreamQuery:
        """Start in the background; `once` delivers what there is and ends."""
        pipeline = self.configured()
        session = self.source.sparkSession if self.source is not None else spark
        if session is None:
            session = _active_session(Path(ledger))
        query = StreamQuery(self, pipeline, session, Path(ledger), progress or StreamSilence())
        query.begin(once=once, start_from=start_from, accept_source=accept_source)
        return query

    def configured(self) -> StreamPipeline:
        """The pipeline, checked; a `ConfigError` lists every mistake."""
        document = {"type": "stream", **self.document}
        if self.source is not None:
            document["source"] = {"format": "dataframe"}
        document["sinks"] = [entry for entry, _ in self.sinks]
        return stream_from_document(self.name, document)

    def _with(self, **keys: Any) -> Stream:
        return replace(self, document={**self.document, **keys})

    def _with_batch(self, settings: Mapping[str, Any]) -> Stream:
        return self._with(batch={**self.document.get("batch", {}), **settings})

    def _free_name(self, kind: str) -> str:
        taken = {entry["name"] for entry, _ in self.sinks}
        names = (kind, *(f"{kind}_{n}" for n in range(2, len(taken) + 3)))
        return next(name for name in names if name not in taken)


def stream(
    name: str,
    source: DataFrame | None = None,
    *,
    format: str | None = None,
    path: str | Path | None = None,
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Stream:
    """Describe a stream: from a streaming DataFrame, or from a format, path and schema.

    The name is that of the pipeline: started again under the same name, with the same ledger and
    checkpoints, it goes on from where it got to.
    """
    if source is not None:
        if not source.isStreaming:
            raise UsageError(
                f"{name}: the DataFrame is not a stream.", hint="Make it with spark.readStream."
            )
        if format or path or schema or options:
            raise UsageError(
                f"{name}: give either a streaming DataFrame or a format with its path.",
                hint="What a DataFrame reads was said when it was made.",
            )
        return Stream(name, source)
    found = {"format": format, "path": None if path is None else str(path), "schema": schema}
    document = {key: value for key, value in found.items() if value is not None}
    if options:
        document["options"] = dict(options)  # type: ignore[assignment]
    return Stream(name, None, {"source": document})


class StreamQuery:
    """A stream that was started."""

    def __init__(
        self,
        described: Stream,
        pipeline: StreamPipeline,
        spark: SparkSession,
        ledger: Path,
        progress: StreamProgress,
    ) -> None:
        self.name = described.name
        self._described = described
        self._pipeline = pipeline
        self._spark = spark
        self._ledger_path = ledger
        self._progress = progress
        self._runner: StreamRunner | None = None
        self._started = threading.Event()
        self._result: StreamResult | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self, *, once: bool, start_from: str, accept_source: bool) -> None:
        """Start; returns when the pipeline is this process's, or raises why it is not."""

        def work() -> None:
            try:
                self._run(once=once, start_from=start_from, accept_source=accept_source)
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                self._error = error
            finally:
                self._started.set()

        self._thread = threading.Thread(target=work, name=f"holdfast-{self.name}", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._runner is None and self._error is not None:
            raise self._error

    @property
    def is_active(self) -> bool:
        """Whether it is still running."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> StreamResult:
        """Wait until it ends and return how it did; raises what went wrong."""
        assert self._thread is not None, "begun"
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise UsageError(f"{self.name} is still running.", hint="Wait longer, or stop it.")
        if self._error is not None:
            raise self._error
        assert self._result is not None, "it ended one way or the other"
        return self._result

    def stop(self) -> StreamResult:
        """End it after the batch in flight has been committed, and return how it did."""
        if self._runner is not None:
            self._runner.stop()
        return self.wait()

    def versions(self) -> list[VersionLine]:
        """Its versions, newest first."""
        with open_ledger(self._ledger_path) as ledger:
            book = open_checkpoints(self.name, self._pipeline, Records(ledger))
            return Versions(book, current_actor()).list()

    def _run(self, *, once: bool, start_from: str, accept_source: bool) -> None:
        from holdfast.pipelines.streams.running import StreamRunner
        from holdfast.spark.sinks.python import PythonSink
        from holdfast.spark.streaming.source import refuse_stateful
        from holdfast.spark.streaming.transforms import by_function

        source = self._described.source
        if source is not None:
            refuse_stateful(source, pipeline=self.name)
        given = {
            entry["name"]: PythonSink(entry["name"], sink.function, idempotent=entry["idempotent"])
            for entry, sink in self._described.sinks
            if sink.function is not None
        }
        with open_ledger(self._ledger_path) as ledger:
            records = Records(ledger)
            with leased(records, self.name) as lease:
                job = make_job(
                    self.name,
                    self._pipeline,
                    records,
                    ledger_path=self._ledger_path,
                    lease=lease,
                    spark=self._spark,
                    stream=None if source is None else lambda _: source,
                    transforms=tuple(
                        by_function(f, getattr(f, "__name__", "transform"))
                        for f in self._described.functions
                    ),
                    sinks=given,
                )
                self._runner = StreamRunner(job, self._progress)
                self._started.set()
                self._result = self._runner.run(
                    once=once, start_from=start_from, accept_source=accept_source
                )


def _active_session(ledger: Path) -> SparkSession:
    from holdfast.spark.session import start_session

    return start_session(
        "local[*]", {}, app_name="holdfast", log_path=ledger.parent / "holdfast.log"
    )
