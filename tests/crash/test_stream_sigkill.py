"""A real `holdfast run` of a stream, killed at every step, loses and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cli.harness import HOLDFAST, Done, wait_until
from holdfast.failpoints import KILL_AT
from holdfast.ledger import open_ledger
from holdfast.pipelines.streams.epochs import STEPS

from .stream_world import StreamWorld

pytestmark = pytest.mark.spark

# Every step of an epoch, and inside the delivery those between two writes of a sink.
ORDER = (
    "stream.begun",
    "stream.intended",
    "stream.computed",
    "files.staged",
    "files.published",
    "stream.delivered:lake",
    "delta.moved",
    "delta.committed",
    "stream.delivered:side",
    "stream.decided",
    "commit.manifest",
    "commit.ledger",
    "commit.done",
    "stream.after",
)


def run(world: StreamWorld, *, kill_at: str = "") -> Done:
    """Deliver what is there in a process of its own, which dies at a step if one is named."""
    done = subprocess.run(
        [HOLDFAST, "run", "pay", "--once"],
        cwd=world.root,
        env={**os.environ, KILL_AT: kill_at},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def assert_finished(world: StreamWorld) -> None:
    """One more run makes both exactly-once sinks equal to the input, and the third complete."""
    done = run(world)
    assert done.code == 0, done.said
    expected = world.expected()
    assert world.lake() == expected
    assert world.table() == expected
    side = world.side()
    assert set(side) == set(expected)
    assert all(side[row] >= count for row, count in expected.items())


def test_the_order_covers_every_step() -> None:
    """A step that is added to the protocol has to be added here."""
    assert {step.partition(":")[0] for step in ORDER} >= set(STEPS)


def test_killed_at_every_step(tmp_path: Path) -> None:
    """Killed at each step in turn, with events arriving in between, every event arrives."""
    world = StreamWorld(tmp_path)
    world.configure()
    for step in ORDER:
        world.add()
        died = run(world, kill_at=step)
        assert died.code == -signal.SIGKILL, f"{step} was not reached: {died.said}"
        for rows in (world.lake(), world.table()):
            assert not rows - world.expected(), f"doubled after {step}"
    assert_finished(world)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    """Killed thirty times, anywhere, while events keep arriving: every event arrives."""
    chance = random.Random(seed)
    world = StreamWorld(tmp_path)
    world.configure()
    for number in range(30):
        kill_at_random(world, number + 1, chance)
        for rows in (world.lake(), world.table()):
            assert not rows - world.expected(), f"doubled after kill {number}"
    assert_finished(world)


def kill_at_random(world: StreamWorld, number: int, chance: random.Random) -> None:
    """Run continuously while files arrive, and kill the process somewhere in it."""
    process = subprocess.Popen(
        [HOLDFAST, "run", "pay"],
        cwd=world.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    ended = threading.Event()

    def feed() -> None:
        while not ended.wait(0.15):
            world.add()

    def begun() -> bool:
        ledger = world.root / ".holdfast" / "ledger.db"
        assert process.poll() is None, "it ended by itself"
        if not ledger.exists():
            return False
        with open_ledger(ledger) as opened, opened.reading() as view:
            return len(view.keys("runs")) >= number

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        wait_until(begun, "the run has begun")
        time.sleep(chance.uniform(0, 4))
    finally:
        # The whole group, Java included: as when the machine goes down.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ended.set()
        feeder.join()
