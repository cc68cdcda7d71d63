"""What writers and readers of a run agree on."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from holdfast.state.schema import TableSchema

FORMAT: Final = 1
MAGIC: Final = b"HFRUN"
ENDING: Final = MAGIC + f"{FORMAT:03d}".encode()
TRAILER_BYTES: Final = 8 + 4 + len(ENDING)

NEVER_MS: Final = 2**63 - 1
"""The stamp of rows written before their table had stamps: they expire once written again."""


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
