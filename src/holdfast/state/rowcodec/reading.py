"""Reading the bytes of many rows at once, from the front of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.state.columns import Int64s
from holdfast.state.rowcodec.arrays import binary_array, damaged_row


class Reader:
    """Rows behind one another, and how far into each of them we have read."""

    def __init__(self, rows: Sequence[bytes]) -> None:
        self._bytes = b"".join(rows)
        self._lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        self._ends = np.cumsum(self._lengths)
        self._at = self._ends - self._lengths

    def fixed(self, dtype: np.dtype[Any], *, exactly: bool) -> npt.NDArray[Any]:
        """Read one item a row; with `exactly`, it must be all there is of a row."""
        if exactly:
            if (self._lengths != dtype.itemsize).any():
                raise damaged_row()
            self._at = self._ends
            if not dtype.itemsize:
                return np.empty(len(self._lengths), dtype)
            return np.frombuffer(self._bytes, dtype)
        return self.items(dtype, np.arange(len(self._at) + 1))

    def items(self, dtype: np.dtype[Any], bounds: Int64s) -> npt.NDArray[Any]:
        """Read as many items in every row as lie between its bounds."""
        width = dtype.itemsize
        counts = np.diff(bounds)
        start = self._advance(counts * width)
        if not bounds[-1] or not width:
            return np.empty(bounds[-1], dtype)
        if len(counts) == bounds[-1] and (counts == 1).all():
            where = start
        else:
            where = np.repeat(start - bounds[:-1] * width, counts)
            where += np.arange(bounds[-1]) * width
        # A window at every byte: fancy indexing copies items from any address.
        windows = np.ndarray(
            (len(self._bytes) - width + 1,), f"V{width}", self._bytes, strides=(1,)
        )
        return np.asarray(windows[where].view(dtype))

    def spans(self, lengths: Int64s) -> pa.Buffer:
        """Read some bytes in every row; return them all behind one another."""
        start = self._advance(lengths)
        offsets = np.empty(2 * len(start), np.int64)
        offsets[0::2], offsets[1::2] = start, start + lengths
        every = binary_array(offsets, pa.py_buffer(self._bytes))
        return every.take(pa.array(np.arange(0, len(every), 2))).buffers()[2]

    def _advance(self, lengths: Int64s) -> Int64s:
        start = self._at
        self._at = start + lengths
        if (self._at > self._ends).any():
            raise damaged_row()
        return start

    def finish(self) -> None:
        """Raise unless every row was read to its end."""
        if (self._at != self._ends).any():
            raise damaged_row()
