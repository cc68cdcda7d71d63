"""How values of each kind of type are laid out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.errors import StateError, StateMismatch
from holdfast.state.columns import Bools, Int64s
from holdfast.state.rowcodec.arrays import (
    Piece,
    bitmap,
    flat_array,
    nested_array,
    offsets_of,
    present_in,
    summed,
    validity,
)
from holdfast.state.rowcodec.reading import Reader

NO_SLOTS: Final = np.empty(0, "V0")

_COUNT: Final = np.dtype("<u4")
_LONGEST: Final = 2**32 - 1


class Kind(ABC):
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
    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        """Yield what follows the slots of the values between the bounds of each row."""

    @abstractmethod
    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        """Read what follows the slots and return the values."""

    def block(self, array: pa.Array, bounds: Int64s) -> Iterator[Piece]:
        """Yield the block of the values between the bounds of each row."""
        present, array = present_in(array), self.settled(array)
        yield bounds, present
        if self.slot.itemsize:
            yield bounds * self.slot.itemsize, self.slots(array, present)
        yield from self.tails(array, present, bounds)

    def read(self, reader: Reader, bounds: Int64s) -> pa.Array:
        """Read a block of as many values in every row as lie between its bounds."""
        present = reader.items(np.dtype(np.bool_), bounds)
        slots = reader.items(self.slot, bounds) if self.slot.itemsize else NO_SLOTS
        return self.array(reader, present, slots, bounds)


class _Fixed(Kind):
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

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        yield from ()

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        return flat_array(self.type, present, pa.py_buffer(slots.view(np.uint8)))


class _Bool(_Fixed):
    def __init__(self, type_: pa.DataType) -> None:
        super(_Fixed, self).__init__(type_)
        self.slot = np.dtype(np.bool_)

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        return np.asarray(array.fill_null(False))

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        return flat_array(self.type, present, bitmap(slots))


class _Null(Kind):
    """The type of which every value is null; also binary of zero bytes."""

    has_tail = False

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        yield from ()

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        if pt.is_null(self.type):
            return pa.nulls(len(present))
        return flat_array(self.type, present, pa.py_buffer(b""))


class _Text(Kind):
    slot = _COUNT

    def settled(self, array: pa.Array) -> pa.Array:
        if not array.null_count:
            return array
        return pc.fill_null(array, pa.scalar(b"", pa.large_binary()).cast(self.type))

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        return _counted(np.diff(offsets_of(array)))

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        yield offsets_of(array).take(bounds), array.buffers()[2] or pa.py_buffer(b"")

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        offsets = summed(slots)
        data = reader.spans(np.diff(offsets.take(bounds)))
        return flat_array(self.type, present, pa.py_buffer(offsets), data)


class _List(Kind):
    """A list, or a map: a list whose elements are pairs."""

    slot = _COUNT

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._is_map = pt.is_map(type_)
        fields = [type_.key_field, type_.item_field] if self._is_map else [type_.value_field]
        self._pair = pa.struct(fields) if self._is_map else None
        self._children = [kind_of(field.type) for field in fields]
        self._offset = np.int32 if self._is_map or pt.is_list(type_) else np.int64

    def slots(self, array: pa.Array, present: Bools) -> npt.NDArray[Any]:
        return _counted(np.where(present, np.diff(offsets_of(array)), 0))

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        offsets = offsets_of(array)
        lengths = np.diff(offsets)
        kept = summed(np.where(present, lengths, 0))
        children = [array.keys, array.items] if self._is_map else [array.values]
        for kind, child in zip(self._children, children, strict=True):
            if kept[-1] == offsets[-1] - offsets[0]:
                elements = child.slice(offsets[0], kept[-1])
            else:  # some elements belong to null lists
                inside = np.repeat(present, lengths)
                elements = child.take(pa.array(np.flatnonzero(inside) + offsets[0]))
            yield from kind.block(elements, kept.take(bounds))

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        offsets = summed(slots)
        inner = offsets.take(bounds)
        children = [kind.read(reader, inner) for kind in self._children]
        if self._pair is not None:
            children = [nested_array(self._pair, int(inner[-1]), [None], children)]
        stored = pa.py_buffer(offsets.astype(self._offset))
        return nested_array(self.type, len(present), [validity(present), stored], children)


class _Struct(Kind):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._children = [kind_of(field.type) for field in type_]

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        for number, kind in enumerate(self._children):
            yield from kind.block(array.field(number), bounds)

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        children = [kind.read(reader, bounds) for kind in self._children]
        return nested_array(self.type, len(present), [validity(present)], children)


class _FixedList(Kind):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._size = int(type_.list_size)
        self._child = kind_of(type_.value_type)

    def tails(self, array: pa.Array, present: Bools, bounds: Int64s) -> Iterator[Piece]:
        elements = array.values.slice(array.offset * self._size, len(array) * self._size)
        if not present.all():
            elements = elements.take(pa.array(np.flatnonzero(np.repeat(present, self._size))))
        yield from self._child.block(elements, self._inner(present, bounds))

    def _inner(self, present: Bools, bounds: Int64s) -> Int64s:
        return summed(present).take(bounds) * self._size

    def array(
        self, reader: Reader, present: Bools, slots: npt.NDArray[Any], bounds: Int64s
    ) -> pa.Array:
        elements = self._child.read(reader, self._inner(present, bounds))
        if not present.any():
            return pa.nulls(len(present), self.type)
        if not present.all():
            # Under a null there must be some elements: those of a neighbour will do.
            mine = np.maximum(np.cumsum(present) - 1, 0)[:, None] * self._size
            elements = elements.take(pa.array((mine + np.arange(self._size)).ravel()))
        return nested_array(self.type, len(present), [validity(present)], [elements])


def kind_of(type_: pa.DataType) -> Kind:
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


def _counted(lengths: Int64s) -> npt.NDArray[np.uint32]:
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST:
        raise StateError(
            f"A value has {longest} bytes or elements, and a row can hold {_LONGEST}.",
            hint="Split the value over several rows.",
        )
    return lengths.astype(_COUNT)
