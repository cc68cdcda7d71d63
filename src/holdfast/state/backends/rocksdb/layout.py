"""Rows of a table as keys and values of the database; see the package for the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from holdfast.state.codes import FIRST
from holdfast.state.columns import Columns, Int64s
from holdfast.state.rowcodec import RowCodec
from holdfast.state.rows import Ranges, Rows
from holdfast.state.runs import NEVER_MS
from holdfast.state.schema import TableSchema

_SIGN: Final = np.uint64(2**63)
_KEY_HEAD: Final = (("table", ">u2"), ("code", ">u8"))
_CODE_BYTES: Final = 10


class RowLayout:
    """How rows of one table are keys and values of the database."""

    def __init__(self, schema: TableSchema, number: int) -> None:
        self.schema = schema
        self.number = number
        stamp = [("stamp", "<i8")] if schema.stamped else []
        self._keys = RowCodec(schema.stored_key, _KEY_HEAD)
        self._values = RowCodec(schema.stored_value, [("partition", "<i4"), *stamp])

    def keys(self, codes: Int64s, columns: Columns) -> list[bytes]:
        """Return the database's keys of some rows."""
        head = {"table": self.number, "code": codes.view(np.uint64) ^ _SIGN}
        return self._keys.encode(len(codes), columns, head)

    def values(self, rows: Rows) -> list[bytes]:
        """Return the database's values of some rows."""
        stamps = NEVER_MS if rows.stamps_ms is None else rows.stamps_ms
        head = {"partition": rows.partition_hashes, "stamp": stamps}
        return self._values.encode(len(rows), rows.values, head)

    def decode_values(self, values: Sequence[bytes]) -> tuple[Any, Int64s | None, Columns]:
        """Return partition hashes, stamps and value columns."""
        head, columns = self._values.decode(values)
        return head["partition"], head.get("stamp"), columns

    def rows(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Rows:
        """Return the rows that are stored under some keys."""
        head, key_columns = self._keys.decode(keys)
        codes = (head["code"].astype(np.uint64) ^ _SIGN).view(np.int64)
        partition_hashes, stamps_ms, value_columns = self.decode_values(values)
        return Rows(codes, partition_hashes, key_columns, value_columns, stamps_ms=stamps_ms)

    def bounds(self, ranges: Ranges) -> Iterator[tuple[bytes, bytes]]:
        """Yield the first key that can be in each range, and the first one behind it."""
        base = (self.number << 64) - FIRST
        for first, last in zip(ranges.first.tolist(), ranges.last.tolist(), strict=True):
            yield (
                (base + first).to_bytes(_CODE_BYTES, "big"),
                (base + last + 1).to_bytes(_CODE_BYTES, "big"),
            )


def same_code(key: bytes, other: bytes) -> bool:
    return key[:_CODE_BYTES] == other[:_CODE_BYTES]
