"""The `heap` backend: the whole state in memory, the whole state in every checkpoint.

For small state. What is written lies in thin layers on one sorted table and is merged into it
as `compaction.py` says, so that a small batch costs little until a checkpoint is due.

On disk, one run (`runs`) for each table and epoch:
`<epoch>_<attempt>-<partition>_<table>_<number>.run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import ClassVar

from holdfast.state.backends.layered import LayeredBackend
from holdfast.state.compaction import merge_from
from holdfast.state.files import Directory
from holdfast.state.layers import Layer
from holdfast.state.rows import Rows, joined, merged
from holdfast.state.runs import open_run, write_run
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Partition, Snapshot, StateFile
from holdfast.state.ttl import unexpired


class HeapBackend(LayeredBackend):
    """One sorted table in memory for each table of the operator."""

    name: ClassVar[str] = "heap"

    def __init__(
        self,
        directory: Directory,
        tables: Sequence[TableSchema],
        partition: Partition,
        *,
        attempt: str,
    ) -> None:
        super().__init__(directory, tables, partition, attempt=attempt)
        self._stack: dict[str, list[Rows]] = defaultdict(list)
        self._files: dict[str, StateFile] = {}
        """The file of each table that holds exactly what is in memory."""
        self._numbers = count()

    def restore(self, snapshot: Snapshot) -> None:
        """Read the tables of a snapshot into memory."""
        for table, rows, file in self._read(snapshot):
            self._stack[table] = [rows]
            self._files[table] = file

    def adopt(self, snapshot: Snapshot) -> None:
        """Read the rows of another split that belong here."""
        for table, rows, _ in self._read(snapshot):
            own = rows.where(self.partition.owns(rows.partition_hashes))
            self._stack[table] = [merged([*self._stack[table], own])]

    def _read(self, snapshot: Snapshot) -> list[tuple[str, Rows, StateFile]]:
        found = []
        for file in snapshot.files:
            table = self.tables.get(file.table)
            if table is not None:
                run = open_run(self.directory.locate(file), file, table)
                rows = joined([page.load() for page in run.layer.pages])
                found.append((table.name, rows, file))
        return found

    def layers(self, table: str) -> Sequence[Layer]:
        """Return the table, then what was written on top of it."""
        self.refuse_closed()
        return [Layer.in_memory(rows) for rows in self._stack[table]]

    def write(self, changes: Mapping[str, Rows]) -> None:
        """Put changes on top; merge them into the table when they have become many."""
        self.refuse_closed()
        for table, rows in changes.items():
            if len(rows):
                self._files.pop(table, None)
                stack = [*self._stack[table], rows]
                start = merge_from([len(layer) for layer in stack])
                if start is not None:
                    stack = [*stack[:start], merged(stack[start:])]
                self._stack[table] = stack

    def checkpoint(
        self, epoch: int, *, expired_before_ms: Mapping[str, int] | None = None
    ) -> Snapshot:
        """Write every table that changed, whole."""
        self.refuse_closed()
        expired = expired_before_ms or {}
        for table, schema in self.tables.items():
            if table in self._files or not self._stack[table]:
                continue
            rows = unexpired(merged(self._stack[table]).alive(), expired.get(table))
            self._stack[table] = [rows]
            name = f"{epoch}_{self.attempt}_{table}_{next(self._numbers)}.run"
            pieces = self.merge(table, self.layers(table))
            file = write_run(self.directory.path, name, schema, pieces, deletions=False)
            if file is not None:
                self._files[table] = file
        self.directory.sync()
        files = tuple(self._files[table] for table in self.tables if table in self._files)
        return self.describe(epoch, files)

    def close(self) -> None:
        """Let go of the memory."""
        self.closed = True
        self._stack.clear()
        self._files.clear()
