"""Changelog mode: an epoch writes its mutations only, whatever the size of the state.

Every `materialize_every` epochs the backend inside writes a checkpoint of its own; the epochs
in between write what changed as runs with the role `changelog`. Opening restores the last
checkpoint of the backend inside and replays the changes since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from holdfast.errors import StateMismatch
from holdfast.state.contract import Backend
from holdfast.state.keys import Keys
from holdfast.state.layers import Layer, scan
from holdfast.state.rows import Hits, Ranges, Rows, merged
from holdfast.state.runs import open_run, write_run
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import Snapshot, StateFile

ROLE: Final = "changelog"


class ChangelogBackend(Backend):
    """Any backend, with a log of mutations between its checkpoints."""

    def __init__(self, inner: Backend, *, materialize_every: int) -> None:
        super().__init__(inner.directory, list(inner.tables.values()), inner.partition, attempt="")
        self.attempt = inner.attempt
        if materialize_every < 1:
            raise StateMismatch(
                f"A changelog cannot be materialized every {materialize_every} epochs.",
                hint="Give 1 or more.",
            )
        self.name = f"{inner.name}+changelog"  # type: ignore[misc]  # one class, many backends
        self.caches_reads = inner.caches_reads  # type: ignore[misc]  # as above
        self._inner = inner
        self._every = materialize_every
        self._base: Snapshot | None = None
        """The last checkpoint of the backend inside."""
        self._segments: list[StateFile] = []
        """The logs written since, oldest first."""
        self._since_base = 0
        self._log: dict[str, list[Rows]] = defaultdict(list)
        """What was written since the last checkpoint of either kind."""
        self._must_materialize = False
        self._numbers = count()

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the last checkpoint of the backend inside and replay what came after it."""
        self._base, self._segments = _parts(snapshot)
        self._since_base = snapshot.details["since_base"]
        if self._base is not None:
            self._inner.restore(self._base)
        self._inner.write(self._replayed(self._segments, everything=True))
        # A table dropped now would be back, rows and all, if it were declared again while the
        # checkpoint or the logs that have it are still in use.
        self._must_materialize = any(table.name not in self.tables for table in snapshot.tables)

    def adopt(self, snapshot: Snapshot) -> None:
        """Adopt the same from another split; the next checkpoint is a materialized one."""
        base, segments = _parts(snapshot)
        if base is not None:
            self._inner.adopt(base)
        self._inner.write(self._replayed(segments, everything=False))
        self._must_materialize = True

    def _replayed(self, segments: Sequence[StateFile], *, everything: bool) -> dict[str, Rows]:
        changes = {}
        for name, schema in self.tables.items():
            layers = [
                open_run(self.directory.locate(file), file, schema).layer
                for file in segments
                if file.table == name
            ]
            pieces = list(scan(schema, layers, Ranges.everything()))
            if pieces:
                rows = merged(pieces)
                own = rows if everything else rows.where(self.partition.owns(rows.partition_hashes))
                changes[name] = own
        return changes

    def get(self, table: str, keys: Keys) -> Hits:
        """Ask the backend inside."""
        return self._inner.get(table, keys)

    def scan(self, table: str, ranges: Ranges) -> Iterator[Rows]:
        """Ask the backend inside."""
        return self._inner.scan(table, ranges)

    def write(self, changes: Mapping[str, Rows]) -> None:
        """Write to the backend inside, and remember for the log."""
        self._inner.write(changes)
        for table, rows in changes.items():
            if len(rows):
                self._log[table].append(rows)

    def checkpoint(
        self, epoch: int, *, expired_before_ms: Mapping[str, int] | None = None
    ) -> Snapshot:
        """Write the mutations of the epoch, or everything when it is time for that."""
        if self._must_materialize or self._since_base + 1 >= self._every:
            self._base = self._inner.checkpoint(epoch, expired_before_ms=expired_before_ms)
            self._segments, self._since_base, self._must_materialize = [], 0, False
        else:
            self._segments = [*self._segments, *self._write_log(epoch)]
            self._since_base += 1
            self.directory.sync()
        self._log.clear()
        return self._snapshot(epoch)

    def _write_log(self, epoch: int) -> Iterator[StateFile]:
        for table, log in self._log.items():
            rows = merged(log)
            schema = self.tables[table]
            name = f"{epoch}_{self.attempt}_{table}_{next(self._numbers)}.log.run"
            pieces = scan(schema, [Layer.in_memory(rows)], Ranges.everything())
            deletions = rows.dead is not None
            file = write_run(
                self.directory.path, name, schema, pieces, deletions=deletions, role=ROLE
            )
            if file is not None:
                yield file

    def _snapshot(self, epoch: int) -> Snapshot:
        base = self._base
        files = (*(base.files if base else ()), *self._segments)
        details: dict[str, Any] = {"since_base": self._since_base, "base": None}
        if base is not None:
            details["base"] = {
                "epoch": base.epoch,
                # As they were declared then: since, tables may have come, gone or changed.
                "tables": [table.document() for table in base.tables],
                "details": dict(base.details),
            }
        return self.describe(epoch, files, details)

    def close(self) -> None:
        """Close the backend inside."""
        self._log.clear()
        self._inner.close()


def _parts(snapshot: Snapshot) -> tuple[Snapshot | None, list[StateFile]]:
    """Take a snapshot apart: the checkpoint of the backend inside, and the logs after it."""
    segments = [file for file in snapshot.files if file.role == ROLE]
    base = snapshot.details["base"]
    if base is None:
        return None, segments
    files = tuple(file for file in snapshot.files if file.role != ROLE)
    inner = replace(
        snapshot,
        backend=snapshot.backend.removesuffix("+changelog"),
        epoch=base["epoch"],
        tables=tuple(TableSchema.from_document(table) for table in base["tables"]),
        files=files,
        details=base["details"],
    )
    return inner, segments
