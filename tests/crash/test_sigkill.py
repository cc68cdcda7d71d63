"""A real `holdfast run`, killed at every step of a table's copy, loses and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from cli.harness import HOLDFAST, Done, wait_until
from holdfast.failpoints import KILL_AT
from holdfast.ledger import open_ledger
from holdfast.pipelines.replicating import STEPS

from .world import Strategy, World

pytestmark = pytest.mark.spark

# Each process finishes what the one before it left, and dies further on; then the source changes.
# With each step comes after how many changes a reader sees the copy when the process is dead.
# "Fresh" steps are met by a batch of the dying process, the others by the batch it finishes.
ORDER = (
    ("before_read", 0),  # fresh, of the first run
    ("before_publish", 0),  # fresh, of the first run
    ("after_write", 2),  # fresh, with the batch before it finished
    ("after_commit", 3),
    ("after_publish", 5),  # fresh
    ("before_commit", 5),
)


def run(world: World, *, kill_at: str = "") -> Done:
    """Run the pipeline in a process of its own, which dies at a step if one is named."""
    environment = {**os.environ, KILL_AT: f"{kill_at}:shop.orders" if kill_at else ""}
    done = subprocess.run(
        [HOLDFAST, "run"],
        cwd=world.shop.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def kill(world: World, step: str) -> None:
    """Run into a step and die there."""
    died = run(world, kill_at=step)
    assert died.code == -signal.SIGKILL, f"{step} was not reached: {died.said}"


def assert_finished(world: World) -> None:
    """One more run makes the copy equal to its source and leaves nothing behind."""
    done = run(world)
    assert done.code == 0, done.said
    assert world.visible_version() == len(world.changes)
    assert list((world.shop.root / "lake" / ".holdfast").rglob("*.parquet")) == []


def test_the_order_covers_every_step() -> None:
    """A step that is added to the copy has to be added here."""
    assert sorted(step for step, _ in ORDER) == sorted(STEPS)


@pytest.mark.parametrize("strategy", ["incremental", "merge"])
def test_killed_at_every_step(tmp_path: Path, strategy: Strategy) -> None:
    """Killed six times in a row, with changes in between, a copy is never half or double."""
    world = World.begin(tmp_path, strategy)
    for step, visible in ORDER:
        kill(world, step)

        assert world.visible_version() == visible, step
        world.change()
    assert_finished(world)


@pytest.mark.campaign
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("strategy", ["incremental", "merge"])
@pytest.mark.parametrize("occasion", ["first run", "later run", "rewind", "delete", "recovery"])
def test_killed_on_every_occasion(
    tmp_path: Path, strategy: Strategy, step: str, occasion: str
) -> None:
    """Whatever a run is there for, killed at any step, the next one completes it."""
    world = World.begin(tmp_path, strategy)
    if occasion != "first run":
        for _ in range(2):
            assert run(world).code == 0
            world.change()
    if occasion in ("rewind", "delete"):
        version = ["--version", "1"] if occasion == "rewind" else []
        words = [HOLDFAST, "state", occasion, "shop.orders", *version, "--yes"]
        subprocess.run(words, cwd=tmp_path, check=True)
    if occasion == "recovery":
        kill(world, "after_write")
        world.change()
    before = world.visible_version()

    kill(world, step)

    assert world.visible_version() >= before
    world.change()
    assert_finished(world)


@pytest.mark.campaign
@pytest.mark.parametrize("strategy", ["incremental", "merge"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_moments(tmp_path: Path, strategy: Strategy, seed: int) -> None:
    """Killed anywhere, between any two instructions, a run is completed by the next one."""
    chance = random.Random(f"{strategy} {seed}")
    world = World.begin(tmp_path, strategy)
    seen = 0
    for number in (1, 2):
        kill_at_random(world, number, chance)

        before, seen = seen, world.visible_version()
        assert seen >= before, "a committed batch vanished"
        world.change()
    assert_finished(world)


def kill_at_random(world: World, number: int, chance: random.Random) -> None:
    """Start the run of this number, and kill it somewhere between its begin and its end."""
    process = subprocess.Popen(
        [HOLDFAST, "run"],
        cwd=world.shop.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def begun() -> bool:
        # Spark takes most of the time to start; only after that a run is recorded.
        if not world.shop.ledger.exists():
            return False
        with open_ledger(world.shop.ledger) as ledger, ledger.reading() as view:
            return len(view.keys("runs")) >= number

    wait_until(begun, "the run has begun")
    try:
        process.wait(chance.uniform(0, 5))
    except subprocess.TimeoutExpired:
        # The whole group, Java included: as when the machine goes down.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
