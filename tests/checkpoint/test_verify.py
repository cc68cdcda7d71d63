"""Verify finds every harm; gc removes exactly what nobody names."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.checkpoint import gc, verify, verify_all
from holdfast.errors import CheckpointError, PipelineBusy
from holdfast.ledger import MemoryLedger

from .test_restore import empty, flip, remove, truncate
from .workshop import Workshop, named, path_of

HARMS = {
    flip: "its checksum is not the one recorded",
    truncate: "bytes instead of",
    empty: "has 0 bytes instead of",
    remove: "it is missing",
}


def test_whole_checkpoints(workshop: Workshop) -> None:
    """Nothing is found where nothing is wrong, and everything was looked at."""
    base = workshop.objects.store("payments/files/base.run", b"base")
    entry = workshop.commit(carried=(base,))
    found = verify(workshop.checkpoints, entry)
    assert found.whole
    assert (found.entry, found.files, found.bytes) == (entry, 4, entry.bytes)
    workshop.commits(2, carried=(base,))
    assert [(each.entry.version, each.whole) for each in verify_all(workshop.checkpoints)] == [
        (3, True),
        (2, True),
        (1, True),
    ]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("index", [0, -1])
def test_damaged_files(disk: Workshop, harm, index: int) -> None:  # type: ignore[no-untyped-def]
    """Every file is read whole, and each that is not what was written is named."""
    entries = disk.commits(2)
    key = entries[0].files[index].key
    harm(path_of(disk, key))
    found = verify(disk.checkpoints, entries[0])
    assert [where for where, _ in found.findings] == [key]
    assert HARMS[harm] in found.findings[0][1]
    assert [each.whole for each in verify_all(disk.checkpoints)] == [True, False]


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_manifests(disk: Workshop, harm) -> None:  # type: ignore[no-untyped-def]
    """So is the manifest, which verify leaves as it is."""
    entry = disk.commit()
    harm(path_of(disk, entry.manifest.key))
    for _ in range(2):
        found = verify(disk.checkpoints, entry)
        assert [where for where, _ in found.findings] == [entry.manifest.key]


def test_a_newer_manifest(workshop: Workshop) -> None:
    """A checkpoint that this version cannot read is a finding, and the others are verified."""
    workshop.commit()
    workshop.commit(format=2)
    newer, older = verify_all(workshop.checkpoints)
    assert "has format 2" in newer.findings[0][1]
    assert older.whole


def test_a_shared_file_harms_all(disk: Workshop) -> None:
    """A file that several checkpoints share is a finding of each of them."""
    base = disk.objects.store("payments/files/base.run", b"base")
    disk.commits(2, carried=(base,))
    path_of(disk, base.key).unlink()
    assert [len(each.findings) for each in verify_all(disk.checkpoints)] == [1, 1]


def test_gc(workshop: Workshop) -> None:
    """Files that no kept checkpoint and no open intent names are removed, and no others."""
    entries = workshop.commits(2)
    other = Workshop(workshop.ledger, workshop.objects, pipeline="payments2")
    other.activate()
    theirs = other.commit()
    workshop.objects.put("payments/files/orphan.run", b"12345")
    workshop.objects.put("payments/manifests/000000000001-x.json", b"123")
    needed = workshop.objects.store("payments/files/log", b"log")
    workshop.checkpoints.intend(workshop.intent((needed,)), generation=1)
    before = workshop.files()
    dry = gc(workshop.checkpoints, dry_run=True)
    assert workshop.files() == before
    assert set(dry.files) == {
        "payments/files/orphan.run",
        "payments/manifests/000000000001-x.json",
    }
    assert dry.bytes == 8
    assert gc(workshop.checkpoints, dry_run=False) == dry
    assert workshop.files() == named(entries[0]) | named(entries[1]) | {needed.key}
    assert other.files() == named(theirs)
    assert gc(workshop.checkpoints, dry_run=False).files == ()


def test_gc_while_the_pipeline_runs(workshop: Workshop) -> None:
    """Files that a running epoch has stored and nobody names yet are safe."""
    workshop.commit()
    lease = workshop.records.leases.acquire("payments", "running")
    workshop.generation = lease.generation
    head = workshop.checkpoints.head()
    made = workshop.make(head)
    with pytest.raises(PipelineBusy):
        gc(workshop.checkpoints, dry_run=False)
    workshop.checkpoints.commit(made, generation=lease.generation, expect=head)
    workshop.objects.put("payments/files/orphan.run", b"12345")
    removed = gc(workshop.checkpoints, dry_run=False, generation=lease.generation)
    assert removed.files == ("payments/files/orphan.run",)
    workshop.records.leases.release("payments", lease)
    assert all(each.whole for each in verify_all(workshop.checkpoints))


def test_gc_with_a_lost_ledger(workshop: Workshop) -> None:
    """A ledger that knows of nothing is no reason to remove everything."""
    workshop.commits(2)
    before = workshop.files()
    lost = Workshop(MemoryLedger(), workshop.objects)
    for dry_run in (True, False):
        with pytest.raises(CheckpointError, match="every file of it"):
            gc(lost.checkpoints, dry_run=dry_run)
    assert workshop.files() == before


def test_gc_of_what_retention_left(disk: Workshop) -> None:
    """After retention and gc exactly the files of the kept checkpoints are there."""
    entries = disk.commits(5)
    disk.roll_back(entries[3])
    disk.sleep(hours=2)
    disk.checkpoints.retain(min_count=2, min_age=timedelta(hours=1))
    gc(disk.checkpoints, dry_run=False)
    assert disk.files() == set().union(*(named(e) for e in disk.checkpoints.entries()))
