"""A checkpoint counts as a whole or not at all, and for one process only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast import failpoints
from holdfast.checkpoint import STEPS, Checkpoints, next_version
from holdfast.errors import CheckpointError, LeaseLost, ObjectExists, VersionConflict
from holdfast.model import SinkPosition, Token

from .workshop import Workshop, schema


class Crash(BaseException):
    """A process that ends here."""


def crash_at(step: str) -> None:
    """End the next commit at a step."""

    def observe(reached: str, subject: str) -> None:
        if reached == step:
            failpoints.observe(None)
            raise Crash

    failpoints.observe(observe)


def test_nothing_yet(workshop: Workshop) -> None:
    """A pipeline that never ran has no head, nothing to restore and nothing to list."""
    book = workshop.checkpoints
    assert book.head() is None
    assert book.intent() is None
    assert book.restore() is None
    assert book.entries() == book.line() == book.schemas() == book.pins() == []
    assert book.sink_positions() == {}
    assert book.roll_backs() == []


def test_a_commit(workshop: Workshop) -> None:
    """A commit moves the head, and everything can be read back by another process."""
    workshop.checkpoints.intend(workshop.intent(), generation=workshop.generation)
    made = workshop.make(None)
    entry = workshop.checkpoints.commit(made, generation=workshop.generation, expect=None)
    book = workshop.reopen()
    head = book.head()
    assert head is not None
    assert (head.checkpoint_id, head.version, head.epoch) == (made.checkpoint_id, 1, 0)
    assert (head.generation, head.newest_version, head.cause) == (1, 1, "epoch")
    assert head.moved_at == workshop.now
    assert book.entries() == book.line() == [entry]
    assert book.load(entry) == made
    assert entry.files == made.files
    assert book.intent() is None
    assert book.sink_positions() == made.sinks
    assert [seen.fingerprint for seen in book.schemas()] == [made.schemas["input"].fingerprint]
    restored = book.restore()
    assert restored is not None
    assert (restored.checkpoint, restored.entry, restored.notes) == (made, entry, ())


def test_the_manifest_is_plain_json(disk: Workshop) -> None:
    """A manifest is at its documented place and says what it is."""
    entry = disk.commit()
    key = f"payments/manifests/000000000001-{entry.checkpoint_id}.json"
    assert entry.manifest.key == key
    document = json.loads(disk.objects.get(key))
    assert document["format"] == 1
    assert document["checkpoint"]["pipeline"] == "payments"
    assert document["checkpoint"]["created_at"] == "2025-03-15T14:30:00Z"
    assert set(document) == {"checkpoint", "checksum", "format"}


def test_steps_in_order(workshop: Workshop) -> None:
    """Files come first, then the manifest, then the ledger."""
    seen: list[tuple[str, int, bool]] = []
    failpoints.observe(
        lambda step, _: (
            seen.append((step, len(workshop.files()), workshop.checkpoints.head() is not None))
            if step in STEPS
            else None
        )
    )
    workshop.commit()
    failpoints.observe(None)
    assert seen == [
        ("commit.manifest", 2, False),
        ("commit.ledger", 3, False),
        ("commit.done", 3, True),
    ]
    assert [step for step, *_ in seen] == list(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_a_step(workshop: Workshop, step: str) -> None:
    """A crash leaves the old head or the new one, and the next process goes on from it."""
    first = workshop.commit()
    workshop.checkpoints.intend(workshop.intent(), generation=workshop.generation)
    head = workshop.checkpoints.head()
    made = workshop.make(head)
    crash_at(step)
    with pytest.raises(Crash):
        workshop.checkpoints.commit(made, generation=workshop.generation, expect=head)
    book = workshop.reopen()
    workshop.activate()
    counts = step == "commit.done"
    restored = book.restore()
    assert restored is not None
    assert restored.entry.version == (2 if counts else 1)
    assert (book.intent() is None) == counts
    after = workshop.commit()
    assert [entry.version for entry in book.line()] == ([3, 2, 1] if counts else [2, 1])
    assert after.parent == (made.checkpoint_id if counts else first.checkpoint_id)


def test_a_first_epoch_that_crashes_is_no_lost_ledger(workshop: Workshop) -> None:
    """Killed between its first manifest and the ledger, a pipeline starts from nothing again."""
    workshop.checkpoints.intend(workshop.intent(), generation=workshop.generation)
    crash_at("commit.ledger")
    with pytest.raises(Crash):
        workshop.commit()
    assert workshop.reopen().restore() is None


def test_the_same_commit_again(workshop: Workshop) -> None:
    """A caller that did not hear the answer may ask again."""
    made = workshop.make(None)
    for step in ("commit.ledger", "commit.done"):
        crash_at(step)
        with pytest.raises(Crash):
            workshop.checkpoints.commit(made, generation=1, expect=None)
    head = workshop.checkpoints.head()
    entry = workshop.checkpoints.commit(made, generation=1, expect=None)
    assert workshop.checkpoints.head() == head
    assert workshop.checkpoints.entries() == [entry]


def test_an_overtaken_process(workshop: Workshop) -> None:
    """A process whose pipeline was taken over cannot commit, intend or move a sink."""
    workshop.commit()
    old, head = workshop.generation, workshop.checkpoints.head()
    made = workshop.make(head)
    intent = workshop.intent()
    workshop.activate()
    before = workshop.checkpoints.sink_positions()
    with pytest.raises(LeaseLost, match="generation 2, this one is 1"):
        workshop.checkpoints.commit(made, generation=old, expect=head)
    with pytest.raises(LeaseLost):
        workshop.checkpoints.intend(intent, generation=old)
    with pytest.raises(LeaseLost):
        workshop.checkpoints.remember_sink(
            "lake", SinkPosition("exactly_once", None), generation=old
        )
    with pytest.raises(LeaseLost):
        workshop.checkpoints.roll_back(
            workshop.checkpoints.resolve("head"), generation=old, actor="", note="", sinks=()
        )
    assert workshop.checkpoints.head() == head
    assert workshop.checkpoints.intent() is None
    assert workshop.checkpoints.sink_positions() == before


def test_a_head_that_moved(workshop: Workshop) -> None:
    """A commit on top of another head than the current one is refused and changes nothing."""
    workshop.commits(2)
    stale = replace(workshop.checkpoints.head(), version=1)  # type: ignore[type-var]
    for expect in (None, stale):
        made = workshop.make(expect)
        with pytest.raises(VersionConflict, match=r"at version 2 \(epoch, generation 1\)"):
            workshop.checkpoints.commit(made, generation=1, expect=expect)
    assert [entry.version for entry in workshop.checkpoints.entries()] == [2, 1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"version": 5}, "has version 2, not 5"),
        ({"pipeline": "other"}, "pipeline other was given to those of payments"),
        ({"generation": 9}, "generation 9, which is past"),
        ({"rows": "many"}, "cannot be written"),
        ({"run_id": "\ud800"}, "cannot be written"),
    ],
)
def test_checkpoints_that_are_none(workshop: Workshop, wrong: dict[str, Any], said: str) -> None:
    """A checkpoint that does not belong here, or cannot be read back, is refused unwritten."""
    workshop.commit()
    made = workshop.make(workshop.checkpoints.head(), **wrong)
    before = workshop.files()
    with pytest.raises(CheckpointError, match=said):
        workshop.checkpoints.commit(made, generation=1, expect=workshop.checkpoints.head())
    assert workshop.files() == before


def test_an_id_used_twice(workshop: Workshop) -> None:
    """A manifest is never replaced by another one of the same name."""
    made = workshop.make(None)
    crash_at("commit.ledger")
    with pytest.raises(Crash):
        workshop.checkpoints.commit(made, generation=1, expect=None)
    with pytest.raises(ObjectExists):
        workshop.checkpoints.commit(replace(made, rows=11), generation=1, expect=None)
    assert workshop.checkpoints.head() is None


def test_versions_are_never_used_twice(workshop: Workshop) -> None:
    """After a roll-back versions go on from the highest one ever given."""
    first = workshop.commits(3)[0]
    workshop.roll_back(first)
    assert workshop.checkpoints.head().newest_version == 3  # type: ignore[union-attr]
    assert next_version(workshop.checkpoints.head()) == 4
    assert workshop.commit().version == 4


def test_schemas(workshop: Workshop) -> None:
    """A schema is registered when it is first seen, with how it differs from the one before."""
    one, two = schema(a="long"), schema(a="long", b="string")
    workshop.commit(schemas={"input": one, "output": one})
    workshop.commit(schemas={"input": one, "output": one})
    head = workshop.checkpoints.head()
    made = workshop.make(head, schemas={"input": two, "output": one})
    workshop.checkpoints.commit(
        made, generation=1, expect=head, changes={"input": ("column b (string) was added",)}
    )
    workshop.commit(schemas={"input": one, "output": one})
    seen = workshop.checkpoints.schemas()
    assert [(s.name, s.fingerprint, s.version, s.changes) for s in seen] == [
        ("input", one.fingerprint, 1, ()),
        ("output", one.fingerprint, 1, ()),
        ("input", two.fingerprint, 3, ("column b (string) was added",)),
    ]


def test_sinks_between_epochs(workshop: Workshop) -> None:
    """A spool that drains between two epochs moves its sink alone."""
    workshop.commit()
    position = SinkPosition("at_least_once", Token("payments", 1, 0))
    workshop.checkpoints.remember_sink("kafka", position, generation=1)
    assert workshop.checkpoints.sink_positions().keys() == {"lake", "kafka"}
    assert workshop.checkpoints.sink_positions()["kafka"] == position


def test_pipelines_do_not_meet(workshop: Workshop) -> None:
    """Pipelines share a ledger and a location and see only their own."""
    other = Workshop(workshop.ledger, workshop.objects, pipeline="payments-eu")
    other.activate()
    mine = workshop.commits(2)
    theirs = other.commits(3)
    assert workshop.checkpoints.entries() == mine[::-1]
    assert other.checkpoints.entries() == theirs[::-1]
    assert isinstance(workshop.checkpoints, Checkpoints)
    assert workshop.checkpoints.sink_positions()["lake"].delivered == Token("payments", 1, 1)


def test_the_ledger_stays_small(disk: Workshop) -> None:
    """However many epochs there are, the ledger keeps a bounded number of versions."""
    for _ in range(60):
        disk.checkpoints.intend(disk.intent(), generation=disk.generation)
        disk.commit()
    with disk.ledger.reading() as view:
        counts = {
            collection.namespace: len(view.versions(collection.namespace, key))
            for collection, key in (
                (disk.records.heads, "payments"),
                (disk.records.epoch_intents, "payments"),
                (disk.records.sink_positions, "payments/lake"),
            )
        }
    assert counts == {"heads": 20, "epoch_intents": 1, "sink_positions": 1}


@pytest.mark.parametrize(
    ("reference", "version"),
    [("head", 2), ("latest", 2), (" HEAD ", 2), ("1", 1), ("3", 3), ("id", 1), ("ID", 3)],
)
def test_naming_a_checkpoint(workshop: Workshop, reference: str, version: int) -> None:
    """A checkpoint is named by a word, its version or its id."""
    entries = workshop.commits(3)
    workshop.roll_back(entries[1])
    if reference == "id":
        reference = entries[0].checkpoint_id
    if reference == "ID":
        reference = entries[2].checkpoint_id.upper()
    assert workshop.checkpoints.resolve(reference).version == version


def test_naming_a_checkpoint_by_the_beginning_of_its_id(workshop: Workshop) -> None:
    """Six characters are enough if they are those of one id only."""
    workshop.commit(checkpoint_id="aaaaaa11-1")
    workshop.commit(checkpoint_id="aaaaaa22-2")
    workshop.commit(checkpoint_id="123456-3")
    resolve = workshop.checkpoints.resolve
    assert resolve("aaaaaa1").version == 1
    assert resolve("123456").version == 3
    with pytest.raises(CheckpointError, match="the beginning of 2 ids") as caught:
        resolve("aaaaaa")
    assert "aaaaaa22-2" in str(caught.value)
    with pytest.raises(CheckpointError, match="no checkpoint 'aaaaa'"):
        resolve("aaaaa")


def test_naming_a_checkpoint_that_is_not_there(workshop: Workshop) -> None:
    """The error says which checkpoints exist."""
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        workshop.checkpoints.resolve("head")
    entry = workshop.commit()
    for reference in ("7", "", "nonsense", "-1", "²"):
        with pytest.raises(CheckpointError, match="has no checkpoint") as caught:
            workshop.checkpoints.resolve(reference)
        assert f"1 ({entry.checkpoint_id})" in caught.value.hint
