"""The name under which one batch is delivered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """Names one epoch of one pipeline to its sinks; the same rows always come under the same one.

    Tokens of a pipeline are ordered by generation, then epoch. A sink takes a token only if it is
    past the last one it took: a replay is skipped, a process that was overtaken is refused, and
    after a roll-back, which raises the generation, an epoch that was seen before is new.
    """

    pipeline: str
    generation: int
    epoch: int

    def follows(self, other: Token | None) -> bool:
        """Whether this token is past another one of the same pipeline."""
        if other is None:
            return True
        return (self.generation, self.epoch) > (other.generation, other.epoch)

    @classmethod
    def parse(cls, text: str) -> Token:
        """Read what `str` wrote."""
        pipeline, generation, epoch = text.rsplit("/", 2)
        return cls(pipeline, int(generation), int(epoch))

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.generation}/{self.epoch}"
