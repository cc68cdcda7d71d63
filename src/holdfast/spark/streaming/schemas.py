"""The columns of a batch: their fingerprint, and whether a change of them is compatible."""

from __future__ import annotations

import hashlib
import json

from pyspark.sql.types import StructType

from holdfast.errors import SchemaConflict
from holdfast.model import BatchSchema
from holdfast.spark.drift import nullable, reconcile


def batch_schema(schema: StructType) -> BatchSchema:
    """A schema with the digest by which it is told from others; whether a column may be null
    does not count, for that may change from one batch to the next."""
    text = nullable(schema).json()
    return BatchSchema(hashlib.sha256(text.encode()).hexdigest()[:16], text)


def compatible(before: BatchSchema, now: BatchSchema) -> bool:
    """Whether rows of both fit one table: columns may be added, and types widened.

    A column that is gone, or of another type, is not: the rows before and after it would not
    mean the same.
    """
    old, new = _parsed(before), _parsed(now)
    names = {field.name.lower() for field in new}
    if any(field.name.lower() not in names for field in old):
        return False
    try:
        reconcile(old, new, table="")
    except SchemaConflict:
        return False
    return True


def described(before: BatchSchema, now: BatchSchema) -> tuple[str, ...]:
    """Every difference as a sentence."""
    old, new = _parsed(before), _parsed(now)
    had = {field.name.lower(): field for field in old}
    has = {field.name.lower(): field for field in new}
    found = [_removed([field.name]) for name, field in had.items() if name not in has]
    for name, field in has.items():
        now_is = field.dataType.simpleString()
        if name not in had:
            found.append(f"column {field.name} ({now_is}) is new")
        elif had[name].dataType != field.dataType:
            was = had[name].dataType.simpleString()
            found.append(f"column {field.name} was {was}, is {now_is}")
    return tuple(found) or ("columns were put in another order",)


def _removed(names: list[str]) -> str:
    plural = "columns" if len(names) > 1 else "column"
    return f"{plural} {', '.join(names)} {'are' if len(names) > 1 else 'is'} gone"


def _parsed(schema: BatchSchema) -> StructType:
    return StructType.fromJson(json.loads(schema.schema))
