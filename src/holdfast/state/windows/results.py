"""What goes in and out of windows: windows as users see them, and as the table has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdfast.state.columns import Bools, Columns, Int64s, gather
from holdfast.state.owners import Owners
from holdfast.state.windows.pending import Entries

Merge: TypeAlias = Callable[[pa.RecordBatch, Int64s], pa.RecordBatch]
"""Reduces values to one row a group.

It is given the value columns, the rows of a group behind one another with what was stored
first, and the position at which each group begins.
"""


@dataclass(frozen=True)
class Windows:
    """Windows of some keys, and what they hold."""

    owners: Owners
    start_us: Int64s
    """Inclusive."""
    end_us: Int64s
    """Exclusive."""
    values: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.start_us)

    def take(self, at: Int64s) -> Windows:
        """Return the windows at some positions."""
        return Windows(
            self.owners.take(at),
            self.start_us.take(at),
            self.end_us.take(at),
            self.values.take(pa.array(at)),
        )

    def entries(self, at: Int64s, due_us: Int64s) -> Entries:
        """Return the entries of the windows at some positions, given when each window is due."""
        return Entries(
            self.owners.take(at), self.start_us.take(at), self.end_us.take(at), due_us.take(at)
        )


@dataclass(frozen=True)
class Added:
    """What became of the rows that were added."""

    late: Bools
    """Which rows came too late: their window was closed for good, and they are in none."""
    windows: Windows
    """The windows that the other rows changed, as they are now, each once."""
    fired_before: Bools
    """Which of those windows had fired before with other content; `fire` gives them again."""
    retracted: Windows
    """Sessions, as they had fired before, that are now part of a longer one."""


@dataclass(frozen=True)
class Stored:
    """Windows that the table has, of the keys of a batch."""

    number: Int64s
    """The number of the key."""
    start_us: Int64s
    end_us: Int64s
    due_us: Int64s
    values: Columns

    def __len__(self) -> int:
        return len(self.number)

    def take(self, at: Int64s) -> Stored:
        """Return the windows at some positions."""
        return Stored(
            self.number.take(at),
            self.start_us.take(at),
            self.end_us.take(at),
            self.due_us.take(at),
            tuple(gather(column, at) for column in self.values),
        )

    def has_fired(self) -> Bools:
        """Say which windows have fired and only wait to be removed."""
        return np.asarray(self.due_us > self.end_us, np.bool_)
