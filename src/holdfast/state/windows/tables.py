"""The two tables of an operator's windows, and the keys of their rows.

    <name>       key, __start_us, __end_us              -> values, __due_us, __fired
    <name>_due   key, __start_us, __end_us, __due_us    -> __lookup_hash

The first holds one row a window, all windows of a key together. The second is sorted by time
and holds exactly one entry for every row of the first, at the row's `__due_us`: the window's end
while it has something to fire, and its end plus the lateness once it only waits to be removed.
`__fired` says whether the window was ever given out: a row that comes late moves `__due_us` back
to the end, and does not make undone what others have seen.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from holdfast.errors import StateMismatch
from holdfast.state import hashing
from holdfast.state.codes import entry_codes, time_codes
from holdfast.state.columns import Bools, Columns, Int64s
from holdfast.state.keys import Keys
from holdfast.state.owners import Owners
from holdfast.state.schema import SPARK_HASHES, Layout, TableSchema
from holdfast.state.timers import DUE, LOOKUP_HASH

START: Final = "__start_us"
END: Final = "__end_us"
FIRED: Final = "__fired"

DUE_SUFFIX: Final = "_due"
"""What the name of the second table ends with."""


def schemas_of(
    name: str, key: pa.Schema, value: pa.Schema, *, hashes: str = SPARK_HASHES
) -> tuple[TableSchema, TableSchema]:
    """Declare the tables of windows that hold `value` for every `key`."""
    if not value.names:
        raise StateMismatch(
            f"Windows {name} hold no value column.", hint="Declare at least one, such as a count."
        )
    due = _time(DUE)
    fired = pa.field(FIRED, pa.bool_(), nullable=False)
    window = [*key, _time(START), _time(END)]
    return (
        TableSchema(
            name,
            pa.schema(window),
            pa.schema([*value, due, fired]),
            layout=Layout.ENTRY,
            hashes=hashes,
        ),
        TableSchema(
            name + DUE_SUFFIX,
            pa.schema([*window, due]),
            pa.schema([_time(LOOKUP_HASH)]),
            layout=Layout.TIME,
            hashes=hashes,
        ),
    )


def window_keys(owners: Owners, start_us: Int64s, end_us: Int64s) -> Keys:
    """Return the keys of windows, one for each owner."""
    window: Columns = (pa.array(start_us), pa.array(end_us))
    codes = entry_codes(owners.hashes.lookup, hashing.lookup_hashes(window))
    return owners.keys(window, codes)


def due_keys(owners: Owners, start_us: Int64s, end_us: Int64s, due_us: Int64s) -> Keys:
    """Return the keys of entries of the pending index, one for each owner."""
    codes = time_codes(due_us // 1000, owners.hashes.lookup)
    return owners.keys((pa.array(start_us), pa.array(end_us), pa.array(due_us)), codes)


def times(column: pa.Array) -> Int64s:
    """Return a column of times without nulls as an array."""
    return np.asarray(column, np.int64)


def flags(column: pa.Array) -> Bools:
    """Return a column of truth values without nulls as an array."""
    return np.asarray(column, np.bool_)


def _time(name: str) -> pa.Field:
    return pa.field(name, pa.int64(), nullable=False)
