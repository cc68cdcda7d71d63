"""A sink that is down: waited for, or spooled, or missed, as the configuration says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast import failpoints
from holdfast.errors import HoldfastError, SinkRefused
from holdfast.model import SinkPosition

from .background import Background
from .world import FILES, Rows, World, sink

pytestmark = pytest.mark.spark

# A sink with a switch: it fails while there is a file `<name>.down` beside the configuration, and
# writes what it takes, with the epoch, into `<name>.jsonl`.
SWITCHED = """
import json
from pathlib import Path
from holdfast import failpoints
from holdfast.errors import HoldfastError, SinkRefused

def made(name):
    def take(frame, token):
        if Path(f"{name}.down").exists():
            raise ConnectionError(f"{name} does not answer")
        if Path(f"{name}.refuses").exists():
            raise SinkRefused(f"{name} will not have it", hint="Change it.")
        lines = [json.dumps([token.epoch, *row]) for row in frame.collect()]
        with Path(f"{name}.jsonl").open("a") as out:
            out.write("".join(f"{line}\\n" for line in lines))
    return take

side = made("side")
main = made("main")
"""
QUICK = {"attempts": 2, "first_delay": "50ms", "max_delay": "100ms"}


@pytest.fixture(autouse=True)
def _switched(world: World) -> None:
    (world.root / "switched.py").write_text(SWITCHED)


def switched(name: str, **settings: Any) -> str:
    """The TOML of a sink with a switch."""
    return sink(name, "python", function=f"switched:{name}", retry=QUICK, **settings)


def switch(world: World, name: str, *, on: bool, how: str = "down") -> None:
    """Let a sink fail, or work again."""
    flag = world.root / f"{name}.{how}"
    if on:
        flag.unlink()
    else:
        flag.touch()


def taken(path: Path) -> list[list[Any]]:
    """What a sink with a switch took, in order."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rows(lines: list[list[Any]]) -> Rows:
    """The rows among it, as a multiset."""
    return Counter(tuple(line[1:]) for line in lines)


def position(world: World, name: str) -> SinkPosition:
    """How far a sink got."""
    with world.project() as project:
        return project.checkpoints("pay").sink_positions()[name]


def test_a_required_sink_is_waited_for(world: World) -> None:
    """The pipeline does not advance, says why, and goes on when the sink is back."""
    world.configure(FILES, switched("main"))
    world.add()
    switch(world, "main", on=False)
    running = Background(world)
    running.until(lambda: len(running.watcher.waits) >= 2)

    assert running.watcher.epochs == []
    assert "main does not answer" in running.watcher.waits[0]["main"].message
    with world.project() as project:
        assert project.checkpoints("pay").head() is None
        with project.ledger.reading() as view:
            live = project.records.live.get(view, "pay")
    assert live is not None
    assert live.state == "waiting_for_sink"
    assert "main does not answer" in live.waiting["main"]

    switch(world, "main", on=True)
    running.until_epochs(1)
    running.stop()
    assert rows(taken(world.root / "main.jsonl")) == world.expected()
    assert world.lake() == world.expected()


def test_stopped_while_it_waits(world: World) -> None:
    """A stop does not wait for a sink that is down; the batch is the first one next time."""
    world.configure(FILES, switched("main"))
    world.add()
    switch(world, "main", on=False)
    running = Background(world)
    running.until(lambda: bool(running.watcher.waits))
    running.stop()

    assert running.result is not None
    assert running.result.run.status == "partial"
    assert "main" in running.result.notes[0]
    switch(world, "main", on=True)
    world.add()
    world.run()
    assert rows(taken(world.root / "main.jsonl")) == world.expected()
    assert world.lake() == world.expected()


def test_a_required_sink_that_refuses_ends_the_run(world: World) -> None:
    """What will never work is not waited for."""
    world.configure(FILES, switched("main"))
    world.add()
    switch(world, "main", on=False, how="refuses")

    with pytest.raises(SinkRefused, match="will not have it"):
        world.run()


def test_an_optional_sink_gets_its_batches_later_and_in_order(world: World) -> None:
    """While it is down they wait in its spool; the others go on; nothing is missing after it."""
    world.configure(FILES, switched("side", required=False))
    world.add()
    world.run()
    switch(world, "side", on=False)
    for _ in range(3):
        world.add()
    result = world.run()

    assert result.epochs == 3
    assert world.lake() == world.expected()
    behind = position(world, "side")
    assert behind.delivered is not None
    assert behind.delivered.epoch == 0
    assert behind.waiting is not None
    assert (behind.waiting.first.epoch, behind.waiting.last.epoch) == (1, 3)
    assert behind.waiting.batches == 3

    switch(world, "side", on=True)
    world.add()
    world.run()
    lines = taken(world.root / "side.jsonl")
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    assert rows(lines) == world.expected()
    caught_up = position(world, "side")
    assert caught_up.waiting is None
    assert caught_up.delivered is not None
    assert caught_up.delivered.epoch == 4
    assert list((world.root / ".holdfast/checkpoints/.spool/pay/side").iterdir()) == []


def test_a_spool_drains_without_new_events(world: World) -> None:
    """A sink that is back does not have to wait for the next batch to get the old ones."""
    world.configure(FILES, switched("side", required=False))
    world.add()
    switch(world, "side", on=False)
    running = Background(world)
    running.until_epochs(1)
    switch(world, "side", on=True)
    running.until(lambda: rows(taken(world.root / "side.jsonl")) == world.expected())
    running.stop()

    assert position(world, "side").waiting is None


def test_batches_that_are_dropped_are_counted(world: World) -> None:
    """With on_failure = "drop" a sink has a hole, and everybody can see which."""
    world.configure(FILES, switched("side", required=False, on_failure="drop"))
    world.add()
    switch(world, "side", on=False)
    world.run()
    switch(world, "side", on=True)
    late = world.add()
    world.run()

    found = position(world, "side")
    assert [token.epoch for token in found.dropped] == [0]
    assert found.dropped_count == 1
    assert {line[1] for line in taken(world.root / "side.jsonl")} == {e["id"] for e in late}
    assert world.lake() == world.expected()


def test_a_full_spool_drops_if_that_was_asked_for(world: World) -> None:
    """Past its limit a spool takes no more; what it holds is delivered all the same."""
    spool = {"max_bytes": 1, "when_full": "drop"}
    world.configure(FILES, switched("side", required=False, spool=spool))
    switch(world, "side", on=False)
    for _ in range(3):
        world.add()
    world.run()

    found = position(world, "side")
    assert found.waiting is not None
    assert (found.waiting.batches, found.waiting.last.epoch) == (1, 0)
    assert [token.epoch for token in found.dropped] == [1, 2]


def test_a_full_spool_waits_by_default(world: World) -> None:
    """Past its limit a spool holds the pipeline back, so that nothing is lost."""
    world.configure(FILES, switched("side", required=False, spool={"max_bytes": 1}))
    switch(world, "side", on=False)
    for _ in range(2):
        world.add()
    running = Background(world)
    running.until(lambda: bool(running.watcher.waits))
    assert len(running.watcher.epochs) == 1
    switch(world, "side", on=True)
    running.until_epochs(2)
    running.stop()

    assert rows(taken(world.root / "side.jsonl")) == world.expected()


def test_quorum_goes_on_with_one_of_two_optional_sinks(world: World) -> None:
    """Two of three acknowledge, the third gets its batches later."""
    world.configure(
        FILES,
        switched("main", required=False),
        switched("side", required=False),
        batch='max_files = 1\ncommit_policy = "quorum"\nquorum = 2',
    )
    world.add()
    switch(world, "side", on=False)
    world.run()

    assert rows(taken(world.root / "main.jsonl")) == world.expected()
    waiting = position(world, "side").waiting
    assert waiting is not None
    assert waiting.batches == 1


def test_all_waits_for_an_optional_sink_too(world: World) -> None:
    """Under the policy "all" no sink is optional."""
    world.configure(
        FILES,
        switched("side", required=False),
        batch='max_files = 1\ncommit_policy = "all"',
    )
    world.add()
    switch(world, "side", on=False)
    running = Background(world)
    running.until(lambda: bool(running.watcher.waits))
    assert running.watcher.epochs == []
    switch(world, "side", on=True)
    running.until_epochs(1)
    running.stop()


def test_a_spool_whose_rows_are_gone_is_named(world: World) -> None:
    """Nothing is delivered out of order: the sink says what is missing, the others go on."""
    world.configure(FILES, switched("side", required=False))
    switch(world, "side", on=False)
    for _ in range(2):
        world.add()
    world.run()
    spool = world.root / ".holdfast/checkpoints/.spool/pay/side"
    kept = sorted(spool.iterdir())
    kept[0].rename(world.root / "aside")
    switch(world, "side", on=True)
    world.add()
    world.run()

    assert taken(world.root / "side.jsonl") == []
    assert world.lake() == world.expected()
    (world.root / "aside").rename(kept[0])
    world.run()
    lines = taken(world.root / "side.jsonl")
    assert [line[0] for line in lines] == [0] * 5 + [1] * 5 + [2] * 5
    assert rows(lines) == world.expected()


def test_what_lies_in_a_spool_without_a_right_is_removed(world: World) -> None:
    """Batches that were delivered, never committed, or cut off by a roll-back do not pile up."""
    world.configure(FILES, switched("side", required=False))
    switch(world, "side", on=False)
    for _ in range(3):
        world.add()
    world.run()
    with world.project() as project:
        project.roll_back("pay", "1")
    switch(world, "side", on=True)
    world.run()

    spool = world.root / ".holdfast/checkpoints/.spool/pay/side"
    assert list(spool.iterdir()) == []
    assert rows(taken(world.root / "side.jsonl")) == world.expected()


@pytest.mark.parametrize("step", ["stream.drained", "stream.delivered", "stream.decided"])
def test_killed_while_a_spool_drains(world: World, step: str) -> None:
    """What an exactly-once sink took from its spool before a crash is not offered out of turn."""
    second = sink("second", "files", path="second", required=False, retry={"attempts": 1})
    world.configure(FILES, second)
    (world.root / "second").touch()  # no directory can be made there
    for _ in range(3):
        world.add()
    world.run()
    (world.root / "second").unlink()
    world.add()

    def crash(reached: str, subject: str) -> None:
        if reached == step and subject in ("second", "pay"):
            raise Crash

    failpoints.observe(crash)
    # In the epoch it is told by Spark; between two epochs it ends the run itself.
    with pytest.raises((HoldfastError, Crash)):
        world.run()
    failpoints.observe(None)
    world.run()

    assert world.lake(path="second") == world.expected()
    assert position(world, "second").waiting is None


class Crash(BaseException):
    """The end of a process; nothing tidies up after it."""
