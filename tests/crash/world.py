"""A source that keeps changing, and everything a copy of it may rightly look like."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cli.harness import Row, Shop, at, copied, latest, multiset

Strategy = Literal["incremental", "merge"]
SETTINGS: dict[Strategy, dict[str, str]] = {
    "incremental": {"cursor": '["updated_at", "id"]', "watermark": ""},
    "merge": {"strategy": '"merge"', "primary_key": '["id"]', "overlap": '"1 minute"'},
}


@dataclass(slots=True)
class World:
    """One table `orders` of a shop; every change to its source is remembered."""

    shop: Shop
    strategy: Strategy
    changes: list[list[Row]] = field(default_factory=list)

    @classmethod
    def begin(cls, root: Path, strategy: Strategy) -> World:
        """Make a project with a first few rows."""
        world = cls(Shop(root), strategy)
        world.shop.configure(**SETTINGS[strategy])
        world.change()
        return world

    def change(self) -> None:
        """Add rows: new ones, ties, and for a merge also updates and late ones."""
        number = len(self.changes)
        first, second = 10 * number, 10.0 * number
        note = f"change {number}"
        rows: list[Row] = [(first + i, at(second + i // 2), note) for i in range(6)]
        # Ties with the newest row there was: only the second column of the cursor tells.
        rows += [(first + 6, at(second + 2), f"{note}, tie")]
        if self.strategy == "merge" and number:
            rows += [
                (first - 10, at(second + 1.000001), f"{note}, update"),
                (first - 9, at(second + 1.000001), f"{note}, update at the same moment"),
                (first + 7, at(second - 5), f"{note}, late"),
            ]
        self.changes.append(rows)
        self.shop.add("orders", f"change-{number:03}", rows)

    def versions(self) -> list[Counter[tuple[Any, ...]]]:
        """What a complete copy of the source is after each change, and before the first."""
        found: list[Counter[tuple[Any, ...]]] = [Counter()]
        rows: list[Row] = []
        for change in self.changes:
            rows += change
            found.append(multiset(rows) if self.strategy == "incremental" else latest(rows))
        return found

    def visible_version(self) -> int:
        """After how many changes the copy is as a reader sees it now; it must be one of them."""
        seen = copied(self.shop.root / "lake" / "orders")
        versions = self.versions()
        assert seen in versions, f"half or doubled: {seen - versions[-1]} {versions[-1] - seen}"
        return versions.index(seen)
