"""Rows as bytes: Arrow columns to one bytes object a row, and back, a column at a time.

Key-value stores hold rows; the engine has columns. Format 1, little-endian, no padding:

    head        fixed-width fields that the caller puts in front, in any byte order
    presence    one bit a column, 1 where the row has a value: column 0 is the lowest bit of the
                first byte; unused bits are 1
    slots       for each column, in order
                    number, date, time, decimal, fixed-size binary    its bytes; zeros for null
                    boolean                 1 byte, 0 or 1
                    text, binary            4 bytes: how many bytes; 0 for null
                    list, map               4 bytes: how many elements; 0 for null
                    struct, fixed-size list, null                     nothing
    tails       for each column, in order
                    text, binary            the bytes
                    list                    one block of its elements
                    map                     one block of its keys, one of its items
                    struct                  for each field, one block of 1 value
                    fixed-size list         one block of its elements; of none for null
                    anything else           nothing

A block holds `k` values of one type; what precedes it says how many:

    presence    k bytes, 0 or 1
    slots       k slots as above
    tails       as above, of the k values together: the bytes of all texts, one block of the
                elements of all lists, and so on

So a row of fixed-width columns has a fixed length, and two rows of key columns have the same
bytes exactly if they are the same key: nulls are equal, and what lies under a null is zeros.
Only the struct differs: what lies under a null one is kept, and it is never in a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.errors import StateDamaged, StateError, StateMismatch
from holdfast.state.columns import Bools, Columns, Int64s

FORMAT: Final = 1
"""The version of the layout above."""

Head: TypeAlias = Sequence[tuple[str, str]]
"""The names and NumPy types of the fields in front of a row."""

_Piece: TypeAlias = tuple[Int64s, npt.NDArray[Any] | pa.Buffer]
"""Bytes of all rows behind one another, and where those of each row begin and end."""

_COUNT: Final = np.dtype("<u4")
_LONGEST: Final = 2**32 - 1


class RowCodec:
    """Encodes and decodes the rows of some columns."""

    def __init__(self, types: Sequence[pa.DataType], head: Head = ()) -> None:
        self._kinds = [_kind(type_) for type_ in types]
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
        present = [_present(column) for column in columns]
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
            return _split_evenly(fixed)
        bounds = np.arange(rows + 1)
        pieces: list[_Piece] = [(bounds * self._fixed.itemsize, fixed)]
        for kind, column, there in zip(self._kinds, columns, present, strict=True):
            pieces.extend(kind.tails(column, there, bounds))
        return _split(_join(pieces))

    def _pack(self, columns: Columns, present: Sequence[Bools]) -> npt.NDArray[np.uint8]:
        if not any(column.null_count for column in columns):
            return np.full(self._presence_bytes, 0xFF, np.uint8)
        flags = np.ones((len(columns[0]), self._presence_bytes * 8), np.bool_)
        for number, there in enumerate(present):
            flags[:, number] = there
        return np.packbits(flags, axis=1, bitorder="little")

    def decode(self, rows: Sequence[bytes]) -> tuple[dict[str, npt.NDArray[Any]], Columns]:
        """Return the fields of the head and the columns; raise if a row cannot be one."""
        reader = _Reader(rows)
        fixed = reader.fixed(self._fixed, exactly=not self._has_tails)
        head = {name: np.ascontiguousarray(fixed[f"head_{name}"]) for name in self._head}
        present = self._unpack(fixed)
        bounds = np.arange(len(rows) + 1)
        columns = []
        for number, kind in enumerate(self._kinds):
            slots = np.ascontiguousarray(fixed[str(number)]) if kind.slot.itemsize else _NOTHING
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


class _Reader:
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
                raise _damaged()
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
        every = _binary(offsets, pa.py_buffer(self._bytes))
        return every.take(pa.array(np.arange(0, len(every), 2))).buffers()[2]

    def _advance(self, lengths: Int64s) -> Int64s:
        start = self._at
        self._at = start + lengths
        if (self._at > self._ends).any():
            raise _damaged()
        return start

    def finish(self) -> None:
        """Raise unless every row was read to its end."""
        if (self._at != self._ends).any():
            raise _damaged()


class _Kind(ABC):
    """How values of one type are laid out."""

    slot: np.dtype[Any] = np.dtype("V0")
    has_tail = True

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    def settled(self, array: pa.Array) -> pa.Array:
        """Return the same values with nothing under the nulls that would take space."""
        return array

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        """Return the slot of every value."""
        raise NotImplementedError  # only called if a slot has a size

    @abstractmethod
    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        """Yield what follows the slots of the values between the bounds of each row."""

    @abstractmethod
    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        """Read what follows the slots and return the values."""

    def block(self, array: pa.Array, bounds: Int64s) -> Iterator[_Piece]:
        """Yield the block of the values between the bounds of each row."""
        present, array = _present(array), self.settled(array)
        yield bounds, present
        if self.slot.itemsize:
            yield bounds * self.slot.itemsize, self.slots(array, present)
        yield from self.tails(array, present, bounds)

    def read(self, reader: _Reader, bounds: Int64s) -> pa.Array:
        """Read a block of as many values in every row as lie between its bounds."""
        present = reader.items(np.dtype(np.bool_), bounds)
        slots = reader.items(self.slot, bounds) if self.slot.itemsize else _NOTHING
        return self.array(reader, present, slots, bounds)


class _Fixed(_Kind):
    has_tail = False

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.slot = np.dtype(f"V{type_.bit_width // 8}")

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        if not len(array):
            return np.empty(0, self.slot)
        whole = np.frombuffer(array.buffers()[1], self.slot, count=array.offset + len(array))
        slots = whole[array.offset :]
        if not present.all():
            slots = slots.copy()
            slots.view(np.uint8).reshape(len(slots), -1)[~present] = 0
        return slots

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        yield from ()

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        return _array(self.type, present, pa.py_buffer(slots.view(np.uint8)))


class _Bool(_Fixed):
    def __init__(self, type_: pa.DataType) -> None:
        super(_Fixed, self).__init__(type_)
        self.slot = np.dtype(np.bool_)

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        return np.asarray(array.fill_null(False))

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        return _array(self.type, present, _bitmap(slots))


class _Null(_Kind):
    """The type of which every value is null; also binary of zero bytes."""

    has_tail = False

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        yield from ()

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        if pt.is_null(self.type):
            return pa.nulls(len(present))
        return _array(self.type, present, pa.py_buffer(b""))


class _Text(_Kind):
    slot = _COUNT

    def settled(self, array: pa.Array) -> pa.Array:
        if not array.null_count:
            return array
        return pc.fill_null(array, pa.scalar(b"", pa.large_binary()).cast(self.type))

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        return _counted(np.diff(_offsets(array)))

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        yield _offsets(array).take(bounds), array.buffers()[2] or pa.py_buffer(b"")

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        offsets = _summed(slots)
        data = reader.spans(np.diff(offsets.take(bounds)))
        return _array(self.type, present, pa.py_buffer(offsets), data)


class _List(_Kind):
    """A list, or a map: a list whose elements are pairs."""

    slot = _COUNT

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._is_map = pt.is_map(type_)
        fields = [type_.key_field, type_.item_field] if self._is_map else [type_.value_field]
        self._pair = pa.struct(fields) if self._is_map else None
        self._children = [_kind(field.type) for field in fields]
        self._offset = np.int32 if self._is_map or pt.is_list(type_) else np.int64

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        return _counted(np.where(present, np.diff(_offsets(array)), 0))

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        offsets = _offsets(array)
        lengths = np.diff(offsets)
        kept = _summed(np.where(present, lengths, 0))
        children = [array.keys, array.items] if self._is_map else [array.values]
        for kind, child in zip(self._children, children, strict=True):
            if kept[-1] == offsets[-1] - offsets[0]:
                elements = child.slice(offsets[0], kept[-1])
            else:  # some elements belong to null lists
                inside = np.repeat(present, lengths)
                elements = child.take(pa.array(np.flatnonzero(inside) + offsets[0]))
            yield from kind.block(elements, kept.take(bounds))

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        offsets = _summed(slots)
        inner = offsets.take(bounds)
        children = [kind.read(reader, inner) for kind in self._children]
        if self._pair is not None:
            children = [_nested(self._pair, int(inner[-1]), [None], children)]
        stored = pa.py_buffer(offsets.astype(self._offset))
        return _nested(self.type, len(present), [_validity(present), stored], children)


class _Struct(_Kind):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._children = [_kind(field.type) for field in type_]

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        for number, kind in enumerate(self._children):
            yield from kind.block(array.field(number), bounds)

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        children = [kind.read(reader, bounds) for kind in self._children]
        return _nested(self.type, len(present), [_validity(present)], children)


class _FixedList(_Kind):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._size = int(type_.list_size)
        self._child = _kind(type_.value_type)

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[_Piece]:
        elements = array.values.slice(array.offset * self._size, len(array) * self._size)
        if not present.all():
            elements = elements.take(pa.array(np.flatnonzero(np.repeat(present, self._size))))
        yield from self._child.block(elements, self._inner(present, bounds))

    def _inner(self, present: Bools, bounds: Int64s) -> Int64s:
        return _summed(present).take(bounds) * self._size

    def array(
        self, reader: _Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        elements = self._child.read(reader, self._inner(present, bounds))
        if not present.any():
            return pa.nulls(len(present), self.type)
        if not present.all():
            # Under a null there must be some elements: those of a neighbour will do.
            mine = np.maximum(np.cumsum(present) - 1, 0)[:, None] * self._size
            elements = elements.take(pa.array((mine + np.arange(self._size)).ravel()))
        return _nested(self.type, len(present), [_validity(present)], [elements])


_NOTHING: Final = np.empty(0, "V0")


def _kind(type_: pa.DataType) -> _Kind:
    if pt.is_large_string(type_) or pt.is_large_binary(type_):
        return _Text(type_)
    if pt.is_boolean(type_):
        return _Bool(type_)
    if pt.is_null(type_) or (pt.is_fixed_size_binary(type_) and not type_.byte_width):
        return _Null(type_)
    if pt.is_primitive(type_) or pt.is_decimal(type_) or pt.is_fixed_size_binary(type_):
        return _Fixed(type_)
    if pt.is_large_list(type_) or pt.is_list(type_) or pt.is_map(type_):
        return _List(type_)
    if pt.is_struct(type_):
        return _Struct(type_)
    if pt.is_fixed_size_list(type_):
        return _FixedList(type_)
    raise StateMismatch(
        f"Values of type {type_} cannot be stored as rows.",
        hint="Declare the column with another type.",
    )


def _present(array: pa.Array) -> Bools:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid())


def _offsets(array: pa.Array) -> Int64s:
    """Return where the values of a variable-length column begin and end."""
    small = pt.is_map(array.type) or pt.is_list(array.type)
    if not len(array):
        return np.zeros(1, np.int64)
    whole = np.frombuffer(array.buffers()[1], np.int32 if small else np.int64)
    mine = whole[array.offset : array.offset + len(array) + 1]
    return np.asarray(mine, np.int64)


def _counted(lengths: Int64s) -> npt.NDArray[np.uint32]:
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST:
        raise StateError(
            f"A value has {longest} bytes or elements, and a row can hold {_LONGEST}.",
            hint="Split the value over several rows.",
        )
    return lengths.astype(_COUNT)


def _summed(lengths: npt.NDArray[Any]) -> Int64s:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _bitmap(flags: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _validity(present: Bools) -> pa.Buffer | None:
    return None if present.all() else _bitmap(present)


def _array(type_: pa.DataType, present: Bools, *data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(type_, len(present), [_validity(present), *data])


def _nested(
    type_: pa.DataType, length: int, buffers: list[Any], children: list[pa.Array]
) -> pa.Array:
    return pa.Array.from_buffers(type_, length, buffers, children=children)


def _binary(offsets: Int64s, data: npt.NDArray[Any] | pa.Buffer) -> pa.Array:
    if isinstance(data, np.ndarray):
        data = pa.py_buffer(np.ascontiguousarray(data).view(np.uint8))
    length = max(len(offsets) - 1, 0)
    return pa.Array.from_buffers(
        pa.large_binary(), length, [None, pa.py_buffer(np.ascontiguousarray(offsets)), data]
    )


def _join(pieces: Sequence[_Piece]) -> pa.Array:
    arrays = [_binary(offsets, data) for offsets, data in pieces]
    return pc.binary_join_element_wise(*arrays, pa.scalar(b"", pa.large_binary()))


def _split(rows: pa.Array) -> list[bytes]:
    if not len(rows):
        return []
    data = rows.buffers()[2].to_pybytes()
    cuts = _offsets(rows).tolist()
    return [data[start:stop] for start, stop in pairwise(cuts)]


def _split_evenly(fixed: npt.NDArray[Any]) -> list[bytes]:
    if not fixed.dtype.itemsize:
        return [b""] * len(fixed)
    rows: list[bytes] = fixed.view(f"V{fixed.dtype.itemsize}").tolist()
    return rows


def _damaged() -> StateDamaged:
    return StateDamaged(
        "A stored row of keyed state is damaged: its length does not fit its columns.",
        hint="Open an older checkpoint.",
    )
