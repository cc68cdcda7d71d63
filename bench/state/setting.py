"""How large, how often, and where the benchmark runs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """How large, how often, and where."""

    scale: float
    rounds: int
    directory: Path
    peers: str

    def rows(self, full: int) -> int:
        """Return a number of keys at the scale of this run."""
        return max(int(full * self.scale), 1000)

    def place(self, name: str) -> Path:
        """Return an empty directory."""
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path
