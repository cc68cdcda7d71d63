"""Whatever is lost or damaged, a run falls back or refuses, and says which version it used."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.checkpoint import repair, verify
from holdfast.errors import CheckpointDamaged, HoldfastError, SinkRefused

from .world import World, sink

pytestmark = pytest.mark.spark


def manifests(world: World) -> list[Path]:
    """The manifests, oldest first."""
    return sorted((world.root / ".holdfast/checkpoints/pay/manifests").iterdir())


def log_files(world: World) -> list[Path]:
    """The files of Spark's log, oldest first."""
    return sorted((world.root / ".holdfast/checkpoints/pay/files").iterdir())


@pytest.fixture
def run_before(world: World) -> World:
    """A pipeline with three versions, and an event it has not seen."""
    for _ in range(3):
        world.add()
    world.run()
    world.add()
    return world


@pytest.mark.parametrize("harm", ["cut", "changed", "gone"])
def test_a_damaged_head_manifest_is_written_again(run_before: World, harm: str) -> None:
    """The ledger has a copy: nothing is lost, and the run says what it did."""
    place = manifests(run_before)[-1]
    harm_file(place, harm)

    run_before.run()

    assert run_before.lake() == run_before.expected()
    (note,) = run_before.watcher.notes
    assert "manifests/000000000003-" in note
    assert "written again" in note
    with run_before.project() as project:
        book = project.checkpoints("pay")
        assert verify(book, book.resolve("3")).whole


@pytest.mark.parametrize("harm", ["cut", "changed", "gone"])
def test_a_damaged_file_falls_back_to_the_version_before(run_before: World, harm: str) -> None:
    """The newest version that is whole is gone on from; the sinks take back what came after."""
    harm_file(log_files(run_before)[-1], harm)

    result = run_before.run()

    assert result.epochs == 2
    assert run_before.lake() == run_before.expected()
    assert any("fell back to version 2" in note for note in run_before.watcher.notes)


def test_nothing_whole_is_refused(run_before: World) -> None:
    """Starting from nothing would deliver everything again: the run ends instead."""
    for place in log_files(run_before):
        harm_file(place, "cut")

    with pytest.raises(CheckpointDamaged, match="3"):
        run_before.run()
    assert sum(run_before.lake().values()) == 15


def test_a_lost_ledger_is_rebuilt_from_the_manifests(run_before: World) -> None:
    """A run refuses to start over; `repair` brings the ledger back; then it goes on exactly."""
    for place in (run_before.root / ".holdfast").glob("ledger.db*"):
        place.unlink()
    with pytest.raises(HoldfastError, match="repair"):
        run_before.run()

    with run_before.project() as project:
        done = repair(project.checkpoints("pay"))
    assert done.head is not None
    assert done.head.version == 3
    result = run_before.run()
    assert result.epochs == 1
    assert run_before.lake() == run_before.expected()


def test_lost_manifests_are_written_again(run_before: World) -> None:
    """The ledger alone is enough to go on, and to make the manifests whole."""
    shutil.rmtree(run_before.root / ".holdfast/checkpoints/pay/manifests")
    with run_before.project() as project:
        done = repair(project.checkpoints("pay"))
    assert done.problems == ()
    assert len(manifests(run_before)) == 3
    run_before.run()
    assert run_before.lake() == run_before.expected()


def test_a_spark_directory_of_another_query_is_not_used(run_before: World) -> None:
    """Whatever lies where Spark's directory is made has no say."""
    work = run_before.root / ".holdfast/spark/pay"
    for name in ("offsets", "commits", "sources/0"):
        (work / name).mkdir(parents=True)
        (work / name / "99").write_text("v1\n{}\n-")
    (work / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')

    assert run_before.run().epochs == 1
    assert run_before.lake() == run_before.expected()


def test_a_clock_that_goes_backwards(run_before: World) -> None:
    """Versions and epochs, not times, decide what comes after what."""
    with run_before.project(clock=lambda: datetime.now(UTC) - timedelta(days=400)) as project:
        result = project.run_stream("pay", once=True)
        assert result.head is not None
        assert (result.head.version, result.head.epoch) == (4, 3)
    run_before.add()
    assert run_before.run().epochs == 1
    assert run_before.lake() == run_before.expected()


@pytest.mark.parametrize("kind", ["files", "delta"])
def test_a_sink_that_lost_its_rows_is_refused(world: World, kind: str) -> None:
    """Going on in silence would leave a sink without the rows it is remembered to have."""
    world.configure(sink("table", kind, path="table"))
    world.add()
    world.run()
    shutil.rmtree(world.root / "table")
    world.add()

    with pytest.raises(SinkRefused, match="has nothing, although it took batches up to epoch 0"):
        world.run()
    world.configure(sink("anew", kind, path="table"))
    assert world.run().epochs == 1


def test_a_full_disk_at_every_step(tmp_path: Path) -> None:
    """A disk that fills up during any step ends the run with that; with space again it goes on."""
    program = Path(__file__).with_name("full_disk.py")
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "every event once"


def harm_file(place: Path, harm: str) -> None:
    """Do something to a file that a disk may do."""
    content = place.read_bytes()
    if harm == "cut":
        place.write_bytes(content[: len(content) // 2])
    elif harm == "changed":
        middle = len(content) // 2
        place.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    else:
        place.unlink()
