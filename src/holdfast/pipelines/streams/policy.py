"""When enough sinks have a batch for it to be committed."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from holdfast.config.stream import CommitPolicy


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule over the names of the sinks that acknowledged, never over their number alone."""

    kind: CommitPolicy
    sinks: frozenset[str]
    required: frozenset[str]
    quorum: int = 0

    def satisfied_by(self, acknowledged: Set[str]) -> bool:
        """Whether the batch may be committed."""
        if self.kind == "all":
            return self.sinks <= acknowledged
        if self.kind == "quorum" and len(acknowledged & self.sinks) < self.quorum:
            return False
        return self.required <= acknowledged

    def holding_back(self, acknowledged: Set[str]) -> frozenset[str]:
        """The sinks any of which the commit waits for."""
        missing = self.sinks - acknowledged
        if self.kind == "all" or (
            self.kind == "quorum" and len(acknowledged & self.sinks) < self.quorum
        ):
            return missing
        return missing & self.required

    def describe(self) -> str:
        """The rule in words."""
        if self.kind == "all":
            return "every sink"
        if self.kind == "quorum":
            return f"{self.quorum} of {len(self.sinks)} sinks and every required one"
        return "every required sink"
