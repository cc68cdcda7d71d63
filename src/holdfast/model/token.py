"""The name under which one batch is delivered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """Names one epoch of one pipeline to its sinks; the same rows always come under the same one.

    Tokens of a pipeline are ordered by generation, then epoch. A sink takes a token of a later
    epoch and of no older generation than the last one: a replay is skipped, a process that was
    overtaken is refused. A roll-back raises the generation, and a sink that was told of it takes
    the epochs after it again.

    A ledger that was restored from an older copy counts the same generations and epochs again, for
    other rows. `batch` tells them apart: a replay has that of the batch it repeats.
    """

    pipeline: str
    generation: int
    epoch: int
    batch: str = ""
    """Made once for every batch, and kept when it is replayed; empty if there are no rows to it,
    as for a roll-back."""

    def follows(self, other: Token | None) -> bool:
        """Whether this token is past another one of the same pipeline."""
        if other is None:
            return True
        return (self.generation, self.epoch) > (other.generation, other.epoch)

    def repeats(self, other: Token | None) -> bool:
        """Whether this token brings the same rows as another one of the same pipeline.

        Where one of them does not say which batch it names, generation and epoch decide.
        """
        if other is None or (self.generation, self.epoch) != (other.generation, other.epoch):
            return False
        return self.batch == other.batch or not self.batch or not other.batch

    @property
    def short(self) -> str:
        """The token without its pipeline, for where that is known: `generation/epoch/batch`."""
        batch = f"/{self.batch}" if self.batch else ""
        return f"{self.generation}/{self.epoch}{batch}"

    @classmethod
    def parse(cls, text: str) -> Token:
        """Read what `str` wrote; raises `ValueError` for anything else."""
        pipeline, generation, epoch, *batch = text.split("/", 3)
        return cls(pipeline, int(generation), int(epoch), *batch)

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.short}"
