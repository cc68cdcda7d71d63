"""A pipeline's versions, for people: look at them, keep one, go back to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.checkpoint import Checkpoints, Difference, diff
from holdfast.errors import HoldfastError, SinkUnavailable, UsageError
from holdfast.model import Checkpoint, CheckpointEntry, Head, Pin, RollBack

if TYPE_CHECKING:
    from holdfast.spark.sinks.contract import Sink


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version as a list shows it."""

    entry: CheckpointEntry
    head: bool
    on_line: bool
    """Whether the pipeline still follows it; if not, a roll-back left it behind."""
    pin: Pin | None


@dataclass(frozen=True, slots=True)
class Preview:
    """What a roll-back would do."""

    head: Head
    to: CheckpointEntry
    difference: Difference
    unfinished_epoch: int | None
    """An epoch that was begun and would be given up."""
    sinks: Mapping[str, str]
    """What it means for the rows each sink has."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a roll-back did."""

    record: RollBack
    """As it is kept for audit, with what each sink said it did."""
    untold: Mapping[str, HoldfastError]
    """Sinks that could not be told now, and why; they are told before their next batch."""


class Versions:
    """The versions of one pipeline."""

    def __init__(self, checkpoints: Checkpoints, actor: str) -> None:
        self.checkpoints = checkpoints
        self._actor = actor

    def list(self) -> list[VersionLine]:
        """Every kept version, newest first."""
        head = self.checkpoints.head()
        line = {entry.version for entry in self.checkpoints.line()}
        pins = {pin.version: pin for pin in self.checkpoints.pins()}
        return [
            VersionLine(
                entry,
                head is not None and entry.version == head.version,
                entry.version in line,
                pins.get(entry.version),
            )
            for entry in self.checkpoints.entries()
        ]

    def show(self, reference: str) -> tuple[VersionLine, Checkpoint]:
        """One version in full."""
        entry = self.checkpoints.resolve(reference)
        found = next(line for line in self.list() if line.entry.version == entry.version)
        return found, self.checkpoints.load(entry)

    def create(self, note: str) -> Pin:
        """Keep the version the pipeline is at now, whatever retention says."""
        return self.checkpoints.pin(
            self.checkpoints.resolve("latest"), note=note, actor=self._actor
        )

    def release(self, reference: str) -> CheckpointEntry:
        """Give a version that was kept back to retention."""
        entry = self.checkpoints.resolve(reference)
        if not self.checkpoints.unpin(entry.version):
            pins = ", ".join(str(pin.version) for pin in self.checkpoints.pins())
            raise UsageError(
                f"Version {entry.version} is not kept on purpose.",
                hint=f"These are: {pins}." if pins else "None is.",
            )
        return entry

    def diff(self, one: str, other: str) -> Difference:
        """What moved between two versions."""
        first, second = self.checkpoints.resolve(one), self.checkpoints.resolve(other)
        return diff(
            self.checkpoints.load(first),
            self.checkpoints.load(second),
            entries=self.checkpoints.entries(),
        )

    def preview(self, reference: str, sinks: Mapping[str, Sink]) -> Preview:
        """What a roll-back would do, without doing it."""
        to = self.checkpoints.resolve(reference)
        head = self.checkpoints.head()
        assert head is not None, "what can be resolved has a head"
        self.checkpoints.refuse_abandoned(to)
        now = self.checkpoints.resolve("head")
        intent = self.checkpoints.intent()
        return Preview(
            head,
            to,
            diff(
                # A damaged manifest is no reason not to go back: the ledger has a copy.
                self.checkpoints.recall(now),
                self.checkpoints.recall(to),
                entries=self.checkpoints.entries(),
            ),
            intent.token.epoch if intent is not None else None,
            {name: sink.takes_back for name, sink in sinks.items()},
        )

    def roll_back(
        self, reference: str, sinks: Mapping[str, Sink], *, generation: int, note: str
    ) -> RolledBack:
        """Go back to a version under a new generation, and tell the sinks."""
        to = self.checkpoints.resolve(reference)
        done = self.checkpoints.roll_back(
            to, generation=generation, actor=self._actor, note=note, sinks=tuple(sinks)
        )
        untold: dict[str, HoldfastError] = {}
        positions = self.checkpoints.sink_positions()
        for name, sink in sinks.items():
            try:
                if name in positions and positions[name].waiting is not None:
                    raise SinkUnavailable(
                        f"Sink {name} has batches from before epoch {to.epoch} waiting for it.",
                        hint="They are delivered first when the pipeline runs again.",
                    )
                self.checkpoints.told(done.to, name, sink.roll_back(done.to))
            except HoldfastError as error:
                untold[name] = error
        return RolledBack(self.checkpoints.roll_backs()[0], untold)
