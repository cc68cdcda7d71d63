"""Where rows come from: any streaming source, away for a while or for good."""

from __future__ import annotations

import shutil
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

from holdfast import failpoints
from holdfast.errors import (
    HoldfastError,
    SourceError,
    UsageError,
)

from .background import Background
from .world import SCHEMA, World

pytestmark = pytest.mark.spark


def test_a_missing_source_is_refused_at_first(world: World) -> None:
    """A path that never was there is a mistake, not an outage."""
    world.configure(source='{ format = "json", path = "nowhere", schema = "id long" }')

    with pytest.raises(SourceError, match="nowhere"):
        world.run()


def test_another_source_is_refused(world: World) -> None:
    """Offsets of one source are not given to another, unless the user says it is the same."""
    world.add()
    world.run()
    world.configure(
        source=f'{{ format = "json", path = "events", schema = "{SCHEMA}", '
        'options = { pathGlobFilter = "*.json" } }'
    )
    world.add()

    with pytest.raises(UsageError, match="another source"):
        world.run()
    world.run(accept_source=True)
    assert world.lake() == world.expected()


def test_files_that_moved_are_refused(world: World) -> None:
    """A file is remembered by its path: under another one it would be read again."""
    world.add()
    world.run()
    shutil.copytree(world.root / "events", world.root / "moved")
    world.configure(source=f'{{ format = "json", path = "moved", schema = "{SCHEMA}" }}')

    with pytest.raises(UsageError, match="another path"):
        world.run(accept_source=True)


def test_a_directory_that_is_gone_for_a_while(world: World) -> None:
    """A source directory that goes away and comes back loses nothing."""
    world.add()
    running = Background(world)
    running.until_epochs(1)
    (world.root / "events").rename(world.root / "gone")
    time.sleep(1)
    (world.root / "gone").rename(world.root / "events")
    world.add()
    running.until_epochs(2)
    running.stop()

    assert world.lake() == world.expected()


def test_a_source_that_fails_is_waited_for(world: World) -> None:
    """What cannot be read is tried again until it can, under the same epoch; all can see why."""
    world.configure(
        source=f'{{ format = "parquet", path = "events", schema = "{SCHEMA}" }}',
        keys='source_retry = { first_delay = "100ms", max_delay = "200ms" }',
    )
    rows = [{"id": 1, "merchant": "m", "paise": 2}]
    parquet.write_table(pa.Table.from_pylist(rows), world.root / "events" / "0.parquet")
    running = Background(world)
    running.until_epochs(1)
    (world.root / "events" / "1.parquet").write_bytes(b"not yet written")
    running.until(lambda: bool(running.watcher.waits))
    with world.project() as project, project.ledger.reading() as view:
        live = project.records.live.get(view, "pay")
    parquet.write_table(pa.Table.from_pylist(rows), world.root / "events" / "1.parquet")
    running.until_epochs(2)
    running.stop()

    assert "1.parquet" in running.watcher.waits[0]["source"].message
    assert live is not None
    assert live.state == "waiting_for_source"
    assert world.lake() == {(1, "m", 2): 2}


def test_a_source_without_files_goes_on(world: World) -> None:
    """Any streaming source is gone on from: here numbers made at a steady rate."""
    world.configure(
        source='{ format = "rate-micro-batch", options = { rowsPerBatch = 10 } }',
        keys='select = ["value as id"]',
        batch="",
    )
    for _ in range(2):
        running = Background(world)
        running.until_epochs(2)
        running.stop()

    found = world.lake("id")
    assert found == {(i,): 1 for i in range(len(found))}
    with world.project() as project:
        (position,) = (
            project.checkpoints("pay").load(project.checkpoints("pay").resolve("latest")).positions
        )
    assert position.end["offset"] == len(found)


def test_a_file_that_is_gone_can_be_given_up(world: World) -> None:
    """An epoch whose file was deleted waits, says how to go on, and a roll-back gives it up."""
    world.configure(keys='source_retry = { first_delay = "50ms", give_up_after = "1ms" }')
    world.add()
    world.run()
    gone = world.add()

    def vanish(step: str, _subject: str) -> None:
        if step == "stream.intended":
            (world.root / "events" / "00001.json").unlink(missing_ok=True)

    failpoints.observe(vanish)
    with pytest.raises(SourceError, match=r"00001\.json") as caught:
        world.run()
    failpoints.observe(None)
    assert "holdfast checkpoint rollback pay latest" in caught.value.hint

    with world.project() as project:
        project.roll_back("pay", "latest")
    world.add()
    world.run()
    expected = world.expected()
    for event in gone:
        del expected[(event["id"], event["merchant"], event["paise"])]
    assert world.lake() == expected


def test_a_source_with_brackets_in_its_name_is_no_pattern(world: World) -> None:
    """A path that is there as it is written means itself; others may be patterns."""
    (world.root / "events").rename(world.root / "in [x] {a,b}")
    world.configure(source=f'{{ format = "json", path = "in [x] {{a,b}}", schema = "{SCHEMA}" }}')
    place = world.root / "in [x] {a,b}" / "0.json"
    place.write_text('{"id": 1, "merchant": "m", "paise": 2}\n')
    world.run()
    assert world.lake() == {(1, "m", 2): 1}
    (world.root / "holdfast.toml").write_text(
        (world.root / "holdfast.toml").read_text().replace("in [x] {a,b}", "eve*s")
    )
    (world.root / "events" / "1.json").write_text('{"id": 2, "merchant": "m", "paise": 2}\n')
    world.run(accept_source=True)
    assert world.lake() == {(1, "m", 2): 1, (2, "m", 2): 1}


def test_stopped_while_the_source_is_away(world: World) -> None:
    """An epoch that was begun is said to be open."""
    world.configure(
        source=f'{{ format = "parquet", path = "events", schema = "{SCHEMA}" }}',
        keys='source_retry = { first_delay = "100ms" }',
    )
    rows = pa.Table.from_pylist([{"id": 1, "merchant": "m", "paise": 2}])
    parquet.write_table(rows, world.root / "events" / "0.parquet")
    running = Background(world)
    running.until_epochs(1)
    (world.root / "events" / "1.parquet").write_bytes(b"not yet written")
    running.until(lambda: bool(running.watcher.waits))
    running.stop()

    assert running.result is not None
    assert running.result.run.status == "partial"
    assert "Epoch 1" in running.result.notes[-1]


def test_odd_file_names(world: World) -> None:
    """A file may be called what it likes, also when its epoch is run a second time."""
    world.add()
    world.run()
    world.add()
    odd = world.root / "events" / "a b%20c[1]ü.json"
    (world.root / "events" / "00001.json").rename(odd)
    failpoints.observe(_fail_at("stream.decided"))
    with pytest.raises(HoldfastError, match="on purpose"):
        world.run()
    failpoints.observe(None)
    world.run()

    assert world.lake() == world.expected()


def _fail_at(step: str) -> failpoints.Observer:
    def observe(reached: str, _subject: str) -> None:
        if reached == step:
            raise HoldfastError("on purpose")

    return observe
