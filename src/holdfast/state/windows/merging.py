"""How the values of a window become one: the user's function, and what it has to give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state.columns import Columns, Int64s, conform

Merge: TypeAlias = Callable[[pa.RecordBatch, Int64s], pa.RecordBatch]
"""Reduces values to one row a group.

It is given the value columns, the rows of a group behind one another with what was stored
first, and the position at which each group begins.
"""


def checked_merge(merged: Any, windows: int, value: pa.Schema, *, table: str) -> Columns:
    """Return the columns that merging gave, one row a window, or say what is wrong with them."""
    names = ", ".join(value.names)
    if not isinstance(merged, pa.RecordBatch):
        raise StateMismatch(
            f"Table {table}: merging gave {_described(merged)}, not an Arrow record batch.",
            hint=f"Return a pyarrow.RecordBatch with the columns {names} and one row for each "
            "group.",
        )
    if sorted(merged.schema.names) != sorted(value.names):
        raise StateMismatch(
            f"Table {table}: merging gave the columns {', '.join(merged.schema.names) or 'none'}.",
            hint=f"Return exactly the value columns: {names}.",
        )
    if merged.num_rows != windows:
        raise StateMismatch(
            f"Table {table}: merging gave {merged.num_rows} rows for {windows} windows.",
            hint="Return one row for each group, in their order.",
        )
    return conform(merged, value, table=table, role="value")


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
