"""The rows of one epoch, computed once however many sinks read them."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from holdfast.spark.failures import translated


class Results:
    """A batch that is kept in memory, and on disk beyond it, as soon as two have to read it.

    For a single reader that works at the first try, keeping it would cost more than computing it.
    """

    def __init__(self, frame: DataFrame, *, what: str, readers: int) -> None:
        self.frame = frame
        self._what = what
        self._kept = False
        self.rows: int | None = None
        if readers > 1:
            self.keep()

    def keep(self) -> None:
        """Compute every row now; raises what is wrong with the rows, or with their source."""
        if self._kept:
            return
        with translated(f"{self._what}: computing the batch"):
            self.frame = self.frame.persist(StorageLevel.MEMORY_AND_DISK)
            self._kept = True
            self.rows = self.frame.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._kept:
            self.frame.unpersist()
