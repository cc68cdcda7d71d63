"""Arrow columns as the engine handles them: checked, stored, compared, gathered.

The engine never looks at a row in Python. Fixed-width columns without nulls are viewed as
NumPy integers (`as_bits`), everything else goes through Arrow's own kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.errors import StateMismatch
from holdfast.state.schema import storage_type

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Bools: TypeAlias = npt.NDArray[np.bool_]

Columns: TypeAlias = tuple[pa.Array, ...]
Batch: TypeAlias = pa.RecordBatch | pa.Table | Mapping[str, Any]
"""Columns by name: Arrow, NumPy or plain lists."""

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def conform(batch: Batch, schema: pa.Schema, *, table: str, role: str) -> Columns:
    """Return the columns of `schema` from a batch, as the engine stores them.

    Every column must be there, of the declared type, and none may be left over.
    """
    given = _names(batch, table)
    missing = [name for name in schema.names if name not in given]
    if missing:
        raise StateMismatch(
            f"Table {table}: the batch has no {role} column {missing[0]!r}; "
            f"it has {', '.join(given) or 'none'}.",
            hint=f"The {role} columns are {', '.join(schema.names)}.",
        )
    extra = [name for name in given if name not in schema.names]
    if extra:
        raise StateMismatch(
            f"Table {table}: {extra[0]!r} is not a {role} column.",
            hint=f"The {role} columns are {', '.join(schema.names) or 'none'}.",
        )
    columns = tuple(_conform_column(batch[field.name], field, table) for field in schema)
    lengths = {field.name: len(column) for field, column in zip(schema, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        raise StateMismatch(
            f"Table {table}: the {role} columns differ in length: "
            + ", ".join(f"{name} {length}" for name, length in lengths.items())
            + ".",
            hint="Every column of a batch has one value a row.",
        )
    return columns


def _names(batch: Batch, table: str) -> list[str]:
    if isinstance(batch, Mapping):
        return list(batch)
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        raise StateMismatch(
            f"Table {table}: a batch cannot be of type {type(batch).__name__}.",
            hint="Bring an Arrow record batch, an Arrow table, or columns by name.",
        )
    names = list(batch.schema.names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StateMismatch(
            f"Table {table}: the batch has more than one column {twice[0]!r}.",
            hint="Select the column that is meant.",
        )
    return names


def _conform_column(given: Any, field: pa.Field, table: str) -> pa.Array:
    stored = storage_type(field.type)
    array = _as_array(given, field, table)
    if array.type != stored:
        if storage_type(array.type) != stored:
            raise StateMismatch(
                f"Table {table}: column {field.name!r} is of type {array.type}, "
                f"and was declared as {field.type}.",
                hint="Cast the column, or declare the table with its type.",
            )
        array = array.cast(stored)
    if array.null_count and not field.nullable:
        raise StateMismatch(
            f"Table {table}: column {field.name!r} has {array.null_count} nulls, "
            "and was declared without.",
            hint="Fill them, or declare the column nullable.",
        )
    return array


def _as_array(given: Any, field: pa.Field, table: str) -> pa.Array:
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
        if isinstance(given, pa.ChunkedArray):
            given = pa.concat_arrays(given.chunks)
    if isinstance(given, pa.Array):
        return given
    if isinstance(given, str | bytes) or np.isscalar(given):
        raise StateMismatch(
            f"Table {table}: column {field.name!r} is a single {type(given).__name__}.",
            hint="Bring a column, a list for example, even of one value.",
        )
    try:
        if isinstance(given, np.ndarray) and given.dtype != object:
            # Without a type: an array of other numbers than declared is refused, not converted.
            # Copied, because Arrow would share the caller's memory, and callers reuse theirs.
            return pa.array(given.copy())
        array = pa.array(given, type=field.type)
        if pt.is_integer(field.type) and pt.is_floating(pa.infer_type(given)):
            raise TypeError("it holds fractions, which would be cut off")
        return array
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise StateMismatch(
            f"Table {table}: column {field.name!r} does not hold values of type "
            f"{field.type}: {error}.",
            hint="Convert the values, or declare the table with their type.",
        ) from error


def normalized(array: pa.Array) -> pa.Array:
    """Return a key column in which values that Spark groups together are identical.

    `-0.0` becomes `0.0` and every NaN becomes one NaN; other types are as they are.
    """
    if not pt.is_floating(array.type):
        return array
    values = array.to_numpy(zero_copy_only=False)
    values = np.where(values == 0, values.dtype.type(0), values)
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(values, type=array.type, mask=mask)


def as_bits(array: pa.Array) -> npt.NDArray[Any] | None:
    """View a column of 1, 2, 4 or 8 byte values without nulls as integers, without a copy."""
    if array.null_count or pt.is_boolean(array.type) or pt.is_nested(array.type):
        return None
    try:
        width = array.type.bit_width // 8
    except ValueError:  # a type of variable width
        return None
    if width not in _BITS or pt.is_dictionary(array.type):
        return None
    if len(array) == 0:
        return np.empty(0, _BITS[width])
    whole = np.frombuffer(array.buffers()[1], _BITS[width], count=array.offset + len(array))
    return whole[array.offset :]


def equal(left: Columns, left_at: Int64s, right: Columns, right_at: Int64s) -> Bools:
    """Compare rows of two sets of key columns; two nulls are equal, as in a GROUP BY."""
    result: Bools | None = None
    for one, other in zip(left, right, strict=True):
        same = _equal_column(one, left_at, other, right_at)
        result = same if result is None else result & same
    return np.ones(len(left_at), np.bool_) if result is None else result


def _equal_column(one: pa.Array, one_at: Int64s, other: pa.Array, other_at: Int64s) -> Bools:
    one_bits, other_bits = as_bits(one), as_bits(other)
    if one_bits is not None and other_bits is not None:
        return np.asarray(one_bits.take(one_at) == other_bits.take(other_at), np.bool_)
    left, right = gather(one, one_at), gather(other, other_at)
    if pt.is_floating(left.type):  # with nulls; NaN is not equal to itself in Arrow
        bits = pa.uint64() if pt.is_float64(left.type) else pa.uint32()
        bits = pa.uint16() if pt.is_float16(left.type) else bits
        left, right = left.view(bits), right.view(bits)
    same = np.asarray(pc.fill_null(pc.equal(left, right), False))
    if left.null_count and right.null_count:
        same |= np.asarray(left.is_null()) & np.asarray(right.is_null())
    return same


def gather(array: pa.Array, at: Int64s) -> pa.Array:
    """Return the rows of a column at some positions."""
    return array.take(pa.array(at))


def gather_optional(array: pa.Array, at: Int64s) -> pa.Array:
    """Return the rows of a column at some positions, and null where the position is -1."""
    return array.take(pa.array(at, mask=at < 0))


def spans(start: Int64s, stop: Int64s) -> Int64s:
    """Return the positions of several spans, stop exclusive, one span behind the other."""
    lengths = stop - start
    begin = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(start - begin, lengths) + np.arange(lengths.sum()), np.int64)


def concatenate(parts: Sequence[pa.Array]) -> pa.Array:
    """Join columns; one part is returned as it is."""
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def empty(types: Sequence[pa.DataType]) -> Columns:
    """Return columns of the given types without a row."""
    return tuple(pa.nulls(0, type_) for type_ in types)


def as_declared(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a stored column in the type its users declared."""
    if array.type == field.type:
        return array
    try:
        if pt.is_dictionary(field.type):
            return array.cast(field.type.value_type).dictionary_encode().cast(field.type)
        return array.cast(field.type)
    except pa.ArrowInvalid as error:
        raise StateMismatch(
            f"Column {field.name!r}: {len(array)} values do not fit into one array of type "
            f"{field.type}: {error}.",
            hint="Ask for fewer at once, or declare a larger type: large_string, large_binary, "
            "large_list, a wider dictionary index.",
        ) from error


def declared_batch(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return stored columns as a batch in the types their users declared."""
    arrays = [as_declared(column, field) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def size_bytes(columns: Sequence[pa.Array]) -> int:
    """Return about how many bytes of memory some columns take."""
    return sum(column.get_total_buffer_size() for column in columns)
