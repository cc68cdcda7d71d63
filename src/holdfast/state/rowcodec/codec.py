"""The codec: what stands in front of a row, its columns, and the columns' tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.state.columns import Bools, Columns
from holdfast.state.rowcodec.arrays import Piece, join, present_in, split, split_evenly
from holdfast.state.rowcodec.kinds import NO_SLOTS, kind_of
from holdfast.state.rowcodec.reading import Reader

FORMAT: Final = 1
"""The version of the layout of rows."""

Head: TypeAlias = Sequence[tuple[str, str]]
"""The names and NumPy types of the fields in front of a row."""


class RowCodec:
    """Encodes and decodes the rows of some columns."""

    def __init__(self, types: Sequence[pa.DataType], head: Head = ()) -> None:
        self._kinds = [kind_of(type_) for type_ in types]
        self._head = [name for name, _ in head]
        self._presence_bytes = (len(types) + 7) // 8
        fields: list[Any] = [(f"head_{name}", dtype) for name, dtype in head]
        if types:
            fields.append(("presence", np.uint8, (self._presence_bytes,)))
        for number, kind in enumerate(self._kinds):
            if kind.slot.itemsize:
                fields.append((str(number), kind.slot))
        self._fixed = np.dtype(fields)
        self._has_tails = any(kind.has_tail for kind in self._kinds)

    def encode(
        self, rows: int, columns: Columns, head: Mapping[str, Any] | None = None
    ) -> list[bytes]:
        """Return the bytes of every row; `head` has a value or an array for every field."""
        present = [present_in(column) for column in columns]
        fixed = np.empty(rows, self._fixed)
        for name in self._head:
            fixed[f"head_{name}"] = (head or {})[name]
        if columns:
            fixed["presence"] = self._pack(columns, present)
        columns = tuple(
            kind.settled(column) for kind, column in zip(self._kinds, columns, strict=True)
        )
        for number, kind in enumerate(self._kinds):
            if kind.slot.itemsize:
                fixed[str(number)] = kind.slots(columns[number], present[number])
        if not self._has_tails:
            return split_evenly(fixed)
        bounds = np.arange(rows + 1)
        pieces: list[Piece] = [(bounds * self._fixed.itemsize, fixed)]
        for kind, column, there in zip(self._kinds, columns, present, strict=True):
            pieces.extend(kind.tails(column, there, bounds))
        return split(join(pieces))

    def _pack(self, columns: Columns, present: Sequence[Bools]) -> npt.NDArray[np.uint8]:
        if not any(column.null_count for column in columns):
            return np.full(self._presence_bytes, 0xFF, np.uint8)
        flags = np.ones((len(columns[0]), self._presence_bytes * 8), np.bool_)
        for number, there in enumerate(present):
            flags[:, number] = there
        return np.packbits(flags, axis=1, bitorder="little")

    def decode(self, rows: Sequence[bytes]) -> tuple[dict[str, npt.NDArray[Any]], Columns]:
        """Return the fields of the head and the columns; raise if a row cannot be one."""
        reader = Reader(rows)
        fixed = reader.fixed(self._fixed, exactly=not self._has_tails)
        head = {name: np.ascontiguousarray(fixed[f"head_{name}"]) for name in self._head}
        present = self._unpack(fixed)
        bounds = np.arange(len(rows) + 1)
        columns = []
        for number, kind in enumerate(self._kinds):
            slots = np.ascontiguousarray(fixed[str(number)]) if kind.slot.itemsize else NO_SLOTS
            columns.append(kind.array(reader, present[number], slots, bounds))
        reader.finish()
        return head, tuple(columns)

    def _unpack(self, fixed: npt.NDArray[Any]) -> list[Bools]:
        if not self._kinds:
            return []
        packed = fixed["presence"]
        if (packed == 0xFF).all():
            return [np.ones(len(fixed), np.bool_)] * len(self._kinds)
        flags = np.unpackbits(packed, axis=1, bitorder="little").view(np.bool_)
        return [np.ascontiguousarray(flags[:, number]) for number in range(len(self._kinds))]
