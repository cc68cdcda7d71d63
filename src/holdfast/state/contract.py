"""The contract of a backend: where the tables of one operator partition live.

Everything is columnar: batches of keys in, Arrow columns out. A backend stores sorted rows and
finds them again; transactions, caching, TTL, collections, timers, windows, changelog and
savepoints are written above it once, for all of them.

A backend is used by one thread of one process. What it wrote counts only once `checkpoint` has
returned and somebody kept the snapshot: opening that snapshot again, here or elsewhere, gives
exactly the state of that moment, whatever happened to the backend afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

from holdfast.errors import StateClosed, StateMismatch
from holdfast.state.files import Directory
from holdfast.state.keys import Keys
from holdfast.state.rows import Hits, Ranges, Rows
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Partition, Snapshot, StateFile, sources


class Backend(ABC):
    """The state of one operator partition."""

    name: ClassVar[str]
    """How configuration and snapshots call it."""

    caches_reads: ClassVar[bool] = False
    """Whether keeping what was read in memory is faster than asking again."""

    def __init__(
        self,
        directory: Directory,
        tables: Sequence[TableSchema],
        partition: Partition,
        *,
        attempt: str,
    ) -> None:
        self.directory = directory
        self.partition = partition
        self.attempt = f"{attempt}-{partition.index}"
        """Part of the name of every file written: attempts and partitions never share one."""
        self.closed = False
        self._last: frozenset[str] = frozenset()
        """The names of the files of the last snapshot: the one opened, or the one made since."""
        self.tables = {table.name: table for table in tables}
        if len(self.tables) != len(tables):
            raise StateMismatch(
                "Two tables of one operator have the same name.", hint="Rename one of them."
            )

    def open(self, snapshots: Sequence[Snapshot], *, drop: Collection[str] = ()) -> None:
        """Begin at a checkpoint, whatever number of partitions it was written under.

        `snapshots` are those of all partitions of one epoch, or none to begin empty. A table
        that the checkpoint does not have begins empty; one that is not declared any more must
        be named in `drop`, and is then left out.
        """
        for snapshot in sources(snapshots, self.partition):
            self._refuse_other_backend(snapshot)
            self.refuse_other_tables(snapshot, drop)
            if snapshot.partition == self.partition:
                self.restore(snapshot)
                self._last = frozenset(file.name for file in snapshot.files)
            else:
                self.adopt(snapshot)

    def _refuse_other_backend(self, snapshot: Snapshot) -> None:
        if snapshot.backend != self.name:
            raise StateMismatch(
                f"The state of epoch {snapshot.epoch} was written by the backend "
                f"{snapshot.backend!r}, and is opened with {self.name!r}.",
                hint=(
                    "Open it with savepoint=<its directory>."
                    if snapshot.backend == "savepoint"
                    else "Move it through a savepoint, or open it with the backend that wrote it."
                ),
            )

    def refuse_other_tables(self, snapshot: Snapshot, drop: Collection[str]) -> None:
        """Raise unless the tables of a snapshot can be opened as the declared ones."""
        for stored in snapshot.tables:
            declared = self.tables.get(stored.name)
            if declared is not None:
                declared.refuse_other(stored)
            elif stored.name not in drop:
                raise StateMismatch(
                    f"The state of epoch {snapshot.epoch} has a table {stored.name!r} that is "
                    "not declared any more.",
                    hint=f"Declare it, or open the state with drop=[{stored.name!r}].",
                )

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Begin at a snapshot of this very partition. Called at most once, on an empty backend."""

    @abstractmethod
    def adopt(self, snapshot: Snapshot) -> None:
        """Take over the keys of this partition from a snapshot of another split.

        Called once for each such snapshot, on a backend that has only adopted before. A key is
        never in two of them.
        """

    @abstractmethod
    def get(self, table: str, keys: Keys) -> Hits:
        """Return the rows of some keys; a key that is absent or deleted is not a hit."""

    @abstractmethod
    def write(self, changes: Mapping[str, Rows]) -> None:
        """Put and delete rows of several tables at once: all of it, or nothing if it raises."""

    @abstractmethod
    def scan(self, table: str, ranges: Ranges) -> Iterator[Rows]:
        """Yield the rows whose codes are in some ranges, in the order of their codes.

        Rows of equal code come in one piece. Deleted rows, and rows of other partitions, do
        not appear. What is written while the
        scan is going on may or may not.
        """

    @abstractmethod
    def checkpoint(
        self, epoch: int, *, expired_before_ms: Mapping[str, int] | None = None
    ) -> Snapshot:
        """Make everything written so far durable and return the files that it consists of.

        Rows of stamped tables that were last touched before `expired_before_ms[table]` may be
        left out.
        """

    def describe(
        self, epoch: int, files: Sequence[StateFile], details: Mapping[str, Any] | None = None
    ) -> Snapshot:
        """Return the snapshot that some files are, for `checkpoint` to return.

        Raises if a file that it shares with the last one is there no more: somebody may have
        removed it with the checkpoint it came from, while it was in use here.
        """
        names = frozenset(file.name for file in files)
        new = names - self._last
        for file in files:
            if file.name not in new:
                self.directory.locate(file)
        self._last = names
        tables = tuple(self.tables.values())
        return Snapshot(self.name, epoch, self.partition, tables, tuple(files), new, details or {})

    def refuse_closed(self) -> None:
        """Raise if the backend was closed: it would find nothing, and lose what is written."""
        if self.closed:
            raise StateClosed(
                f"The state of partition {self.partition} in {self.directory.path} was used "
                "after it had been closed.",
                hint="Open it again at its last checkpoint.",
            )

    @abstractmethod
    def close(self) -> None:
        """Let go of files and memory. What was not checkpointed is gone. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
