"""Writing a run: pages as they come, then the footer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest, xxh3_128

from holdfast import failpoints
from holdfast.state.files import create_new, sync_file, translated
from holdfast.state.rows import Rows
from holdfast.state.runs.layout import ENDING, file_schema
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import StateFile


def write_run(
    directory: Path,
    name: str,
    schema: TableSchema,
    pieces: Iterable[Rows],
    *,
    deletions: bool,
    role: str = "run",
) -> StateFile | None:
    """Write sorted pieces of a table as one durable file; `None` if there is not a row.

    The pieces must follow one another in the order of their codes, and only if `deletions` may
    they have some. The caller makes the directory durable.
    """
    path = directory / name
    writer = _Writer(path, schema, flags=deletions)
    try:
        with translated(path, "written"):
            for piece in pieces:
                if len(piece):
                    writer.add(piece)
            if not writer.pages:
                return None
            checksum, footer = writer.finish()
        failpoints.reach("state.write", name)
        sync_file(path)
    except Exception:
        writer.abandon()
        raise
    return StateFile(
        name=name,
        bytes=path.stat().st_size,
        checksum=checksum,
        table=schema.name,
        rows=sum(page["rows"] for page in writer.pages),
        role=role,
        footer=footer,
    )


class _Writer:
    def __init__(self, path: Path, schema: TableSchema, *, flags: bool) -> None:
        self.path = path
        self.schema = schema
        self.pages: list[dict[str, Any]] = []
        self._flags = flags
        self._sink: pa.NativeFile = None
        self._arrow: pa.RecordBatchWriter = None
        self._head_bytes = 0
        self._created = False

    def add(self, rows: Rows) -> None:
        if self._sink is None:
            self._begin()
        # Arrow writes the schema together with the first page.
        begin = self._sink.tell() or self._head_bytes
        self._arrow.write_batch(_as_batch(rows, self.schema, flags=self._flags))
        self.pages.append(
            {
                "offset": begin,
                "bytes": self._sink.tell() - begin,
                "rows": len(rows),
                "dead": 0 if rows.dead is None else int(rows.dead.sum()),
                "first": int(rows.codes[0]),
                "last": int(rows.codes[-1]),
            }
        )

    def _begin(self) -> None:
        create_new(self.path)
        self._created = True
        self._sink = pa.OSFile(str(self.path), "wb")
        columns = file_schema(self.schema, flags=self._flags)
        self._head_bytes = columns.serialize().size
        self._arrow = pa.ipc.new_stream(self._sink, columns)

    def finish(self) -> tuple[str, str]:
        """Write the footer and return the checksums of the whole file and of the footer."""
        self._arrow.close()
        self._sink.close()
        with pa.memory_map(str(self.path)) as mapped:
            content = memoryview(mapped.read_buffer())
            for page in self.pages:
                page["checksum"] = xxh3_64_hexdigest(
                    content[page["offset"] : page["offset"] + page["bytes"]]
                )
            whole = xxh3_128(content)
            head = xxh3_64_hexdigest(content[: self._head_bytes])
        footer = json.dumps(
            {
                "table": self.schema.document(),
                "rows": sum(page["rows"] for page in self.pages),
                "dead": sum(page["dead"] for page in self.pages),
                "schema": {"bytes": self._head_bytes, "checksum": head},
                "pages": self.pages,
            },
            separators=(",", ":"),
        ).encode()
        trailer = footer + _integer(xxh3_64_intdigest(footer), 8) + _integer(len(footer), 4)
        with self.path.open("ab") as file:
            file.write(trailer + ENDING)
        whole.update(trailer + ENDING)
        return str(whole.hexdigest()), str(xxh3_64_hexdigest(footer))

    def abandon(self) -> None:
        """Remove what was written so far."""
        if self._sink is not None:
            self._sink.close()
        if self._created:
            self.path.unlink(missing_ok=True)


def _integer(value: int, length: int) -> bytes:
    return value.to_bytes(length, "little")


def _as_batch(rows: Rows, schema: TableSchema, *, flags: bool) -> pa.RecordBatch:
    arrays = [pa.array(rows.codes), pa.array(rows.partition_hashes)]
    if flags:
        dead = np.zeros(len(rows), np.bool_) if rows.dead is None else rows.dead
        arrays.append(pa.array(dead))
    if schema.stamped:
        arrays.append(pa.array(rows.stamps_ms))
    arrays += [*rows.keys, *rows.values]
    return pa.RecordBatch.from_arrays(arrays, schema=file_schema(schema, flags=flags))
