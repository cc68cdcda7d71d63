"""Going back to an old version, and forward again."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from deltalake import DeltaTable

from holdfast import failpoints
from holdfast.checkpoint import repair
from holdfast.errors import CheckpointError, CheckpointMissing, HoldfastError, SinkRefused
from holdfast.model import Token

from .test_outages import SWITCHED, rows, switch, switched, taken
from .world import FILES, World, sink

pytestmark = pytest.mark.spark


def test_a_roll_back_takes_rows_back_and_running_brings_them_again(world: World) -> None:
    """After a roll-back a reader sees the old version; run again, every event once."""
    for _ in range(4):
        world.add()
    world.run()
    with world.project() as project:
        done = project.roll_back("pay", "2", note="a mistake")

    assert (done.record.from_version, done.record.to_version) == (4, 2)
    assert done.untold == {}
    assert sum(world.lake().values()) == 10
    result = world.run()
    assert result.epochs == 2
    assert world.lake() == world.expected()


def test_the_abandoned_line_is_kept_for_audit(world: World) -> None:
    """Versions are never used twice, and what was left behind stays listed."""
    for _ in range(3):
        world.add()
    world.run()
    with world.project() as project:
        project.roll_back("pay", "1")
    world.run()

    with world.project() as project:
        versions = project.versions("pay").list()
        (record,) = project.checkpoints("pay").roll_backs()
    assert [(line.entry.version, line.on_line) for line in versions] == [
        (5, True),
        (4, True),
        (3, False),
        (2, False),
        (1, True),
    ]
    assert (record.from_version, record.to_version) == (3, 1)
    assert list(record.effects) == ["lake"]


def test_a_replayed_epoch_is_new_to_every_sink(world: World) -> None:
    """Batches that are cut differently after a roll-back reach exactly-once sinks all the same."""
    world.configure(FILES, sink("second", "files", path="second"))
    for _ in range(4):
        world.add()
    world.run()
    with world.project() as project:
        project.roll_back("pay", "1")
    world.configure(FILES, sink("second", "files", path="second"), batch="")
    world.run()

    assert world.lake() == world.expected()
    assert world.lake(path="second") == world.expected()


def test_run_from_an_old_version(world: World) -> None:
    """`run --from` rolls back first, by version or by id."""
    for _ in range(3):
        world.add()
    head = world.run().head
    assert head is not None
    result = world.run(start_from="1")
    assert (result.epochs, world.lake()) == (2, world.expected())
    assert "Rolled back from version 3 to 1." in world.watcher.notes

    with world.project() as project:
        first = project.checkpoints("pay").resolve("1").checkpoint_id
    assert world.run(start_from=first).epochs == 2
    assert world.lake() == world.expected()


def test_run_from_a_version_that_is_not_there(world: World) -> None:
    """It says which ones are."""
    world.add()
    world.run()

    with pytest.raises(CheckpointMissing, match="17"):
        world.run(start_from="17")


def test_a_version_of_the_abandoned_line_is_refused(world: World) -> None:
    """Sinks have forgotten its batches: going there would leave a hole."""
    for _ in range(3):
        world.add()
    world.run()
    with world.project() as project:
        project.roll_back("pay", "1")
        with pytest.raises(CheckpointError, match="abandoned"):
            project.roll_back("pay", "3")


def test_an_epoch_in_flight_is_given_up(world: World) -> None:
    """An epoch that was begun and cannot end is dropped by a roll-back to the head."""
    world.add()
    world.run()
    (world.root / "failing.py").write_text("def f(frame):\n    return 1 / 0\n")
    world.configure(keys='python = "failing:f"')
    world.add()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        world.run()
    with world.project() as project:
        assert project.checkpoints("pay").intent() is not None
        preview = project.preview_roll_back("pay", "latest")
        project.roll_back("pay", "latest")
        assert project.checkpoints("pay").intent() is None

    assert preview.unfinished_epoch == 1
    world.configure()
    world.run()
    assert world.lake() == world.expected()


def test_a_preview_says_what_each_sink_will_do(world: World) -> None:
    """Nothing moves by looking."""
    for _ in range(2):
        world.add()
    world.run()
    with world.project() as project:
        preview = project.preview_roll_back("pay", "1")
        head = project.checkpoints("pay").head()

    assert (preview.head.version, preview.to.version, preview.difference.rows) == (2, 1, 5)
    assert preview.sinks["lake"]
    assert head is not None
    assert head.version == 2
    assert world.lake() == world.expected()


def test_back_across_a_schema_change_and_forward_again(world: World) -> None:
    """Schemas go back with the data; the result equals that of a run that never left."""
    world.add()
    world.run()
    wider = "id long, merchant string, paise long, note string"
    world.configure(schema=wider)
    world.add(note="later")
    world.run()
    with world.project() as project:
        project.roll_back("pay", "1")
        head = project.checkpoints("pay").resolve("latest")
        assert head.schemas == project.checkpoints("pay").resolve("1").schemas
    world.configure()
    world.run()  # the old columns are the right ones again
    with world.project() as project:
        project.roll_back("pay", "1")
    world.configure(schema=wider)
    world.run()

    assert world.lake("id", "merchant", "paise", "note") == world.expected(
        "id", "merchant", "paise", "note"
    )


def test_a_sink_that_is_down_is_told_before_its_next_batch(world: World) -> None:
    """A roll-back is complete for the others at once; the one that is down hears of it first."""
    told = (
        "\ndef _told(token):\n"
        "    if Path('side.down').exists():\n"
        "        raise ConnectionError('down')\n"
        "    with Path('side.jsonl').open('a') as out:\n"
        "        out.write(json.dumps(['back to', token.epoch]) + '\\n')\n"
        "    return 'told'\n"
        "side.roll_back = _told\n"
    )
    (world.root / "switched.py").write_text(SWITCHED + told)
    world.configure(FILES, switched("side", required=False, idempotent=True))
    for _ in range(3):
        world.add()
    world.run()
    switch(world, "side", on=False)
    with world.project() as project:
        done = project.roll_back("pay", "1")
        assert list(done.untold) == ["side"]
        assert done.record.open_sinks == ("side",)
    world.run()
    with world.project() as project, pytest.raises(CheckpointError, match="side"):
        project.roll_back("pay", "4")
    switch(world, "side", on=True)
    world.add()
    world.run()

    lines = taken(world.root / "side.jsonl")
    back = lines.index(["back to", 0])
    assert [line[0] for line in lines[:back]] == [0] * 5 + [1] * 5 + [2] * 5
    assert rows(lines[:5] + lines[back + 1 :]) == world.expected()


def test_batches_from_before_the_roll_back_still_reach_their_sink(world: World) -> None:
    """What waited in a spool for an epoch that is kept is delivered after the roll-back."""
    (world.root / "switched.py").write_text(SWITCHED)
    world.configure(FILES, switched("side", required=False))
    switch(world, "side", on=False)
    for _ in range(4):
        world.add()
    world.run()
    with world.project() as project:
        project.roll_back("pay", "2")
        waiting = project.checkpoints("pay").sink_positions()["side"].waiting
    assert waiting is not None
    assert (waiting.first.epoch, waiting.last.epoch, waiting.batches) == (0, 1, 2)
    switch(world, "side", on=True)
    world.run()

    assert rows(taken(world.root / "side.jsonl")) == world.expected()
    assert world.lake() == world.expected()


def test_tokens_after_a_roll_back_are_past_all_before() -> None:
    """An earlier epoch of a newer generation follows a later one of an older."""
    assert Token("p", 2, 1).follows(Token("p", 1, 9))
    assert not Token("p", 1, 9).follows(Token("p", 2, 1))


def test_an_old_copy_of_everything_is_noticed(world: World) -> None:
    """Generations and epochs count again, for other rows: a sink refuses; the way out is exact."""
    world.add()
    world.run()
    shutil.copytree(world.root / ".holdfast", world.root / "backup")
    world.add()
    world.run()
    shutil.rmtree(world.root / ".holdfast")
    (world.root / "backup").rename(world.root / ".holdfast")
    (world.root / "events" / "00001.json").rename(world.root / "00001.json")
    world.add()
    with pytest.raises(SinkRefused, match="other rows") as caught:
        world.run()
    assert "holdfast checkpoint repair pay" in caught.value.hint

    (world.root / "00001.json").rename(world.root / "events" / "00001.json")
    with world.project() as project:
        repair(project.checkpoints("pay"))
        project.roll_back("pay", "latest")
    world.run()
    assert world.lake() == world.expected()


def test_a_ledger_one_version_behind_is_noticed(world: World) -> None:
    """Its one missing version may be a commit that a crash cut short; the sink knows better."""
    world.add()
    world.run()
    ledger = world.root / ".holdfast" / "ledger.db"
    shutil.copy(ledger, world.root / "old.db")
    world.add()
    world.run()
    for place in ledger.parent.glob("ledger.db*"):
        place.unlink()
    shutil.copy(world.root / "old.db", ledger)
    world.add()

    with pytest.raises(SinkRefused, match="older copy"):
        world.run()
    with world.project() as project:
        repair(project.checkpoints("pay"))
        project.roll_back("pay", "latest")
    world.run()
    assert world.lake() == world.expected()


def test_an_old_copy_of_the_ledger_alone_is_refused(world: World) -> None:
    """Newer checkpoints lie beside it: nothing is run, and none of them is removed."""
    world.add()
    world.run()
    ledger = world.root / ".holdfast" / "ledger.db"
    shutil.copy(ledger, world.root / "old.db")
    for _ in range(3):
        world.add()
    world.run()
    for place in ledger.parent.glob("ledger.db*"):
        place.unlink()
    shutil.copy(world.root / "old.db", ledger)
    manifests = sorted((ledger.parent / "checkpoints/pay/manifests").iterdir())

    with pytest.raises(CheckpointError, match="old copy"):
        world.run()
    assert sorted((ledger.parent / "checkpoints/pay/manifests").iterdir()) == manifests
    ledger.unlink()
    with world.project() as project:
        repair(project.checkpoints("pay"))
    world.add()
    world.run()
    assert world.lake() == world.expected()


def test_a_lost_ledger_with_an_epoch_under_way(world: World) -> None:
    """Sinks forget an epoch they took before the ledger was lost: it comes as a new batch."""
    world.configure(FILES, sink("table", "delta", path="table"))
    world.add()
    world.run()
    world.add()

    def stop(step: str, _subject: str) -> None:
        if step == "stream.decided":
            raise HoldfastError("on purpose")

    failpoints.observe(stop)
    with pytest.raises(HoldfastError, match="on purpose"):
        world.run()
    failpoints.observe(None)
    for place in (world.root / ".holdfast").glob("ledger.db*"):
        place.unlink()
    with world.project() as project:
        repair(project.checkpoints("pay"))
    world.run()

    table = DeltaTable(world.root / "table").to_pyarrow_table().to_pylist()
    assert world.lake() == world.expected()
    assert Counter((r["id"], r["merchant"], r["paise"]) for r in table) == world.expected()


def test_a_sink_that_was_away_has_a_hole_that_is_told(world: World) -> None:
    """Taken out of the configuration and put back, it misses what came meanwhile, and says so."""
    side = sink("second", "files", path="second")
    world.configure(FILES, side)
    world.add()
    world.run()
    world.configure(FILES)
    world.add()
    world.add()
    world.run()
    world.configure(FILES, side)
    world.add()
    world.run()

    assert any("second was not part of the pipeline for 2 epochs" in n for n in world.watcher.notes)
    with world.project() as project:
        assert project.checkpoints("pay").sink_positions()["second"].dropped_count == 2
    assert sum(world.lake(path="second").values()) == 10


def test_changed_transforms_with_an_epoch_under_way_are_told(world: World) -> None:
    """The same token may mean other rows then, and the way out is named."""
    world.add()
    (world.root / "failing.py").write_text("def f(frame):\n    return 1 / 0\n")
    world.configure(keys='python = "failing:f"')
    with pytest.raises(HoldfastError, match="ZeroDivisionError"):
        world.run()
    world.configure()
    world.run()

    assert any("transforms changed while epoch 0" in note for note in world.watcher.notes)
