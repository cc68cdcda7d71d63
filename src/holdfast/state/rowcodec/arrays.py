"""Arrow arrays taken apart into their buffers, and put together from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.errors import StateDamaged
from holdfast.state.columns import Bools, Int64s

Piece: TypeAlias = tuple[Int64s, npt.NDArray[Any] | pa.Buffer]
"""Bytes of all rows behind one another, and where those of each row begin and end."""


def present_in(array: pa.Array) -> Bools:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid())


def offsets_of(array: pa.Array) -> Int64s:
    """Return where the values of a variable-length column begin and end."""
    small = pt.is_map(array.type) or pt.is_list(array.type)
    if not len(array):
        return np.zeros(1, np.int64)
    whole = np.frombuffer(array.buffers()[1], np.int32 if small else np.int64)
    mine = whole[array.offset : array.offset + len(array) + 1]
    return np.asarray(mine, np.int64)


def summed(lengths: npt.NDArray[Any]) -> Int64s:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def bitmap(flags: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def validity(present: Bools) -> pa.Buffer | None:
    return None if present.all() else bitmap(present)


def flat_array(type_: pa.DataType, present: Bools, *data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(type_, len(present), [validity(present), *data])


def nested_array(
    type_: pa.DataType, length: int, buffers: list[Any], children: list[pa.Array]
) -> pa.Array:
    return pa.Array.from_buffers(type_, length, buffers, children=children)


def binary_array(offsets: Int64s, data: npt.NDArray[Any] | pa.Buffer) -> pa.Array:
    if isinstance(data, np.ndarray):
        data = pa.py_buffer(np.ascontiguousarray(data).view(np.uint8))
    length = max(len(offsets) - 1, 0)
    return pa.Array.from_buffers(
        pa.large_binary(), length, [None, pa.py_buffer(np.ascontiguousarray(offsets)), data]
    )


def join(pieces: Sequence[Piece]) -> pa.Array:
    arrays = [binary_array(offsets, data) for offsets, data in pieces]
    return pc.binary_join_element_wise(*arrays, pa.scalar(b"", pa.large_binary()))


def split(rows: pa.Array) -> list[bytes]:
    if not len(rows):
        return []
    data = rows.buffers()[2].to_pybytes()
    cuts = offsets_of(rows).tolist()
    return [data[start:stop] for start, stop in pairwise(cuts)]


def split_evenly(fixed: npt.NDArray[Any]) -> list[bytes]:
    if not fixed.dtype.itemsize:
        return [b""] * len(fixed)
    rows: list[bytes] = fixed.view(f"V{fixed.dtype.itemsize}").tolist()
    return rows


def damaged_row() -> StateDamaged:
    return StateDamaged(
        "A stored row of keyed state is damaged: its length does not fit its columns.",
        hint="Open an older checkpoint.",
    )
