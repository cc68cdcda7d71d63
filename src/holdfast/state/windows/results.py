"""What goes in and out of windows: windows as users see them, and as the table has them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from holdfast.state.columns import Bools, Columns, Int64s, gather
from holdfast.state.owners import Owners
from holdfast.state.windows.pending import Entries


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
    """Sessions that had fired before and are now part of a longer one.

    Each is known by its key, start and end: what was given out under them counts no more. The
    values are those that were stored last, which may include rows that came after it had fired.
    """


@dataclass(frozen=True)
class Stored:
    """Windows that the table has, of the keys of a batch."""

    number: Int64s
    """The number of the key."""
    start_us: Int64s
    end_us: Int64s
    due_us: Int64s
    fired: Bools
    """Which of them were ever given out."""
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
            self.fired.take(at),
            tuple(gather(column, at) for column in self.values),
        )
