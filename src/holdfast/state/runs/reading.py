"""Opening a run: the footer at once, a page when it is first needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from holdfast.errors import StateFormatMismatch
from holdfast.state.columns import Bools
from holdfast.state.files import damaged, translated
from holdfast.state.layers import Layer, Page
from holdfast.state.rows import Rows
from holdfast.state.runs.layout import ENDING, FORMAT, MAGIC, NEVER_MS, TRAILER_BYTES
from holdfast.state.schema import TableSchema
from holdfast.state.snapshot import StateFile


@dataclass(frozen=True)
class Run:
    """An open run: its description and its rows, page by page."""

    file: StateFile
    layer: Layer
    dead: int
    """How many of its rows are deletions."""


def open_run(path: Path, file: StateFile, schema: TableSchema) -> Run:
    """Map a run into memory and check its footer; the pages are checked when they are needed."""
    content = _map(path)
    footer = _read_footer(path, content, file.footer)
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


def _read_footer(path: Path, content: pa.Buffer, recorded: str) -> dict[str, Any]:
    if content.size < TRAILER_BYTES:
        raise damaged(path, f"it is only {content.size} bytes long")
    trailer = content.slice(content.size - TRAILER_BYTES).to_pybytes()
    ending = trailer[12:]
    if not ending.startswith(MAGIC):
        raise damaged(path, "it does not end like a run; it may be truncated")
    if ending != ENDING:
        raise StateFormatMismatch(
            f"The state file {path} has format {ending[len(MAGIC) :].decode(errors='replace')}; "
            f"this version reads format {FORMAT:03d}.",
            hint="Open it with the version of Holdfast that wrote it.",
        )
    length = int.from_bytes(trailer[8:12], "little")
    if length > content.size - TRAILER_BYTES:
        raise damaged(path, "its footer is longer than the file")
    footer = content.slice(content.size - TRAILER_BYTES - length, length).to_pybytes()
    if xxh3_64_intdigest(footer) != int.from_bytes(trailer[:8], "little"):
        raise damaged(path, "its footer is not the one that was written")
    if recorded and xxh3_64_hexdigest(footer) != recorded:
        raise damaged(path, "it is a run, but not the one that the snapshot names")
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
