"""Savepoints: state in a form that every backend writes and reads.

A savepoint is a directory of runs (`runs.py`), one for each table of each partition, sorted and
without deletions, and a document that names them:

    <index>of<count>_<table>.run
    savepoint.json              {"snapshots": [...]}, see `documents.py` and `snapshot.py`

Each partition writes its own part, wherever it runs; the savepoint exists once the document
does. It opens with any backend, under any number of partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from holdfast.errors import StateError, StateMismatch
from holdfast.state import documents
from holdfast.state.contract import Backend
from holdfast.state.files import Directory
from holdfast.state.rows import Ranges
from holdfast.state.runs import open_run, write_run
from holdfast.state.snapshot import Snapshot, sources

BACKEND: Final = "savepoint"
"""What a savepoint's snapshots have in the place of a backend's name."""

_DOCUMENT: Final = "savepoint.json"


def write_part(backend: Backend, directory: str | Path, *, epoch: int) -> Snapshot:
    """Write the committed state of one partition as its part of a savepoint."""
    place = Directory(Path(directory))
    files = []
    for name, schema in backend.tables.items():
        target = f"{backend.partition.index}of{backend.partition.count}_{name}.run"
        pieces = backend.scan(name, Ranges.everything())
        file = write_run(place.path, target, schema, pieces, deletions=False, role=BACKEND)
        if file is not None:
            files.append(file)
    place.sync()
    names = frozenset(file.name for file in files)
    tables = tuple(backend.tables.values())
    return Snapshot(BACKEND, epoch, backend.partition, tables, tuple(files), names)


def seal_savepoint(directory: str | Path, parts: Sequence[Snapshot]) -> None:
    """Make the parts that all partitions have written one savepoint."""
    counts = {part.partition.count for part in parts}
    indexes = sorted(part.partition.index for part in parts)
    epochs = sorted({part.epoch for part in parts})
    if len(epochs) > 1:
        raise StateMismatch(
            f"The parts of the savepoint {directory} are of different epochs: {epochs}.",
            hint="Write the parts of all partitions after one epoch, before the next.",
        )
    if len(counts) != 1 or indexes != list(range(*counts)):
        raise StateMismatch(
            f"The savepoint {directory} is not complete: it has the parts of partitions {indexes}.",
            hint="Write the part of every partition, each once, before sealing it.",
        )
    content = {"snapshots": [part.document() for part in parts]}
    documents.save(Path(directory) / _DOCUMENT, content)


def read_savepoint(directory: str | Path) -> tuple[Snapshot, ...]:
    """Return the parts of a sealed savepoint."""
    path = Path(directory) / _DOCUMENT
    if not path.exists():
        raise StateError(
            f"{directory} is not a savepoint: it has no {_DOCUMENT}.",
            hint="Name the directory of a savepoint; one that was not completed cannot be used.",
        )
    content = documents.load(path)
    return tuple(Snapshot.from_document(document) for document in content["snapshots"])


def load_savepoint(
    backend: Backend,
    directory: str | Path,
    parts: Sequence[Snapshot],
    *,
    drop: Collection[str] = (),
) -> None:
    """Write what the parts of a savepoint hold for a partition into an empty backend.

    It counts, like every write, from the next checkpoint on.
    """
    place = Directory(Path(directory))
    for part in sources(parts, backend.partition):
        backend.refuse_other_tables(part, drop)
        for file in part.files:
            schema = backend.tables.get(file.table)
            if schema is not None:
                run = open_run(place.locate(file), file, schema)
                for page in run.layer.pages:
                    rows = page.load()
                    own = rows.where(backend.partition.owns(rows.partition_hashes))
                    backend.write({schema.name: own})
