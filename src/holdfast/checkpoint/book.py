"""The checkpoints of one pipeline: the ledger says which count, the location keeps their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from holdfast.checkpoint import committing, restoring, retention, rolling_back
from holdfast.checkpoint.finding import find
from holdfast.checkpoint.kept import Kept
from holdfast.checkpoint.line import ancestors_in, line_from, node_of, version_key
from holdfast.checkpoint.manifest import decode
from holdfast.checkpoint.values import Removed, Restored
from holdfast.errors import CheckpointMissing
from holdfast.ledger.records import Records
from holdfast.model import (
    Checkpoint,
    CheckpointEntry,
    Head,
    Intent,
    Pin,
    RollBack,
    SchemaEntry,
    SinkPosition,
    Token,
)
from holdfast.objects import ObjectStore

_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def next_version(expect: Head | None) -> int:
    """Return the version of the checkpoint that is committed on top of a head."""
    return (expect.newest_version if expect else 0) + 1


class Checkpoints:
    """The checkpoints of one pipeline. Its writing methods belong to whoever holds the lease."""

    def __init__(self, pipeline: str, records: Records, objects: ObjectStore) -> None:
        self.pipeline = pipeline
        self.records = records
        self.objects = objects
        self._kept: Kept | None = None

    def head(self) -> Head | None:
        """Where the pipeline is now; `None` before its first checkpoint."""
        with self.records.ledger.reading() as view:
            return self.records.heads.get(view, self.pipeline)

    def intent(self) -> Intent | None:
        """The epoch that was begun and not committed."""
        with self.records.ledger.reading() as view:
            return self.records.epoch_intents.get(view, self.pipeline)

    def intend(self, intent: Intent, *, generation: int) -> None:
        """Say, before a row is read, what the next epoch reads; replaces an older intent."""
        with self.records.ledger.writing() as change:
            self.records.leases.check(change, self.pipeline, generation)
            self.records.epoch_intents.put(change, self.pipeline, intent)
            self.records.epoch_intents.prune(change, self.pipeline, 1)

    def next_version(self, expect: Head | None) -> int:
        """Return the version of the checkpoint that is committed on top of a head."""
        return next_version(expect)

    def commit(
        self,
        checkpoint: Checkpoint,
        *,
        generation: int,
        expect: Head | None,
        changes: Mapping[str, tuple[str, ...]] = _NONE,
    ) -> CheckpointEntry:
        """Let a checkpoint count, whose files are stored already, and move the head to it.

        `changes` says by name how schemas seen for the first time differ from those before.
        Calling it again after an error is harmless.
        """
        committing.check_version(checkpoint, self.pipeline, next_version(expect), generation)
        kept, self._kept = self._kept, None  # dropped should anything fail
        entry, head = committing.commit(
            self.records,
            self.objects,
            checkpoint,
            generation=generation,
            expect=expect,
            changes=changes,
        )
        if kept is not None and kept.head == expect:
            kept.add(entry, head)
            self._kept = kept
        return entry

    def entry(self, version: int) -> CheckpointEntry | None:
        """Return one version, if it is kept."""
        with self.records.ledger.reading() as view:
            return self.records.checkpoints.get(view, version_key(self.pipeline, version))

    def entries(self) -> list[CheckpointEntry]:
        """Every kept checkpoint, newest version first, abandoned ones too."""
        with self.records.ledger.reading() as view:
            found = self.records.checkpoints.items(view, f"{self.pipeline}/")
            return [entry for _, entry in found][::-1]

    def line(self) -> list[CheckpointEntry]:
        """The head and its kept ancestors, newest first; all others were abandoned."""
        with self.records.ledger.reading() as view:
            head = self.records.heads.get(view, self.pipeline)
            ancestors = ancestors_in(view, self.records, self.pipeline)
            found = dict(self.records.checkpoints.items(view, f"{self.pipeline}/"))
        nodes = [node_of(entry, ancestors) for entry in found.values()]
        versions = line_from(head.checkpoint_id if head else None, nodes)
        return [found[version_key(self.pipeline, version)] for version in versions]

    def resolve(self, reference: str) -> CheckpointEntry:
        """Return the checkpoint somebody means.

        By `head` or `latest`, which are the same, a version number, an id, or the first six or
        more characters of one.
        """
        return find(self.pipeline, reference, self.head(), self.entries())

    def load(self, entry: CheckpointEntry) -> Checkpoint:
        """Read a checkpoint from its manifest, or raise `CheckpointDamaged`."""
        return decode(restoring.read_manifest(self.objects, entry), entry.manifest.key)

    def recall(self, entry: CheckpointEntry) -> Checkpoint:
        """Read a checkpoint, if need be from the ledger's copy, which then mends the manifest."""
        return restoring.read(self.pipeline, self.records, self.objects, entry, [])

    def refuse_abandoned(self, entry: CheckpointEntry) -> None:
        """Refuse to roll back to a version that a roll-back has left behind."""
        rolling_back.check_line(self.pipeline, entry.version, {e.version for e in self.line()})

    def restore(self) -> Restored | None:
        """Return what a run starts from: the head, or the newest version before it that is whole.

        A manifest that is damaged is written again from the ledger's copy. `None` before the
        first checkpoint.
        """
        head = self.head()
        if head is None:
            restoring.refuse_lost_ledger(self.pipeline, self.objects, self.intent())
            return None
        return restoring.restore(
            self.pipeline, self.records, self.objects, self._at(head), lambda: self.line()[1:]
        )

    def roll_back(
        self,
        to: CheckpointEntry,
        *,
        generation: int,
        actor: str,
        note: str,
        sinks: Sequence[str],
        abandoned: bool = False,
    ) -> RollBack:
        """Move the head back, under a generation that is newer than all before it.

        `sinks` are those that have to be told. One of an abandoned line is refused unless
        `abandoned`: sinks that were told to forget its batches do not get them again.
        """
        if self.entry(to.version) != to:
            raise rolling_back.gone(self.pipeline, to.version)
        checkpoint = restoring.read_whole(self.pipeline, self.records, self.objects, to)
        self._kept = None
        return rolling_back.roll_back(
            self.records,
            checkpoint,
            None if abandoned else {entry.version for entry in self.line()},
            generation=generation,
            actor=actor,
            note=note,
            sinks=sinks,
        )

    def told(self, to: Token, sink: str, effect: str) -> None:
        """Record that a sink was told of the roll-back to `to`, and what it did."""
        rolling_back.told(self.records, to, sink, effect)

    def open_roll_back(self) -> RollBack | None:
        """The newest roll-back, if there are sinks that have still to be told of it."""
        with self.records.ledger.reading() as view:
            newest = self.records.rollbacks.get(view, self.pipeline)
        return newest if newest is not None and newest.open_sinks else None

    def roll_backs(self) -> list[RollBack]:
        """Every roll-back that is remembered, newest first."""
        return rolling_back.roll_backs(self.records, self.pipeline)

    def sink_positions(self) -> dict[str, SinkPosition]:
        """How far every sink got, by name."""
        prefix = f"{self.pipeline}/"
        with self.records.ledger.reading() as view:
            found = self.records.sink_positions.items(view, prefix)
            return {key.removeprefix(prefix): position for key, position in found}

    def remember_sink(self, sink: str, position: SinkPosition, *, generation: int) -> None:
        """Move one sink, for a spool that drains between epochs."""
        with self.records.ledger.writing() as change:
            self.records.leases.check(change, self.pipeline, generation)
            committing.remember_sinks(self.records, change, self.pipeline, {sink: position})

    def schemas(self) -> list[SchemaEntry]:
        """Every schema that was seen, oldest first."""
        with self.records.ledger.reading() as view:
            found = self.records.stream_schemas.items(view, f"{self.pipeline}/")
            return sorted((entry for _, entry in found), key=lambda e: (e.version, e.name))

    def pin(self, entry: CheckpointEntry, *, note: str, actor: str) -> Pin:
        """Keep a checkpoint until it is unpinned."""
        key = version_key(self.pipeline, entry.version)
        with self.records.ledger.writing() as change:
            if self.records.checkpoints.get(change, key) is None:
                raise CheckpointMissing(
                    f"Pipeline {self.pipeline} has no checkpoint {entry.version} any more.",
                    hint="List those it has: holdfast checkpoint list",
                )
            at = self.records.ledger.clock()
            pin = Pin(entry.version, entry.checkpoint_id, note, actor, at)
            self.records.pins.put(change, key, pin)
            self.records.pins.prune(change, key, 1)
        return pin

    def unpin(self, version: int) -> bool:
        """Leave a checkpoint to retention again; `False` if it was not pinned."""
        with self.records.ledger.writing() as change:
            return bool(self.records.pins.prune(change, version_key(self.pipeline, version), 0))

    def pins(self) -> list[Pin]:
        """Every pin, newest version first."""
        with self.records.ledger.reading() as view:
            return [pin for _, pin in self.records.pins.items(view, f"{self.pipeline}/")][::-1]

    def retain(
        self,
        *,
        min_count: int,
        min_age: timedelta,
        generation: int | None = None,
        limit: int = 1000,
    ) -> Removed:
        """Remove checkpoints that are past both limits, at most `limit` of them, oldest first.

        It costs next to nothing when there is none, and never lists the location.
        """
        kept, self._kept = self._kept, None  # dropped should anything fail
        removed, self._kept = retention.retain(
            self.pipeline,
            self.records,
            self.objects,
            kept,
            retention.Limits(min_count, min_age, limit),
            generation,
        )
        return removed

    def _at(self, head: Head) -> CheckpointEntry:
        entry = self.entry(head.version)
        if entry is None:
            raise restoring.not_in_ledger(self.pipeline, head)
        return entry
