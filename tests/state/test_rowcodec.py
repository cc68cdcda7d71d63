"""Rows as bytes: whatever Arrow can hold comes back as it was."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import StateDamaged, StateMismatch
from holdfast.state.rowcodec import RowCodec

_LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(38, 2), st.integers(-(10**35), 10**35).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.timestamp("us", "UTC"), st.integers(-(2**63), 2**63 - 1)),
    (pa.duration("ms"), st.integers(-(2**63), 2**63 - 1)),
    (pa.large_string(), st.text(max_size=8)),
    (pa.large_binary(), st.binary(max_size=8)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.binary(0), st.just(b"")),
    (pa.null(), st.none()),
]


Typed = tuple[pa.DataType, st.SearchStrategy[Any]]


def _large_list(inner: Typed) -> Typed:
    return pa.large_list(inner[0]), st.lists(inner[1], max_size=4)


def _fixed_list(inner: Typed, size: int) -> Typed:
    return pa.list_(inner[0], size), st.lists(inner[1], min_size=size, max_size=size)


def _struct(inner: list[Typed]) -> Typed:
    fields = {str(number): typed for number, typed in enumerate(inner)}
    return (
        pa.struct([(name, type_) for name, (type_, _) in fields.items()]),
        st.fixed_dictionaries({name: values for name, (_, values) in fields.items()}),
    )


def _map(inner: Typed) -> Typed:
    pairs = st.tuples(st.text(max_size=3), inner[1])
    return pa.map_(pa.large_string(), inner[0]), st.lists(pairs, max_size=3)


def _or_null(typed: Typed) -> Typed:
    return typed[0], st.none() | typed[1]


def _nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return (
        inner.map(_large_list)
        | st.builds(_fixed_list, inner, st.integers(0, 3))
        | st.lists(inner, max_size=3).map(_struct)
        | inner.map(_map)
    ).map(_or_null)


_TYPES = st.recursive(st.sampled_from(_LEAVES).map(_or_null), _nested, max_leaves=6)


@st.composite
def _columns(draw: st.DrawFn) -> tuple[pa.Array, ...]:
    rows = draw(st.integers(0, 6))
    before = draw(st.integers(0, 2))
    columns = []
    for type_, values in draw(st.lists(_TYPES, min_size=1, max_size=10)):
        drawn = draw(st.lists(values, min_size=rows + before, max_size=rows + before))
        columns.append(pa.array(drawn, type_).slice(before))
    return tuple(columns)


def _round_trip(*columns: pa.Array) -> tuple[pa.Array, ...]:
    codec = RowCodec([column.type for column in columns])
    _, decoded = codec.decode(codec.encode(len(columns[0]), columns))
    for column in decoded:
        column.validate(full=True)
    return decoded


@given(_columns())
@settings(max_examples=150, deadline=None)
def test_columns_of_any_type_come_back(columns: tuple[pa.Array, ...]) -> None:
    """Nested, null, empty and sliced columns are the same after a round trip."""
    for given_, decoded in zip(columns, _round_trip(*columns), strict=True):
        assert decoded.type == given_.type
        assert decoded.equals(given_)


@given(_columns(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_truncated_row_is_refused(columns: tuple[pa.Array, ...], data: st.DataObject) -> None:
    """A row that lost or gained bytes raises and is never decoded to something else."""
    codec = RowCodec([column.type for column in columns])
    rows = codec.encode(len(columns[0]), columns)
    if rows:
        at = data.draw(st.integers(0, len(rows) - 1))
        keep = data.draw(st.integers(0, len(rows[at]) - 1))
        for wrong in (rows[at][:keep], rows[at] + b"\0"):
            with pytest.raises(StateDamaged):
                codec.decode([*rows[:at], wrong, *rows[at + 1 :]])


def test_a_row_of_numbers_is_laid_out_as_documented() -> None:
    """Head, one presence byte, then the values without padding, zeros for null."""
    codec = RowCodec([pa.int16(), pa.uint8()], head=[("code", ">u4")])
    columns = (pa.array([258, None], pa.int16()), pa.array([7, 8], pa.uint8()))
    rows = codec.encode(2, columns, {"code": np.array([1, 2])})
    assert rows == [b"\0\0\0\x01\xff\x02\x01\x07", b"\0\0\0\x02\xfe\0\0\x08"]
    head, _ = codec.decode(rows)
    assert head["code"].tolist() == [1, 2]


def test_a_row_of_texts_and_lists_is_laid_out_as_documented() -> None:
    """All lengths come first, then the bytes of the text, then the block of the elements."""
    codec = RowCodec([pa.large_string(), pa.large_list(pa.int8())])
    columns = (
        pa.array(["ab"], pa.large_string()),
        pa.array([[5, None]], pa.large_list(pa.int8())),
    )
    assert codec.encode(1, columns) == [b"\xff\x02\0\0\0\x02\0\0\0ab\x01\0\x05\0"]


def test_different_keys_have_different_bytes() -> None:
    """Null, empty and shifted texts are all told apart."""
    left = pa.array(["a", "ab", "", None, "", None], pa.large_string())
    right = pa.array(["bc", "c", "", "", None, None], pa.large_string())
    codec = RowCodec([left.type, right.type])
    assert len(set(codec.encode(6, (left, right)))) == 6


def test_what_lies_under_a_null_does_not_matter() -> None:
    """Two null values have the same bytes, whatever their buffers still hold."""
    bitmap = pa.py_buffer(b"\x02")  # the first value is null
    numbers = pa.Array.from_buffers(
        pa.int64(), 2, [bitmap, pa.py_buffer(np.array([1, 99], np.int64))]
    )
    offsets = pa.py_buffer(np.array([0, 1, 4], np.int64))
    texts = pa.Array.from_buffers(pa.large_string(), 2, [bitmap, offsets, pa.py_buffer(b"axyz")])
    lists = pa.Array.from_buffers(
        pa.large_list(pa.int64()), 2, [bitmap, offsets], children=[pa.array([1, 2, 3, 4])]
    )
    for column in (numbers, texts, lists):
        clean = pa.array(column.to_pylist(), column.type)
        codec = RowCodec([column.type])
        assert codec.encode(2, (column,)) == codec.encode(2, (clean,))
        assert _round_trip(column)[0].equals(clean)


def test_a_value_of_two_megabytes_comes_back() -> None:
    """Large values are stored beside small ones."""
    column = pa.array([b"x" * 2_000_000, b"", b"y"], pa.large_binary())
    assert _round_trip(column)[0].equals(column)


def test_nan_keeps_its_bits() -> None:
    """Floats are stored bit by bit."""
    bits = np.array([0x7FF8000000000001, 0x8000000000000000], np.uint64)
    column = pa.array(bits.view(np.float64))
    assert _round_trip(column)[0].view(pa.uint64()).to_pylist() == bits.tolist()


def test_rows_without_a_column_have_only_a_head() -> None:
    """A table may have no value column at all."""
    codec = RowCodec([], head=[("partition", "<i4")])
    rows = codec.encode(2, (), {"partition": np.array([1, -1])})
    assert [len(row) for row in rows] == [4, 4]
    head, columns = codec.decode(rows)
    assert (head["partition"].tolist(), columns) == ([1, -1], ())
    assert RowCodec([]).decode(RowCodec([]).encode(3, ())) == ({}, ())


def test_a_field_that_may_not_be_null_stays_so_under_a_null_struct() -> None:
    """The declared types of nested fields come back, not only their values."""
    type_ = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    column = pa.StructArray.from_arrays(
        [pa.array([1, 2])], fields=list(type_), mask=pa.array([False, True])
    )
    decoded = _round_trip(column)[0]
    assert (decoded.type, decoded.to_pylist()) == (type_, [{"x": 1}, None])


def test_an_unknown_type_is_refused() -> None:
    """A type without a layout is named before anything is stored."""
    with pytest.raises(StateMismatch, match="run_end_encoded"):
        RowCodec([pa.run_end_encoded(pa.int32(), pa.int64())])
