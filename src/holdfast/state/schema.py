"""What a table of keyed state holds: typed key columns, typed value columns.

A table is declared with the types its users see. On disk and inside the engine, text and
binary columns and lists have 64-bit offsets (`storage_type`), so that no gather over a large
partition can overflow the 32-bit ones; results come back in the declared types.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.types as pt

from holdfast.errors import StateMismatch

RESERVED: Final = "__"
"""Column names that begin with this belong to the engine."""

_IN_EVERY_FILE: Final = ("__code", "__partition_hash", "__dead", "__stamp")

SPARK_HASHES: Final = "spark:hash+xxhash64"
"""The partition's hash is Spark's `hash(keys)`, the look-up's is its `xxhash64(keys)`."""

HOLDFAST_HASHES: Final = "holdfast:1"
"""Both hashes are those of `holdfast.state.hashing`, for tools and tests without Spark."""


class Layout(StrEnum):
    """What the 64-bit code is made of that a table is sorted by; see `codes.py`."""

    HASH = "hash"
    """The look-up hash of the key: point look-ups."""
    ENTRY = "entry"
    """40 bits of the key's hash, then 24 of the entry's: all entries of a key lie together."""
    TIME = "time"
    """Milliseconds, then 20 bits of the key's hash: what is due lies at the front."""


@dataclass(frozen=True)
class TableSchema:
    """The declaration of one table.

    >>> totals = TableSchema(
    ...     "totals",
    ...     key=pa.schema([("merchant", pa.string())]),
    ...     value=pa.schema([("paise", pa.int64()), ("n", pa.int64())]),
    ... )
    """

    name: str
    key: pa.Schema
    value: pa.Schema
    layout: Layout = field(default=Layout.HASH, kw_only=True)
    stamped: bool = field(default=False, kw_only=True)
    """Whether every row carries the time it was last touched, which a TTL needs."""
    hashes: str = field(default=SPARK_HASHES, kw_only=True)
    """Who computed the two hashes; state of one kind is never opened as another."""

    def __post_init__(self) -> None:
        if not self.name.replace("_", "").isalnum():
            raise StateMismatch(
                f"A table of keyed state cannot be named {self.name!r}.",
                hint="Use letters, digits and underscores.",
            )
        for part in ("key", "value"):
            if not isinstance(getattr(self, part), pa.Schema):
                raise StateMismatch(
                    f"Table {self.name}: its {part} is a {type(getattr(self, part)).__name__}.",
                    hint="Declare the columns with pyarrow.schema([(name, type), ...]).",
                )
        if self.hashes not in (SPARK_HASHES, HOLDFAST_HASHES):
            raise StateMismatch(
                f"Table {self.name}: nobody computes the hashes {self.hashes!r}.",
                hint="Give SPARK_HASHES or HOLDFAST_HASHES.",
            )
        names = [*self.key.names, *self.value.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise StateMismatch(
                f"Table {self.name}: column {twice[0]!r} is declared more than once.",
                hint="Give key and value columns names of their own.",
            )
        for name in names:
            # Lists, maps, timers and windows add key columns of their own.
            free = self.layout is not Layout.HASH and name not in _IN_EVERY_FILE
            if name.startswith(RESERVED) and not free:
                raise StateMismatch(
                    f"Table {self.name}: column {name!r} begins with {RESERVED!r}, "
                    "which is kept for the engine.",
                    hint="Rename the column.",
                )
        if not self.key.names:
            raise StateMismatch(
                f"Table {self.name} has no key column.", hint="Declare at least one."
            )
        for column in self.key:
            _check_key_type(self.name, column)
        for column in self.value:
            _check_value_type(self.name, column)

    @cached_property
    def stored_key(self) -> tuple[pa.DataType, ...]:
        """The types of the key columns inside the engine."""
        return tuple(storage_type(column.type) for column in self.key)

    @cached_property
    def stored_value(self) -> tuple[pa.DataType, ...]:
        """The types of the value columns inside the engine."""
        return tuple(storage_type(column.type) for column in self.value)

    def document(self) -> dict[str, Any]:
        """Return this declaration as JSON can hold it."""
        return {
            "name": self.name,
            "key": _encode(self.key),
            "value": _encode(self.value),
            "layout": self.layout.value,
            "stamped": self.stamped,
            "hashes": self.hashes,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read what `document` wrote."""
        return cls(
            name=document["name"],
            key=_decode(document["key"]),
            value=_decode(document["value"]),
            layout=Layout(document["layout"]),
            stamped=document["stamped"],
            hashes=document["hashes"],
        )

    def refuse_other(self, stored: TableSchema) -> None:
        """Raise unless state stored as `stored` can be opened as this table."""
        for what, mine, theirs in (
            ("key columns", _named(self.key), _named(stored.key)),
            ("value columns", _named(self.value), _named(stored.value)),
            ("layout", self.layout.value, stored.layout.value),
            ("hashes", self.hashes, stored.hashes),
        ):
            if mine != theirs:
                raise StateMismatch(
                    f"Table {self.name} was stored with the {what} {theirs}, "
                    f"and is now declared with {mine}.",
                    hint="Declare it as it was stored, or give the new table another name.",
                )
        required = {one.name for one in [*self.key, *self.value] if not one.nullable}
        free = {one.name for one in [*stored.key, *stored.value] if one.nullable}
        for name in sorted(required & free):
            raise StateMismatch(
                f"Table {self.name}: column {name!r} may have nulls where it is stored, and is "
                "now declared without.",
                hint="Declare the column nullable.",
            )


def storage_type(declared: pa.DataType) -> pa.DataType:
    """Return the type a column has inside the engine, 64-bit offsets throughout."""
    if pt.is_string(declared) or pt.is_string_view(declared):
        return pa.large_string()
    if pt.is_binary(declared) or pt.is_binary_view(declared):
        return pa.large_binary()
    if pt.is_dictionary(declared):
        return storage_type(declared.value_type)
    if pt.is_list(declared) or pt.is_large_list(declared):
        return pa.large_list(_stored_field(declared.value_field))
    if pt.is_fixed_size_list(declared):
        return pa.list_(_stored_field(declared.value_field), declared.list_size)
    if pt.is_struct(declared):
        return pa.struct([_stored_field(field) for field in declared])
    if pt.is_map(declared):
        return pa.map_(
            _stored_field(declared.key_field),
            _stored_field(declared.item_field),
            keys_sorted=declared.keys_sorted,
        )
    return declared


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(storage_type(field.type))


def is_key_type(declared: pa.DataType) -> bool:
    """Say whether a column of this type can be part of a key."""
    return any(
        test(declared)
        for test in (
            pt.is_integer,
            pt.is_boolean,
            pt.is_floating,
            pt.is_string,
            pt.is_large_string,
            pt.is_string_view,
            pt.is_binary,
            pt.is_large_binary,
            pt.is_binary_view,
            pt.is_fixed_size_binary,
            pt.is_timestamp,
            pt.is_date,
            pt.is_time,
            pt.is_duration,
            pt.is_decimal128,
        )
    )


def _check_key_type(table: str, field: pa.Field) -> None:
    if not is_key_type(field.type):
        raise StateMismatch(
            f"Table {table}: key column {field.name!r} is of type {field.type}, "
            "which cannot be part of a key.",
            hint="Keys are integers, decimals, floats, booleans, text, binary, dates or times.",
        )


def is_value_type(declared: pa.DataType) -> bool:
    """Say whether a column of this type can be a value: one that every backend can store."""
    if pt.is_dictionary(declared):
        return is_value_type(declared.value_type)
    if pt.is_struct(declared):
        return declared.num_fields > 0 and all(is_value_type(field.type) for field in declared)
    if pt.is_map(declared):
        return is_value_type(declared.key_type) and is_value_type(declared.item_type)
    if pt.is_list(declared) or pt.is_large_list(declared) or pt.is_fixed_size_list(declared):
        return is_value_type(declared.value_type)
    simple = is_key_type(declared) or pt.is_primitive(declared) or pt.is_decimal(declared)
    return simple or pt.is_null(declared)


def _check_value_type(table: str, field: pa.Field) -> None:
    if not is_value_type(field.type):
        raise StateMismatch(
            f"Table {table}: value column {field.name!r} is of type {field.type}, "
            "which cannot be stored.",
            hint="Values are simple types, and lists, structs with fields and maps of them.",
        )


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "none"


def _encode(schema: pa.Schema) -> str:
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode()


def _decode(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
