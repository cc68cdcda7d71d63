"""What retention has to know of the kept checkpoints, so that it need not read them every epoch.

It is loaded once and then follows the commits of this process. Nobody else commits without moving
the head, so a head that is another one than expected is the sign to load it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from holdfast.checkpoint.line import Node, ancestors_in, line_from, node_of
from holdfast.ledger import Transaction
from holdfast.ledger.records import Records
from holdfast.model import CheckpointEntry, Head


@dataclass
class Kept:
    """The kept checkpoints of one pipeline, and how many of them name each file."""

    head: Head | None
    nodes: dict[int, Node]
    names: Counter[str]
    line: list[int]
    """Versions the head continues and its own, oldest first."""
    stray: list[int]
    """Versions of abandoned lines, oldest first."""

    @classmethod
    def load(cls, view: Transaction, records: Records, pipeline: str) -> Kept:
        """Read every kept checkpoint of a pipeline."""
        ancestors = ancestors_in(view, records, pipeline)
        nodes: dict[int, Node] = {}
        names: Counter[str] = Counter()
        for _, entry in records.checkpoints.items(view, f"{pipeline}/"):
            nodes[entry.version] = node_of(entry, ancestors)
            names.update(files_of(entry))
        kept = cls(None, nodes, names, [], [])
        kept.move(records.heads.get(view, pipeline))
        return kept

    def add(self, entry: CheckpointEntry, head: Head) -> None:
        """Follow a commit, which continues the line."""
        if entry.version not in self.nodes:
            self.nodes[entry.version] = node_of(entry, {})
            self.names.update(files_of(entry))
            self.line.append(entry.version)
        self.head = head

    def move(self, head: Head | None) -> None:
        """Follow a head that went somewhere else."""
        self.head = head
        newest_first = line_from(head.checkpoint_id if head else None, self.nodes.values())
        self.line = newest_first[::-1]
        self.stray = sorted(self.nodes.keys() - set(self.line))

    def expired(
        self, now: datetime, min_count: int, min_age: timedelta, protected: Collection[int]
    ) -> Iterator[int]:
        """Walk the versions that nothing protects and that are old enough, oldest first."""
        oldest = islice(self.line, max(0, len(self.line) - min_count))
        for versions in (oldest, self.stray):
            for version in versions:
                age = now - self.nodes[version].created_at
                if version in protected or age < timedelta():
                    continue  # of the future: the clock was wrong then or is now
                if age <= min_age:
                    break  # those after it are younger still
                yield version

    def unnamed_without(self, entries: Iterable[CheckpointEntry]) -> list[str]:
        """Return the files that nobody names once these checkpoints are gone."""
        dropped: Counter[str] = Counter()
        for entry in entries:
            dropped.update(files_of(entry))
        return [key for key, count in dropped.items() if self.names[key] <= count]

    def bridges(self, removed: Collection[int]) -> list[tuple[Node, Node]]:
        """Return which versions continue which, where those in between are removed."""
        found: list[tuple[Node, Node]] = []
        last = max(removed, default=0)
        older: Node | None = None
        for version in self.line:
            if version in removed:
                continue
            node = self.nodes[version]
            if older is not None and node.before != older.checkpoint_id:
                found.append((node, older))
            if version > last:
                break
            older = node
        return found

    def remove(
        self, entries: Sequence[CheckpointEntry], bridges: Iterable[tuple[Node, Node]]
    ) -> None:
        """Follow a removal."""
        removed = {entry.version for entry in entries}
        for node, older in bridges:
            self.nodes[node.version] = Node(
                node.version, node.checkpoint_id, older.checkpoint_id, node.created_at
            )
        for entry in entries:
            del self.nodes[entry.version]
            for key in files_of(entry):
                self.names[key] -= 1
                if not self.names[key]:
                    del self.names[key]
        self.line = [version for version in self.line if version not in removed]
        self.stray = [version for version in self.stray if version not in removed]


def files_of(entry: CheckpointEntry) -> set[str]:
    """Return the files a checkpoint names, each once."""
    return {file.key for file in entry.files}
