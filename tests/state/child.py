"""What the other process of a test does: `python child.py <task> <arguments>`.

Its state after any epoch is known beforehand, so that the test can say what must be there.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from holdfast.errors import DiskFull
from holdfast.state import (
    HOLDFAST_HASHES,
    Directory,
    Snapshot,
    Store,
    TableSchema,
    open_store,
)
from holdfast.state.catalogue import Catalogue

TABLES = [
    TableSchema(
        name,
        key=pa.schema([("k", pa.int64())]),
        value=pa.schema([("v", pa.int64()), ("text", pa.string())]),
        hashes=HOLDFAST_HASHES,
    )
    for name in ("left", "right")
]
ACKNOWLEDGED = "acknowledged.json"
KEYS = 60


def say(text: object) -> None:
    """Tell the test something."""
    print(text, flush=True)


def changes(epoch: int, table: str) -> tuple[dict[int, tuple[int, str]], list[int]]:
    """Return what an epoch puts into a table, and what it deletes."""
    shift = 0 if table == "left" else 7
    puts = [(epoch * 13 + n * 5 + shift) % KEYS for n in range(epoch % 9 + 1)]
    deletes = [(epoch * 11 + n * 3 + shift) % KEYS for n in range(epoch % 4)]
    return dict.fromkeys(puts, (epoch, f"{table} {epoch} " * 5)), deletes


def model(epoch: int, table: str) -> dict[int, tuple[int, str]]:
    """Return what a table holds at the end of an epoch."""
    result: dict[int, tuple[int, str]] = {}
    for number in range(epoch + 1):
        puts, deletes = changes(number, table)
        result = {key: value for key, value in result.items() if key not in deletes} | puts
    return result


def opened(directory: str, kind: str, snapshots: Sequence[Snapshot]) -> Store:
    """Open the state of a backend, with a changelog if its name says so."""
    backend, _, changelog = kind.partition("+")
    return open_store(
        Path(directory, "state"),
        TABLES,
        snapshots=snapshots,
        backend=backend,
        changelog=bool(changelog),
        materialize_every=3,
    )


def acknowledged(directory: str) -> list[Snapshot]:
    """Return the last snapshot that was acknowledged, if there is one."""
    path = Path(directory, ACKNOWLEDGED)
    return [Snapshot.from_document(json.loads(path.read_bytes()))] if path.exists() else []


def acknowledge(directory: str, snapshot: Snapshot) -> None:
    """Save a snapshot's description durably."""
    path = Path(directory, ACKNOWLEDGED)
    draft = path.with_suffix(".draft")
    with draft.open("w") as file:
        json.dump(snapshot.document(), file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def do_epoch(store: Store, epoch: int) -> Snapshot:
    """Do the changes of an epoch."""
    with store.begin(epoch, now_ms=0) as transaction:
        for schema in TABLES:
            table = transaction.table(schema.name)
            puts, deletes = changes(epoch, schema.name)
            table.delete(table.keys({"k": pa.array(deletes, pa.int64())}))
            values = {
                "v": pa.array([number for number, _ in puts.values()], pa.int64()),
                "text": pa.array([text for _, text in puts.values()]),
            }
            table.put(table.keys({"k": pa.array(list(puts), pa.int64())}), values)
        return transaction.commit()


def run(directory: str, kind: str) -> None:
    """Do one epoch after the other, say each acknowledged one, and reopen now and then."""
    while True:
        with opened(directory, kind, acknowledged(directory)) as store:
            first = store.epoch + 1
            for epoch in range(first, first + 8):
                acknowledge(directory, do_epoch(store, epoch))
                say(epoch)


def retain(directory: str, kind: str) -> None:
    """Do one epoch after the other, keep the last two of them, and say each kept one."""
    catalogue = Catalogue(Directory(Path(directory, "state")))
    with opened(directory, kind, catalogue.snapshots()) as store:
        while True:
            epoch = store.epoch + 1
            catalogue.keep([do_epoch(store, epoch)])
            say(epoch)
            catalogue.expire(catalogue.epochs()[-2:])


def fill(directory: str, kind: str, limit_bytes: str) -> None:
    """Do epochs while files may not grow beyond a limit; say what the error is called."""
    with opened(directory, kind, acknowledged(directory)) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), int(limit_bytes)))
        try:
            do_epoch(store, store.epoch + 1)
        except DiskFull as error:
            say(error.message)


TASKS = {task.__name__: task for task in (run, retain, fill)}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
