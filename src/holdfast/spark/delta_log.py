"""A Delta table's log, through the package `deltalake`.

Only the names of files pass through here, never their rows. Every commit carries the id of its
batch as an application transaction, which is how a later run knows that it happened.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote
from uuid import UUID

from pyspark.sql.types import StructType

from holdfast.errors import DiskFull, HoldfastError, TargetError
from holdfast.spark.failures import explain_os

try:
    from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import (
        AddAction,
        RemoveAction,
        Transaction,
        create_table_with_add_actions,
    )
except ImportError as _error:
    raise TargetError(
        'A target of format "delta" needs the package deltalake, 1.6.6 or newer.',
        hint='pip install "deltalake>=1.6.6"',
    ) from _error

LOG_DIRECTORY: Final = "_delta_log"

# What a reader must know to read the table right, beyond plain Parquet. Anything else (deletion
# vectors, renamed columns) makes the rows of a file differ from what the file says.
_READER_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_FULL = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b", re.I)
_DENIED = re.compile(r"Permission denied|Read-only file system|os error (1|13|30)\b", re.I)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A Parquet file to be named by the log."""

    path: str
    """Below the table's directory."""
    rows: int
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A Parquet file the log names now."""

    path: str
    """Below the table's directory."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does to the table's files and columns."""

    columns: StructType
    """All of the table's columns after it."""
    adds: Sequence[NewFile]
    removes: Sequence[LiveFile]
    """Ignored by an overwrite, which removes every file."""
    overwrite: bool


class Snapshot:
    """A Delta table as it was when it was opened."""

    def __init__(self, table: DeltaTable, place: Path, name: str) -> None:
        self._table = table
        self._place = place
        self._name = name

    @property
    def version(self) -> int:
        """The number of the newest commit."""
        return self._table.version()

    @property
    def columns(self) -> StructType:
        """The table's columns in Spark's types."""
        return _plain(json.loads(self._table.schema().to_json()))

    def files(self) -> list[LiveFile]:
        """The files that make up the table."""
        with delta_translated(f"{self._name}: listing the files of {self._place}"):
            actions = self._table.get_add_actions(flatten=True)
            paths = actions.column("path").to_pylist()
            sizes = actions.column("size_bytes").to_pylist()
        # The log writes paths as a URL does.
        return [LiveFile(unquote(p), int(s)) for p, s in zip(paths, sizes, strict=True)]

    def last_transaction(self, app_id: str) -> int | None:
        """The version of an application's last transaction."""
        with delta_translated(f"{self._name}: reading the log of {self._place}"):
            return self._table.transaction_version(app_id)

    def refuse_unsupported(self) -> None:
        """Refuse a table whose files cannot be read or written as plain Parquet."""
        obstacles = list(self._obstacles())
        if obstacles:
            raise TargetError(
                f"{self._name}: the Delta table {self._place} has {', '.join(obstacles)}, "
                "which Holdfast does not write.",
                hint="Remove that from the table, or choose another target path.",
            )

    def _obstacles(self) -> Iterator[str]:
        protocol, metadata = self._table.protocol(), self._table.metadata()
        if metadata.partition_columns:
            yield f"partition columns ({', '.join(metadata.partition_columns)})"
        for key in metadata.configuration:
            if key.startswith("delta.constraints."):
                yield f"the constraint {key.removeprefix('delta.constraints.')}"
        if protocol.min_reader_version == 2:
            yield "mapped column names"
        for feature in sorted(set(protocol.reader_features or ()) - _READER_FEATURES):
            yield f"the feature {feature}"

    def prepare(self, change: Change, batch_id: str) -> int:
        """Make the table ready for a change's columns; say how many commits that took.

        New columns are null in every row until the rows come. Nothing else can be seen of it.
        """
        known = set(self.columns.names)
        added = [field for field in change.columns if field.name not in known]
        properties = _properties(batch_id)
        with delta_translated(f"{self._name}: changing the columns of {self._place}"):
            if change.overwrite:
                # Its commit brings the columns, but not the feature one of their types needs:
                # without it no reader could open the table again.
                features = self._table.protocol().reader_features or ()
                if "timestamp_ntz" not in change.columns.json() or "timestampNtz" in features:
                    return 0
                self._table.alter.add_feature(
                    TableFeatures.TimestampWithoutTimezone,
                    allow_protocol_versions_increase=True,
                    commit_properties=properties,
                )
                return 1
            if not added:
                return 0
            fields = delta_schema(StructType(added), self._name).fields
            self._table.alter.add_columns(fields, commit_properties=properties)
            return 1

    def commit(self, change: Change, batch_id: str, app_id: str) -> None:
        """Add and remove files in one commit."""
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [_add(file) for file in change.adds]
        mode: Literal["overwrite", "append"] = "overwrite" if change.overwrite else "append"
        if not change.overwrite:
            actions += [
                RemoveAction(file.path, True, now_ms, file.size_bytes, {})
                for file in change.removes
            ]
        with delta_translated(f"{self._name}: publishing batch {batch_id}"):
            self._table.create_write_transaction(
                actions,
                mode=mode,
                schema=delta_schema(change.columns, self._name),
                commit_properties=_properties(batch_id, app_id),
            )


def open_snapshot(place: Path, name: str) -> Snapshot | None:
    """Open the Delta table in a directory; `None` if there is none."""
    with delta_translated(f"{name}: opening the Delta table {place}"):
        if not DeltaTable.is_deltatable(str(place)):
            return None
        return Snapshot(DeltaTable(str(place)), place, name)


def create_table(place: Path, name: str, change: Change, batch_id: str, app_id: str) -> None:
    """Make a directory of files a Delta table, with its first commit."""
    with delta_translated(f"{name}: publishing batch {batch_id}"):
        create_table_with_add_actions(
            str(place),
            delta_schema(change.columns, name),
            [_add(file) for file in change.adds],
            mode="error",
            commit_properties=_properties(batch_id, app_id),
        )


def transaction_version(batch_id: str) -> int:
    """The number by which the log remembers a batch.

    A UUIDv7 starts with 48 bits of time, 4 that say its version and 12 more: all but those 4
    make a number that grows from batch to batch and that no two batches of a table share.
    """
    high = UUID(batch_id).int >> 64
    return (high >> 16) << 12 | (high & 0xFFF)


def delta_schema(columns: StructType, name: str) -> Schema:
    """Columns in Delta's types, or a refusal that names the one it has no type for."""
    for field in columns:
        found = json.dumps(field.dataType.jsonValue())
        # deltalake takes these three, and no reader can open the table afterwards.
        unknown = re.search(r'"(interval[^"]*|variant|void)"', found)
        if unknown:
            raise _no_type(name, field.name, unknown.group(1))
        try:
            Schema.from_json(_json([field.jsonValue()]))
        except ValueError as error:
            raise _no_type(name, field.name, field.dataType.simpleString()) from error
    return Schema.from_json(_json([field.jsonValue() for field in columns]))


def as_stored(columns: StructType, name: str) -> StructType:
    """Columns as they come back from a Delta table."""
    return _plain(json.loads(delta_schema(columns, name).to_json()))


@contextmanager
def delta_translated(what: str) -> Iterator[None]:
    """Turn what deltalake raises inside into an error that says what to do."""
    try:
        yield
    except CommitFailedError as error:
        raise TargetError(
            f"{what}: another writer changed the table at the same time ({_first_line(error)}).",
            hint="Run again: the batch was not published, and nothing is lost.",
        ) from error
    except (DeltaError, OSError, ValueError, RuntimeError) as error:
        raise _explained(what, error) from error


def _explained(what: str, error: Exception) -> HoldfastError:
    text = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return explain_os(what, error)
    if _FULL.search(text):
        return DiskFull(
            f"{what}: no space left on the disk.",
            hint="Free some space and run again: nothing is lost.",
        )
    if _DENIED.search(text):
        return TargetError(f"{what}: permission denied.", hint="Give this user access to it.")
    return TargetError(
        f"{what}: {_first_line(error)}",
        hint="If another Delta reader cannot open the table either, its log is damaged: move the "
        "table away and copy it again with --full-refresh.",
    )


def _no_type(name: str, column: str, type_name: str) -> TargetError:
    return TargetError(
        f"{name}: column {column} is {type_name}, for which Delta Lake has no type.",
        hint="Cast it at the source, or write to parquet.",
    )


def _properties(batch_id: str, app_id: str | None = None) -> CommitProperties:
    transactions = [Transaction(app_id, transaction_version(batch_id))] if app_id else None
    return CommitProperties(
        custom_metadata={"holdfast_batch": batch_id}, app_transactions=transactions
    )


def _add(file: NewFile) -> AddAction:
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size_bytes, {}, file.modified_ms, True, stats)


def _json(fields: list[Mapping[str, Any]]) -> str:
    plain = [{**field, "metadata": {}} for field in fields]
    return json.dumps({"type": "struct", "fields": plain})


def _plain(schema: dict[str, Any]) -> StructType:
    """A schema without the notes other writers keep on its columns."""
    return StructType.fromJson(
        {"type": "struct", "fields": [{**field, "metadata": {}} for field in schema["fields"]]}
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:400].rstrip(".") + "."
