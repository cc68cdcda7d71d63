"""A damaged newest version falls back to the one before it, loudly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from xxhash import xxh3_128_hexdigest

from holdfast.checkpoint.manifest import decode
from holdfast.errors import CheckpointDamaged, CheckpointError, ObjectError
from holdfast.ledger import SqliteLedger
from holdfast.model import CheckpointEntry

from .workshop import Workshop, path_of


def truncate(path: Path) -> None:
    """Cut the last byte off."""
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def empty(path: Path) -> None:
    """Leave nothing of the content."""
    path.write_bytes(b"")


def remove(path: Path) -> None:
    """Take the file away."""
    path.unlink()


harms = pytest.mark.parametrize("harm", [truncate, flip, empty, remove])


def log_of(entry: CheckpointEntry) -> str:
    """Return the key of the log of Spark's that a checkpoint has."""
    return entry.files[0].key


def state_of(entry: CheckpointEntry) -> str:
    """Return the key of the state file that a checkpoint has of its own."""
    return entry.files[-1].key


@harms
def test_a_damaged_manifest(disk: Workshop, harm: Callable[[Path], None]) -> None:
    """It is written again from the ledger's copy, and the run starts from the head."""
    entry = disk.commits(2)[-1]
    path = path_of(disk, entry.manifest.key)
    content = path.read_bytes()
    harm(path)
    with pytest.raises(CheckpointDamaged, match=r"manifests/000000000002-.* is damaged"):
        disk.checkpoints.load(entry)
    restored = disk.checkpoints.restore()
    assert restored is not None
    assert restored.entry == entry
    assert restored.fell_back_from is None
    assert len(restored.notes) == 1
    assert "written again from the ledger's copy" in restored.notes[0]
    assert path.read_bytes() == content
    again = disk.reopen().restore()
    assert again is not None
    assert again.notes == ()


@harms
def test_a_damaged_log(disk: Workshop, harm: Callable[[Path], None]) -> None:
    """A log of Spark's that is not what was written makes the version before it the start."""
    entries = disk.commits(3)
    harm(path_of(disk, log_of(entries[-1])))
    restored = disk.checkpoints.restore()
    assert restored is not None
    assert restored.entry == entries[1]
    assert restored.fell_back_from == entries[2]
    assert "Version 3 (epoch 2) is damaged" in restored.notes[0]
    assert log_of(entries[-1]) in restored.notes[0]
    assert "Version 2 (epoch 1) is the newest one that is whole" in restored.notes[1]


@pytest.mark.parametrize("harm", [truncate, empty, remove])
def test_damaged_state(disk: Workshop, harm: Callable[[Path], None]) -> None:
    """A state file that is missing or too short does, too."""
    entries = disk.commits(3)
    for entry in entries[1:]:
        harm(path_of(disk, state_of(entry)))
    restored = disk.checkpoints.restore()
    assert restored is not None
    assert restored.entry == entries[0]
    assert restored.fell_back_from == entries[2]


def test_an_abandoned_line_is_no_way_back(disk: Workshop) -> None:
    """Only ancestors of the head are fallen back to, however whole the others are."""
    entries = disk.commits(3)
    disk.roll_back(entries[0])
    newest = disk.commit()
    path_of(disk, state_of(newest)).unlink()
    restored = disk.checkpoints.restore()
    assert restored is not None
    assert restored.entry == entries[0]


def test_nothing_is_whole(disk: Workshop) -> None:
    """When no version can be used, the error lists every one that was tried."""
    entries = disk.commits(3)
    for entry in entries:
        path_of(disk, state_of(entry)).unlink()
    with pytest.raises(CheckpointDamaged, match="No checkpoint of pipeline payments is whole") as e:
        disk.checkpoints.restore()
    for entry in entries:
        assert f"Version {entry.version} (epoch {entry.epoch}) is damaged" in str(e.value)


def test_manifest_and_copy_are_both_damaged(disk: Workshop) -> None:
    """A version without a readable manifest anywhere is passed over."""
    entries = disk.commits(2)
    path_of(disk, entries[1].manifest.key).unlink()
    with disk.ledger.writing() as change:
        disk.records.manifests.put(change, "payments/000000000002", '{"format":1}')
    restored = disk.checkpoints.restore()
    assert restored is not None
    assert restored.entry == entries[0]
    assert "it is missing" in restored.notes[0]


def test_a_location_that_cannot_be_read_is_not_a_damaged_one(disk: Workshop) -> None:
    """Unreachable is not damaged: nothing is fallen back to."""
    entries = disk.commits(2)
    path = path_of(disk, entries[1].manifest.key)
    path.unlink()
    path.mkdir()  # even root cannot read this
    with pytest.raises(ObjectError, match="Is a directory"):
        disk.checkpoints.restore()


def test_a_location_that_is_gone(disk: Workshop) -> None:
    """An unmounted location is an error, never a fresh start."""
    disk.commits(2)
    Path(disk.objects.location).rename(Path(disk.objects.location).with_name("elsewhere"))
    with pytest.raises(CheckpointDamaged, match="is whole"):
        disk.checkpoints.restore()


def test_a_ledger_that_is_gone(disk: Workshop, tmp_path: Path) -> None:
    """A ledger that knows nothing of the checkpoints that are there is no fresh start either."""
    disk.commits(2)
    with SqliteLedger(tmp_path / "other.db") as ledger:
        other = Workshop(ledger, disk.objects)
        other.activate()
        with pytest.raises(CheckpointError, match="knows no checkpoint of pipeline") as caught:
            other.checkpoints.restore()
    assert "repair" in caught.value.hint


def test_a_newer_format(disk: Workshop) -> None:
    """A checkpoint of a newer version of Holdfast is refused by name; nothing older is used."""
    disk.commit()
    entry = disk.commit(format=2)
    content = path_of(disk, entry.manifest.key).read_bytes()
    for read in (disk.checkpoints.restore, lambda: disk.checkpoints.load(entry)):
        with pytest.raises(CheckpointError, match="has format 2; this version of Holdfast") as e:
            read()
        assert entry.manifest.key in e.value.message
        assert not isinstance(e.value, CheckpointDamaged)
    assert path_of(disk, entry.manifest.key).read_bytes() == content


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format":"1"}',
        b'{"format":1}',
        b'{"format":true,"checkpoint":{},"checksum":""}',
        b'{"format":1,"checkpoint":{"pipeline":"\\ud800"},"checksum":""}',
        b'{"format":1,"checkpoint":NaN,"checksum":""}',
        b'{"format":1,"checkpoint":{},"checksum":"6c3dc7c5e7a5d7ab6b4c0c3dd0e0a8a5"}',
    ],
)
def test_nonsense_instead_of_a_manifest(text: bytes) -> None:
    """Whatever a manifest is replaced by, it is called damaged and named."""
    with pytest.raises(CheckpointDamaged, match="The manifest here is damaged"):
        decode(text, "here")


def test_a_right_checksum_over_the_wrong_thing() -> None:
    """A document that is intact but no checkpoint is damaged as well."""
    text = b'{"format":1,"checkpoint":{},"checksum":"%s"}' % xxh3_128_hexdigest(b"{}").encode()
    with pytest.raises(CheckpointDamaged, match="it is not a checkpoint"):
        decode(text, "here")
