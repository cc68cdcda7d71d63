"""Whether a batch may have the columns it has."""

from __future__ import annotations

from holdfast.checkpoint import schema_changes
from holdfast.config.stream import OnSchemaChange
from holdfast.errors import SchemaConflict
from holdfast.model import BatchSchema
from holdfast.spark.streaming.schemas import compatible

Changes = dict[str, tuple[str, ...]]


def examine(
    pipeline: str,
    before: dict[str, BatchSchema],
    now: dict[str, BatchSchema],
    on_change: OnSchemaChange,
) -> Changes:
    """How the columns differ from those of the checkpoint before, or `SchemaConflict`."""
    changes: Changes = {}
    for name, schema in now.items():
        old = before.get(name)
        if old is None or old.fingerprint == schema.fingerprint:
            continue
        found = schema_changes(old.schema, schema.schema)
        if on_change == "refuse" and not compatible(old, schema):
            raise SchemaConflict(
                f"{pipeline}: the columns of the {name} changed in a way that earlier rows do not "
                f"follow: {'; '.join(found)}.",
                hint="Change them back, or take the new ones from here on: "
                f'pipeline.{pipeline}.on_schema_change = "continue", or in Python '
                '.on_schema_change("continue"). '
                f"What they were: holdfast schema show {pipeline}",
            )
        changes[name] = found
    return changes
