"""Which columns files that are read together may have."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructType

from holdfast.errors import SchemaConflict, SinkRefused
from holdfast.spark.drift import Drift, reconcile
from holdfast.spark.sinks.files_layout import EPOCH_COLUMN

# Formats in which a plain reader finds a column that only some files have.
_ADDED_IN_PLACE: Final = frozenset({"parquet", "json", "xml"})
# And those in which types are only read out of texts.
_WIDENED_IN_PLACE: Final = _ADDED_IN_PLACE | {"csv", "text"}


def columns_after(
    known: StructType | None, schema: StructType, file_format: str, *, sink: str
) -> StructType:
    """All columns of a directory once rows with this schema are in it; refuses what cannot be."""
    if any(name.lower() == EPOCH_COLUMN for name in schema.names):
        raise SinkRefused(
            f"{sink}: the rows have a column {EPOCH_COLUMN}, which is the name of the "
            "directories of a files sink.",
            hint="Rename the column.",
        )
    drift = drift_of(known, schema, sink=sink)
    changed = drift.added if file_format not in _ADDED_IN_PLACE else ()
    if file_format not in _WIDENED_IN_PLACE:
        changed += drift.widened
    if changed:
        raise SinkRefused(
            f"{sink}: columns are new or wider ({', '.join(changed)}), and {file_format} files "
            "with different columns are not read right together.",
            hint="Choose another path, or the format parquet or json.",
        )
    return drift.schema


def drift_of(known: StructType | None, schema: StructType, *, sink: str) -> Drift:
    """How the columns of rows differ from those that are known; refuses types that do not fit."""
    try:
        return reconcile(known, schema, table=sink)
    except SchemaConflict as error:
        message = error.message.replace(
            "the source changed in a way the target cannot follow", "the rows do not fit"
        )
        raise SinkRefused(
            message, hint="Cast them in the stream, or choose another path."
        ) from error


def same_columns(one: StructType, other: StructType) -> bool:
    """Whether rows need no change to become those of another schema but for what may be null."""
    return [(f.name, f.dataType) for f in one] == [(f.name, f.dataType) for f in other]
