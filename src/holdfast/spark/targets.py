"""Where rows go: the contract every target fulfils.

A batch is staged where no reader looks, then published in one step. What was staged or
published can be recognised by the batch's id, so a run that finds another's unfinished batch
knows what is left to do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from holdfast.model import Batch, BatchManifest, Contents
from holdfast.spark.cursor import Cursor
from holdfast.spark.drift import Drift
from holdfast.spark.measures import Census, Measures, Window


@dataclass(frozen=True, slots=True)
class Staging:
    """Everything needed to write one batch."""

    batch: Batch
    rows: DataFrame
    """The source's rows in the batch's bounds, as the source has them."""
    drift: Drift
    """The source's columns fitted into the target's."""
    before: StructType | None
    """The target's own columns before this batch, metadata included; `None` if it has none."""
    cursor: Cursor | None
    key: tuple[str, ...]
    null_columns: tuple[str, ...]
    window: Window | None
    with_metadata: bool
    census: Callable[[], Census]
    """What is known of the whole source; to be asked once the rows were read."""
    measures: Callable[[], Measures] | None = None
    """What the rows are found to be as they are read, where that is measured already."""
    known: Measures | None = None
    """What the rows are, for sure, if as many are written: then they need not be measured."""


class Target(ABC):
    """One table to write to."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the table is, as a user would write it."""

    @property
    @abstractmethod
    def adoption(self) -> str:
        """How a user can make foreign files part of the table; empty if that cannot be done."""

    @abstractmethod
    def contents(self) -> Contents:
        """What is there now."""

    @abstractmethod
    def staged(self, batch_id: str) -> BatchManifest | None:
        """The manifest of a batch that is completely staged, published or not; else `None`."""

    @abstractmethod
    def is_published(self, batch_id: str) -> bool:
        """Whether readers see the batch."""

    @abstractmethod
    def stage(self, staging: Staging) -> BatchManifest:
        """Write a batch where no reader sees it, replacing what an earlier try left there."""

    @abstractmethod
    def publish(self, batch: Batch) -> None:
        """Make a staged batch visible as a whole."""

    @abstractmethod
    def clear(self, batch_id: str) -> None:
        """Remove what staging left behind, after a commit or when a batch is given up."""

    @abstractmethod
    def schema(self) -> StructType:
        """The table's columns as its files have them."""
