"""Where a batch is written before anybody may see it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from holdfast.model import Token
from holdfast.spark.filesystem import Files, join

_STAGED: Final = re.compile(r"(\d+)-(\d+)-\w+")


@dataclass(frozen=True, slots=True)
class StagingArea:
    """A directory with one directory for every try at a batch."""

    files: Files
    path: str

    def new(self, token: Token) -> str:
        """A directory nobody has used: a task that outlived its job writes elsewhere."""
        return join(self.path, f"{token.generation}-{token.epoch}-{uuid4().hex[:12]}")

    def clear(self, token: Token) -> None:
        """Remove what earlier tries up to this token left behind."""
        for name in self.files.names(self.path):
            found = _STAGED.fullmatch(name)
            # What a newer run is writing stays, should this one have been overtaken.
            if found and (int(found[1]), int(found[2])) <= (token.generation, token.epoch):
                self.files.delete(join(self.path, name))
