"""What to do when a source's columns are no longer the target's."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as T

from holdfast.errors import SchemaConflict

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


@dataclass(frozen=True, slots=True)
class Drift:
    """The columns a target must have from now on, and how they came to be."""

    schema: T.StructType
    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Every change as a sentence, dropped columns included."""


def reconcile(target: T.StructType | None, source: T.StructType, *, table: str) -> Drift:
    """Fit a source's columns into a target's: add, widen, fill, or refuse."""
    if target is None:
        return Drift(nullable(source))
    changes: list[str] = []
    added: list[str] = []
    widened: list[str] = []
    conflicts: list[str] = []
    ours = {field.name.lower(): field for field in source}
    fields: list[T.StructField] = []
    for field in target:
        incoming = ours.pop(field.name.lower(), None)
        if incoming is None:
            changes.append(f"column {field.name} is no longer in the source: null from now on")
            fields.append(field)
            continue
        merged = _merge(field.dataType, incoming.dataType)
        if merged is None:
            conflicts.append(
                f"column {field.name} was {field.dataType.simpleString()}, "
                f"is {incoming.dataType.simpleString()}"
            )
        elif merged != field.dataType:
            widened.append(field.name)
            changes.append(
                f"column {field.name} widened from {field.dataType.simpleString()} "
                f"to {merged.simpleString()}"
            )
        fields.append(T.StructField(field.name, merged or field.dataType, True))
    if conflicts:
        raise SchemaConflict(
            f"{table}: the source changed in a way the target cannot follow: "
            f"{'; '.join(conflicts)}.",
            hint="Cast it back at the source, or rebuild the target with its new type: "
            "holdfast run --full-refresh --table " + table,
        )
    for name in [f.name for f in source if f.name.lower() in ours]:
        field = source[name]
        added.append(name)
        changes.append(
            f"column {name} ({field.dataType.simpleString()}) is new: null in earlier rows"
        )
        fields.append(T.StructField(name, _nullable_type(field.dataType), True))
    return Drift(T.StructType(fields), tuple(added), tuple(widened), tuple(changes))


def nullable(schema: T.StructType) -> T.StructType:
    """The same columns, each of which may be null: a later batch may lack any of them."""
    return T.StructType([T.StructField(f.name, _nullable_type(f.dataType), True) for f in schema])


def _nullable_type(data_type: T.DataType) -> T.DataType:
    if isinstance(data_type, T.StructType):
        return nullable(data_type)
    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_nullable_type(data_type.elementType), True)
    if isinstance(data_type, T.MapType):
        return T.MapType(data_type.keyType, _nullable_type(data_type.valueType), True)
    # A column that has only ever been null has no type of its own, and no file format takes it.
    return T.StringType() if isinstance(data_type, T.NullType) else data_type


def _merge(old: T.DataType, new: T.DataType) -> T.DataType | None:
    """The narrowest type that holds both without loss, if the old one may become it."""
    new = _nullable_type(new)
    if old == new:
        return old
    if isinstance(old, T.StructType) and isinstance(new, T.StructType):
        return _merge_structs(old, new)
    if isinstance(old, T.ArrayType) and isinstance(new, T.ArrayType):
        element = _merge(old.elementType, new.elementType)
        return None if element is None else T.ArrayType(element, True)
    if isinstance(old, T.MapType) and isinstance(new, T.MapType):
        value = _merge(old.valueType, new.valueType)
        if value is None or old.keyType != new.keyType:
            return None
        return T.MapType(old.keyType, value, True)
    return _wider(old, new)


def _merge_structs(old: T.StructType, new: T.StructType) -> T.StructType | None:
    fields: list[T.StructField] = []
    incoming = {field.name.lower(): field for field in new}
    for field in old:
        other = incoming.pop(field.name.lower(), None)
        merged = field.dataType if other is None else _merge(field.dataType, other.dataType)
        if merged is None:
            return None
        fields.append(T.StructField(field.name, merged, True))
    fields += [f for f in nullable(new) if f.name.lower() in incoming]
    return T.StructType(fields)


def _wider(one: T.DataType, other: T.DataType) -> T.DataType | None:
    first, second = one.simpleString(), other.simpleString()
    if first in _INTEGERS and second in _INTEGERS:
        return one if _INTEGERS.index(first) >= _INTEGERS.index(second) else other
    if {first, second} <= {"float", "double", "tinyint", "smallint", "int"}:
        # A float holds 24 bits: only the small integers fit it, everything here fits a double.
        small = {first, second} <= {"float", "tinyint", "smallint"}
        return T.FloatType() if small else T.DoubleType()
    return _wider_decimal(one, other)


def _wider_decimal(one: T.DataType, other: T.DataType) -> T.DataType | None:
    left, right = _as_decimal(one), _as_decimal(other)
    if left is None or right is None:
        return None
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return T.DecimalType(whole + scale, scale) if whole + scale <= 38 else None


def _as_decimal(data_type: T.DataType) -> T.DecimalType | None:
    if isinstance(data_type, T.DecimalType):
        return data_type
    digits = _DIGITS.get(data_type.simpleString())
    return None if digits is None else T.DecimalType(digits, 0)
