"""What the backends made of layers share: reading them, and rows of other partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from holdfast.state.contract import Backend
from holdfast.state.keys import Keys
from holdfast.state.layers import PAGE_ROWS, Layer, find, scan
from holdfast.state.rows import Hits, Ranges, Rows


class LayeredBackend(Backend):
    """A backend whose tables are stacks of sorted layers."""

    _foreign = False
    """Whether some layers also hold keys of other partitions, as they do after a rescale.

    A look-up need not know: nobody asks here for another partition's key.
    """

    @abstractmethod
    def layers(self, table: str) -> Sequence[Layer]:
        """Return the layers of a table, oldest first."""

    def get(self, table: str, keys: Keys) -> Hits:
        """Return the rows of some keys."""
        return find(self.tables[table], self.layers(table), keys).alive()

    def scan(self, table: str, ranges: Ranges) -> Iterator[Rows]:
        """Yield the rows whose codes are in some ranges, in the order of their codes."""
        for rows in self.merge(table, tuple(self.layers(table)), ranges):
            alive = rows.alive()
            if len(alive):
                yield alive

    def merge(
        self,
        table: str,
        layers: Sequence[Layer],
        ranges: Ranges | None = None,
        *,
        rows: int = PAGE_ROWS,
    ) -> Iterator[Rows]:
        """Yield the newest row of every key of this partition, deletions included."""
        every = ranges or Ranges.everything()
        for piece in scan(self.tables[table], layers, every, rows=rows):
            yield (
                piece.where(self.partition.owns(piece.partition_hashes)) if self._foreign else piece
            )
