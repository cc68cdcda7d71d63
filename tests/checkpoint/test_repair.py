"""Whichever of ledger and location is left, the other is made again from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.checkpoint import repair, verify_all
from holdfast.errors import PipelineBusy
from holdfast.ledger import MemoryLedger
from holdfast.model import SinkPosition, Token

from .test_restore import flip
from .workshop import Workshop, path_of, schema


def lost(workshop: Workshop) -> Workshop:
    """The same location with a ledger that knows nothing."""
    return Workshop(MemoryLedger(), workshop.objects, now=workshop.now)


def test_nothing_to_do(workshop: Workshop) -> None:
    """A healthy pipeline is left as it is, and so is one that never ran."""
    assert repair(workshop.checkpoints).problems == ()
    entry = workshop.commits(2)[-1]
    head = workshop.checkpoints.head()
    found = repair(workshop.checkpoints)
    assert (found.done, found.problems) == ((), ())
    assert found.head == found.newest_whole == entry
    assert workshop.checkpoints.head() == head


def test_manifests_that_are_lost(disk: Workshop) -> None:
    """Lost manifests are written again from the ledger's copies."""
    disk.commits(3)
    shutil.rmtree(Path(disk.objects.location, "payments", "manifests"))
    found = repair(disk.checkpoints)
    assert len(found.done) == 3
    assert found.problems == ()
    assert all(each.whole for each in verify_all(disk.checkpoints))


def test_copies_that_are_lost(workshop: Workshop) -> None:
    """Copies that the ledger lacks are made from the manifests."""
    workshop.commits(2)
    with workshop.ledger.writing() as change:
        workshop.records.manifests.prune(change, "payments/000000000001", 0)
    assert repair(workshop.checkpoints).done == (
        "The ledger has a copy of the manifest of version 1 again.",
    )
    workshop.objects.delete(workshop.checkpoints.entries()[-1].manifest.key)
    assert "written again from the ledger's copy" in repair(workshop.checkpoints).done[0]


def test_neither_manifest_nor_copy(workshop: Workshop) -> None:
    """What is nowhere is named, and the newest whole version with it."""
    entries = workshop.commits(2)
    workshop.objects.delete(entries[1].manifest.key)
    with workshop.ledger.writing() as change:
        workshop.records.manifests.prune(change, "payments/000000000002", 0)
    found = repair(workshop.checkpoints)
    assert found.done == ()
    assert "The ledger has no copy of it" in found.problems[0]
    assert found.head == entries[1]
    assert found.newest_whole == entries[0]


def test_files_that_are_damaged(disk: Workshop) -> None:
    """Damaged files cannot be made again: they are reported, with what is whole."""
    entries = disk.commits(3)
    flip(path_of(disk, entries[2].files[0].key))
    path_of(disk, entries[1].files[1].key).unlink()
    found = repair(disk.checkpoints)
    assert [problem.partition(":")[0] for problem in found.problems] == [
        "Version 3 is damaged",
        "Version 2 is damaged",
    ]
    assert found.newest_whole == entries[0]


def test_a_ledger_that_is_lost(workshop: Workshop) -> None:
    """Entries, schemas, sink positions and the head come back from the manifests."""
    one, two = schema(a="long"), schema(a="string")
    workshop.commit(schemas={"input": one})
    workshop.commits(2, schemas={"input": two})
    before = workshop.checkpoints
    new = lost(workshop)
    found = repair(new.checkpoints)
    assert found.problems == ()
    assert "3 checkpoints were rebuilt" in found.done[0]
    after = new.checkpoints
    assert after.entries() == before.entries()
    assert after.line() == before.line()
    assert after.sink_positions() == before.sink_positions()
    assert [(s.version, s.changes) for s in after.schemas()] == [
        (1, ()),
        (2, ("column a was bigint, is string",)),
    ]
    head = after.head()
    assert head is not None
    assert (head.version, head.newest_version, head.cause) == (3, 3, "repair")
    restored = after.restore()
    assert restored is not None
    assert restored.notes == ()
    assert new.activate() > workshop.generation
    assert new.commit().version == 4
    assert repair(new.checkpoints).done == ()


def test_generations_go_on(workshop: Workshop) -> None:
    """The next generation is past every one that a sink may have seen."""
    for _ in range(5):
        workshop.activate()
    seen = Token("payments", 600, 0)  # of a copy of the ledger that went on without this one
    workshop.commit(generation=3, sinks={"lake": SinkPosition("exactly_once", seen)})
    new = lost(workshop)
    found = repair(new.checkpoints)
    assert new.activate() > 600
    assert f"past {new.generation - 1}." in found.done[1]
    new.roll_back(new.checkpoints.resolve("head"))


def test_the_line_of_the_newest_generation(workshop: Workshop) -> None:
    """After a roll-back the newer generation is the line, although the other got further."""
    entries = workshop.commits(6)
    workshop.roll_back(entries[1])
    newest = workshop.commit()
    new = lost(workshop)
    repair(new.checkpoints)
    assert [entry.version for entry in new.checkpoints.line()] == [7, 2, 1]
    assert new.checkpoints.resolve("head") == newest
    assert [entry.version for entry in new.checkpoints.entries()] == [7, 6, 5, 4, 3, 2, 1]


def test_a_damaged_manifest_and_no_ledger(disk: Workshop) -> None:
    """It is named and left alone, and its version is not given again."""
    entries = disk.commits(3)
    path = path_of(disk, entries[2].manifest.key)
    flip(path)
    content = path.read_bytes()
    new = lost(disk)
    found = repair(new.checkpoints)
    assert found.head == entries[1]
    assert entries[2].manifest.key in found.problems[0]
    assert path.read_bytes() == content
    new.activate()
    assert new.commit().version == 4


def test_manifests_of_a_process_that_was_overtaken(workshop: Workshop) -> None:
    """Of two manifests of one version the one that was built upon counts."""
    workshop.commit()
    head = workshop.checkpoints.head()
    zombie = workshop.make(head, checkpoint_id="ffffffff-newest-by-its-name")
    workshop.activate()
    with pytest.raises(Exception, match="taken over"):
        workshop.checkpoints.commit(zombie, generation=1, expect=head)
    real = workshop.commit(generation=1)  # a replay, under the token of the overtaken process
    after = workshop.commit()
    new = lost(workshop)
    found = repair(new.checkpoints)
    assert new.checkpoints.line()[:2] == [after, real]
    assert len(new.checkpoints.entries()) == 3
    assert zombie.checkpoint_id in found.problems[0]


def test_foreign_files_among_the_manifests(workshop: Workshop) -> None:
    """What is no manifest of this pipeline is named and passed over."""
    entry = workshop.commit()
    content = workshop.objects.get(entry.manifest.key)
    workshop.objects.put("payments/manifests/notes.txt", b"do not remove")
    workshop.objects.put("payments/manifests/000000000007-copy.json", content)
    new = lost(workshop)
    found = repair(new.checkpoints)
    assert found.head == entry
    assert len(found.problems) == 2


def test_a_ledger_that_is_an_old_copy(disk: Workshop, tmp_path: Path) -> None:
    """Checkpoints beyond the ledger are reported: going on would deliver their epochs again."""
    disk.commits(2)
    older = Workshop(MemoryLedger(), disk.objects, now=disk.now)
    repair(older.checkpoints)
    disk.commits(3)
    found = repair(older.checkpoints)
    assert "it seems to be an old copy" in found.problems[0]
    assert found.head == disk.checkpoints.resolve("2")


def test_while_the_pipeline_runs(workshop: Workshop) -> None:
    """Nothing is repaired under a running pipeline."""
    workshop.commit()
    lease = workshop.records.leases.acquire("payments", "running")
    with pytest.raises(PipelineBusy):
        repair(workshop.checkpoints)
    workshop.records.leases.release("payments", lease)
    repair(workshop.checkpoints)
