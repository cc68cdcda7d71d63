"""The `arrow` backend: a log-structured merge tree of memory-mapped Arrow runs.

A checkpoint writes what changed since the last one as one sorted run (`runs.py`) and costs in
proportion to it. Look-ups search the runs from the newest to the oldest with NumPy kernels;
`compaction.py` says when runs are merged. A merge writes a new run and leaves the old ones
alone: they belong to older checkpoints for as long as somebody retains those.

On disk: `<epoch>_<attempt>-<partition>_<table>_<number>.run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import count
from typing import ClassVar

from holdfast.state.backends.layered import LayeredBackend
from holdfast.state.compaction import merge_from
from holdfast.state.files import Directory, remove
from holdfast.state.layers import Layer
from holdfast.state.rows import Rows
from holdfast.state.runs import Run, open_run, write_run
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Partition, Snapshot
from holdfast.state.ttl import unexpired


class ArrowBackend(LayeredBackend):
    """Sorted immutable runs on disk, mapped into memory."""

    name: ClassVar[str] = "arrow"

    def __init__(
        self,
        directory: Directory,
        tables: Sequence[TableSchema],
        partition: Partition,
        *,
        attempt: str,
        pending_bytes: int = 256 * 2**20,
    ) -> None:
        super().__init__(directory, tables, partition, attempt=attempt)
        self._pending_bytes = pending_bytes
        """Writes above this are spilled to a run before the checkpoint asks for one."""
        self._runs: dict[str, list[Run]] = defaultdict(list)
        self._pending: dict[str, list[Rows]] = defaultdict(list)
        self._unnamed: list[str] = []
        """The names of files written here since the last checkpoint."""
        self._numbers = count()

    def restore(self, snapshot: Snapshot) -> None:
        """Map the runs of a snapshot."""
        self._map(snapshot)

    def adopt(self, snapshot: Snapshot) -> None:
        """Map the runs of another split; the next checkpoint rewrites what belongs here."""
        self._map(snapshot)
        self._foreign = True

    def _map(self, snapshot: Snapshot) -> None:
        for file in snapshot.files:
            table = self.tables.get(file.table)
            if table is not None:
                path = self.directory.locate(file)
                self._runs[table.name].append(open_run(path, file, table))

    def layers(self, table: str) -> Sequence[Layer]:
        """Return the runs of a table, then what was written since the last checkpoint."""
        self.refuse_closed()
        runs = [run.layer for run in self._runs[table]]
        return [*runs, *(Layer.in_memory(rows) for rows in self._pending[table])]

    def write(self, changes: Mapping[str, Rows]) -> None:
        """Keep changes in memory until the checkpoint, or until they are too many."""
        self.refuse_closed()
        for table, rows in changes.items():
            if len(rows):
                self._pending[table].append(rows)
        for table, pending in self._pending.items():
            if sum(rows.size_bytes for rows in pending) > self._pending_bytes:
                self._spill(table)

    def _spill(self, table: str) -> None:
        pending = [Layer.in_memory(rows) for rows in self._pending[table]]
        deletions = any(rows.dead is not None for rows in self._pending[table])
        self._replace(table, len(self._runs[table]), pending, "spill", deletions=deletions)

    def checkpoint(
        self, epoch: int, *, expired_before_ms: Mapping[str, int] | None = None
    ) -> Snapshot:
        """Write the changes as a run, merged with older ones if it is time for that."""
        self.refuse_closed()
        expired = expired_before_ms or {}
        for table in self.tables:
            self._settle(table, str(epoch), expired.get(table))
        self.directory.sync()
        self._foreign = False
        files = tuple(run.file for table in self.tables for run in self._runs[table])
        snapshot = self.describe(epoch, files)
        self._forget_unnamed({file.name for file in files})
        return snapshot

    def _settle(self, table: str, label: str, expired_before_ms: int | None) -> None:
        runs, pending = self._runs[table], self._pending[table]
        sizes = [len(run.layer) for run in runs]
        if pending:
            sizes.append(sum(len(rows) for rows in pending))
        start = 0 if self._foreign else merge_from(sizes)
        if start is None:
            if not pending:
                return
            start = len(runs)
        deletions = start > 0 and (
            any(run.dead for run in runs[start:]) or any(rows.dead is not None for rows in pending)
        )
        self._replace(
            table,
            start,
            self.layers(table)[start:],
            label,
            deletions=deletions,
            expired_before_ms=expired_before_ms,
        )

    def _replace(
        self,
        table: str,
        start: int,
        layers: Sequence[Layer],
        label: str,
        *,
        deletions: bool,
        expired_before_ms: int | None = None,
    ) -> None:
        """Write layers as one run that takes the place of the runs from `start` on."""
        schema = self.tables[table]
        pieces = self.merge(table, layers)
        if start == 0:
            # Nothing older is left below: deletions and expired rows have done their work.
            pieces = (unexpired(rows.alive(), expired_before_ms) for rows in pieces)
        name = f"{label}_{self.attempt}_{table}_{next(self._numbers)}.run"
        file = write_run(self.directory.path, name, schema, pieces, deletions=deletions)
        if file is not None:
            self._unnamed.append(file.name)
        fresh = [] if file is None else [open_run(self.directory.path / name, file, schema)]
        self._runs[table] = [*self._runs[table][:start], *fresh]
        self._pending[table] = []

    def _forget_unnamed(self, named: Set[str]) -> None:
        """Remove what was written since the last checkpoint and no snapshot has come to name."""
        for name in self._unnamed:
            if name not in named:
                remove(self.directory.path / name)
        self._unnamed = []

    def close(self) -> None:
        """Unmap the runs, and remove those it wrote that no snapshot names and now none will."""
        self.closed = True
        self._forget_unnamed(set())
        self._runs.clear()
        self._pending.clear()
