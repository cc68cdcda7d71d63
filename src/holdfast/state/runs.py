"""A run: one immutable file of sorted rows of one table.

A run is an Arrow IPC stream, readable by any Arrow library as it is, with a footer behind it:

    Arrow stream    schema message; one record-batch message a page, at most about a million
                    rows each; end-of-stream marker
    footer          JSON, UTF-8 (below)
    8 bytes         xxh3_64 of the footer, little-endian
    4 bytes         length of the footer, little-endian
    8 bytes         "HFRUN", then the format version as three digits: HFRUN001

The columns of a page, sorted by `__code`, rows of equal code never in two pages:

    __code            int64   see `codes.py`
    __partition_hash  int32   Spark's hash(keys), or Holdfast's own
    __dead            bool    only in pages with deletions
    __stamp           int64   only in stamped tables: milliseconds since 1970, last touched
    key columns, then value columns, under their own names, in the engine's storage types

The footer:

    {"table": the table's declaration, "rows": 500000, "dead": 0,
     "schema": {"bytes": 512, "checksum": "xxh3_64 of the schema message, hexadecimal"},
     "pages": [{"offset": 512, "bytes": 18000448, "rows": 500000, "dead": 0,
                "first": -9223, "last": 9223, "checksum": "xxh3_64 of the page"}]}

The footer is checked when a run is opened, a page when something in it is first needed: what
was truncated or changed is refused by name before a single row of it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest, xxh3_128

from holdfast import failpoints
from holdfast.errors import StateFormatMismatch
from holdfast.state.columns import Bools
from holdfast.state.files import create_new, damaged, sync_file, translated
from holdfast.state.layers import Layer, Page
from holdfast.state.rows import Rows
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import StateFile

FORMAT: Final = 1
NEVER_MS: Final = 2**63 - 1
"""The stamp of rows written before their table had stamps: they expire once written again."""

_MAGIC: Final = b"HFRUN"
_ENDING: Final = _MAGIC + f"{FORMAT:03d}".encode()
_TRAILER: Final = 8 + 4 + len(_ENDING)


@dataclass(frozen=True)
class Run:
    """An open run: its description and its rows, page by page."""

    file: StateFile
    layer: Layer
    dead: int
    """How many of its rows are deletions."""


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
            checksum = writer.finish()
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
        self._sink = pa.OSFile(str(self.path), "wb")
        columns = file_schema(self.schema, flags=self._flags)
        self._head_bytes = columns.serialize().size
        self._arrow = pa.ipc.new_stream(self._sink, columns)

    def finish(self) -> str:
        """Write the footer and return the checksum of the whole file."""
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
            file.write(trailer + _ENDING)
        whole.update(trailer + _ENDING)
        return str(whole.hexdigest())

    def abandon(self) -> None:
        """Remove what was written so far."""
        if self._sink is not None:
            self._sink.close()
            self.path.unlink(missing_ok=True)


def _integer(value: int, length: int) -> bytes:
    return value.to_bytes(length, "little")


def file_schema(schema: TableSchema, *, flags: bool) -> pa.Schema:
    """Return the columns of a run's pages."""
    fields = [
        pa.field("__code", pa.int64(), nullable=False),
        pa.field("__partition_hash", pa.int32(), nullable=False),
    ]
    if flags:
        fields.append(pa.field("__dead", pa.bool_(), nullable=False))
    if schema.stamped:
        fields.append(pa.field("__stamp", pa.int64(), nullable=False))
    for field, stored in zip(schema.key, schema.stored_key, strict=True):
        fields.append(pa.field(field.name, stored))
    for field, stored in zip(schema.value, schema.stored_value, strict=True):
        fields.append(pa.field(field.name, stored))
    return pa.schema(fields)


def _as_batch(rows: Rows, schema: TableSchema, *, flags: bool) -> pa.RecordBatch:
    arrays = [pa.array(rows.codes), pa.array(rows.partition_hashes)]
    if flags:
        dead = np.zeros(len(rows), np.bool_) if rows.dead is None else rows.dead
        arrays.append(pa.array(dead))
    if schema.stamped:
        arrays.append(pa.array(rows.stamps_ms))
    arrays += [*rows.keys, *rows.values]
    return pa.RecordBatch.from_arrays(arrays, schema=file_schema(schema, flags=flags))


def open_run(path: Path, file: StateFile, schema: TableSchema) -> Run:
    """Map a run into memory and check its footer; the pages are checked when they are needed."""
    content = _map(path)
    footer = _read_footer(path, content)
    stored = TableSchema.from_document(footer["table"])
    schema.refuse_other(stored)
    head = content.slice(0, footer["schema"]["bytes"])
    if xxh3_64_hexdigest(memoryview(head)) != footer["schema"]["checksum"]:
        raise damaged(path, "its schema is not the one that was written")
    columns = pa.ipc.read_schema(head)
    pages = [
        Page(
            page["first"],
            page["last"],
            page["rows"],
            _PageLoader(path, content, columns, schema, stored, page, number),
        )
        for number, page in enumerate(footer["pages"])
    ]
    return Run(file, Layer.of(pages), footer["dead"])


def _map(path: Path) -> pa.Buffer:
    with translated(path, "read"):
        try:
            with pa.memory_map(str(path)) as mapped:
                return mapped.read_buffer()
        except FileNotFoundError:
            raise damaged(path, "it is missing") from None


def _read_footer(path: Path, content: pa.Buffer) -> dict[str, Any]:
    if content.size < _TRAILER:
        raise damaged(path, f"it is only {content.size} bytes long")
    trailer = content.slice(content.size - _TRAILER).to_pybytes()
    ending = trailer[12:]
    if not ending.startswith(_MAGIC):
        raise damaged(path, "it does not end like a run; it may be truncated")
    if ending != _ENDING:
        raise StateFormatMismatch(
            f"The state file {path} has format {ending[len(_MAGIC) :].decode(errors='replace')}; "
            f"this version reads format {FORMAT:03d}.",
            hint="Open it with the version of Holdfast that wrote it.",
        )
    length = int.from_bytes(trailer[8:12], "little")
    if length > content.size - _TRAILER:
        raise damaged(path, "its footer is longer than the file")
    footer = content.slice(content.size - _TRAILER - length, length).to_pybytes()
    if xxh3_64_intdigest(footer) != int.from_bytes(trailer[:8], "little"):
        raise damaged(path, "its footer is not the one that was written")
    document: dict[str, Any] = json.loads(footer)
    return document


class _PageLoader:
    """Checks a page the first time it is needed and keeps it mapped."""

    def __init__(
        self,
        path: Path,
        content: pa.Buffer,
        columns: pa.Schema,
        declared: TableSchema,
        stored: TableSchema,
        page: dict[str, Any],
        number: int,
    ) -> None:
        self._read = partial(_read_page, path, content, columns, declared, stored, page, number)
        self._rows: Rows | None = None

    def __call__(self) -> Rows:
        if self._rows is None:
            self._rows = self._read()
        return self._rows


def _read_page(
    path: Path,
    content: pa.Buffer,
    columns: pa.Schema,
    declared: TableSchema,
    stored: TableSchema,
    page: dict[str, Any],
    number: int,
) -> Rows:
    piece = content.slice(page["offset"], page["bytes"])
    if xxh3_64_hexdigest(memoryview(piece)) != page["checksum"]:
        raise damaged(path, f"page {number} is not the one that was written")
    batch = pa.ipc.read_record_batch(piece, columns)
    rows = len(batch)
    keys = len(declared.key)
    first = len(columns) - keys - len(declared.value)
    stamps = None
    if declared.stamped:
        stamps = (
            batch.column("__stamp").to_numpy()
            if stored.stamped
            else np.full(rows, NEVER_MS, np.int64)
        )
    return Rows(
        batch.column("__code").to_numpy(),
        batch.column("__partition_hash").to_numpy(),
        tuple(batch.column(first + number) for number in range(keys)),
        tuple(batch.column(number) for number in range(first + keys, len(columns))),
        _flags(batch) if page["dead"] else None,
        stamps,
    )


def _flags(batch: pa.RecordBatch) -> Bools:
    return np.asarray(batch.column("__dead").to_numpy(zero_copy_only=False), np.bool_)
