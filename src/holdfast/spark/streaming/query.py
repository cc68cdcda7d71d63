"""A running Spark query that hands every micro-batch to a function."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.spark.failures import explain, translated

Process = Callable[[DataFrame, int], None]


class MicroBatches:
    """Runs `process(frame, epoch)` for every micro-batch, one after the other."""

    def __init__(self, frame: DataFrame, process: Process, *, name: str) -> None:
        self._frame = frame
        self._process = process
        self._name = name
        self._query: StreamingQuery | None = None
        self._raised: BaseException | None = None

    def start(self, directory: Path, *, once: bool, interval_ms: int | None) -> None:
        """Start from what Spark's checkpoint directory says."""

        # Spark passes on only the text of what the function raises: the error itself is kept here.
        def each(frame: DataFrame, epoch: int) -> None:
            try:
                self._process(frame, epoch)
            except BaseException as error:
                self._raised = self._raised or error
                if isinstance(error, Exception):
                    raise
                # Spark is answered for an Exception only: it would wait for ever.
                raise RuntimeError(repr(error)) from error

        with translated(f"{self._name}: starting"):
            writer = self._frame.writeStream.foreachBatch(each).option(
                # Not `as_uri`: Hadoop takes %20 for three characters.
                "checkpointLocation",
                f"file://{directory}",
            )
            if once:
                writer = writer.trigger(availableNow=True)
            elif interval_ms:
                writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
            self._query = writer.start()

    def ended(self, seconds: float) -> bool:
        """Wait a little; whether the query has ended."""
        assert self._query is not None, "not started"
        deadline = time.monotonic() + seconds
        with translated(f"{self._name}: running"):
            while self._query.isActive:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                # Short sleeps here instead of a long one inside Spark: a signal is handled only
                # between two of them.
                time.sleep(min(0.05, left))
        return True

    def failure(self) -> BaseException | None:
        """Why the query ended, if not because it was done: the function's own error first."""
        if self._raised is not None:
            return self._raised
        assert self._query is not None, "not started"
        error = self._query.exception()
        return None if error is None else explain(f"{self._name}: reading the source", error)

    def stop(self) -> None:
        """End the query; stopping one that has ended is harmless."""
        if self._query is None:
            return
        try:
            self._query.stop()
        except Py4JNetworkError:
            return  # Spark itself is gone, and the query with it
        except (Py4JError, PySparkException):
            if self._query.isActive:
                raise
