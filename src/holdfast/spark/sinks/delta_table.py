"""One commit per batch in a Delta table, named by a token. Imports the package `deltalake`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import (
    AddAction,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)
from pyspark.sql.types import StructType

from holdfast.errors import SinkUnavailable
from holdfast.model import Token
from holdfast.spark.delta_log import (
    Change,
    LiveFile,
    NewFile,
    Snapshot,
    as_stored,
    delta_schema,
    delta_translated,
)
from holdfast.spark.drift import nullable

_EPOCH_BITS: Final = 40


class TokenTable:
    """The Delta table of one sink, as it was when it was last opened."""

    def __init__(self, place: Path, *, sink: str, pipeline: str) -> None:
        self._place = place
        self._sink = sink
        self._pipeline = pipeline
        self._app_id = f"holdfast/{pipeline}/{sink}"
        self._table: DeltaTable | None = None

    def open(self) -> bool:
        """Read the newest version; says whether there is a table."""
        with delta_translated(f"{self._sink}: opening the Delta table {self._place}"):
            if self._table is not None and self._is_there():
                self._table.update_incremental()
            else:
                self._table = DeltaTable(str(self._place)) if self._is_there() else None
        return self._table is not None

    def forget(self) -> None:
        """Read the whole log again next time."""
        self._table = None

    @property
    def columns(self) -> StructType | None:
        """The table's columns; `None` if there is no table."""
        return None if self._table is None else self._snapshot().columns

    def last_token(self) -> Token | None:
        """The last token the table has taken from this sink."""
        if self._table is None:
            return None
        version = self._snapshot().last_transaction(self._app_id)
        return None if version is None else token_of(self._pipeline, version)

    def files(self) -> list[LiveFile]:
        """The files that make up the table."""
        return [] if self._table is None else self._snapshot().files()

    def refuse_unsupported(self) -> None:
        """Refuse a table whose files are not plain Parquet."""
        if self._table is not None:
            self._snapshot().refuse_unsupported()

    def as_stored(self, schema: StructType) -> StructType:
        """Columns as they come back from a Delta table; refuses types it does not have."""
        return as_stored(nullable(schema), self._sink)

    def add_columns(self, columns: StructType, token: Token) -> bool:
        """Give the table those of the columns it lacks; says whether that took a commit."""
        if self._table is None:
            return False
        change = Change(columns=columns, adds=(), removes=(), overwrite=False)
        return bool(self._snapshot().prepare(change, str(token)))

    def commit(
        self,
        token: Token,
        columns: StructType,
        *,
        adds: Sequence[NewFile] = (),
        removes: Sequence[LiveFile] = (),
    ) -> None:
        """Change the table's files and its last token in one commit.

        Fails, and changes nothing, if another process has committed a token of this sink since
        the table was opened.
        """
        now_ms = time.time_ns() // 1_000_000
        schema = delta_schema(columns, self._sink)
        added = [_add(file) for file in adds]
        removed = [RemoveAction(f.path, True, now_ms, f.size_bytes, {}) for f in removes]
        properties = CommitProperties(
            custom_metadata={"holdfast_token": str(token)},
            app_transactions=[Transaction(self._app_id, version_of(token))],
        )
        with delta_translated(f"{self._sink}: committing {token} to {self._place}"):
            if self._table is None:
                create_table_with_add_actions(
                    str(self._place), schema, added, mode="error", commit_properties=properties
                )
            else:
                self._table.create_write_transaction(
                    [*added, *removed], mode="append", schema=schema, commit_properties=properties
                )

    def _is_there(self) -> bool:
        return DeltaTable.is_deltatable(str(self._place))

    def _snapshot(self) -> Snapshot:
        if self._table is None:
            raise SinkUnavailable(f"{self._sink}: there is no Delta table at {self._place}.")
        return Snapshot(self._table, self._place, self._sink)


def version_of(token: Token) -> int:
    """The number by which the log remembers a token; later tokens have greater ones."""
    return token.generation << _EPOCH_BITS | token.epoch


def token_of(pipeline: str, version: int) -> Token:
    """Read what `version_of` wrote."""
    return Token(pipeline, version >> _EPOCH_BITS, version & ((1 << _EPOCH_BITS) - 1))


def _add(file: NewFile) -> AddAction:
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size_bytes, {}, file.modified_ms, True, stats)
