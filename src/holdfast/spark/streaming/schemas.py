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


def _parsed(schema: BatchSchema) -> StructType:
    return StructType.fromJson(json.loads(schema.schema))
