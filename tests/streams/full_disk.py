"""A program of its own, for a mount namespace: a stream whose disk fills up at every step.

The ledger and the checkpoints are on a small disk. It is filled when a step is reached, the run
ends, the space is given back, and the next run has to go on as if nothing had been.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Started as a script, it has only its own directory on the path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from holdfast import failpoints
from holdfast.errors import DiskFull
from holdfast.spark.session import start_session, stop_session
from streams.world import World

STEPS = (
    "stream.begun",
    "stream.intended",
    "stream.decided",
    "objects.create",
    "objects.write",
    "commit.manifest",
    "commit.ledger",
)


def fill(disk: Path) -> None:
    """Use up what is left of a disk."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"0" * 4096):
                pass
        except OSError:
            return


def main(root: Path) -> None:
    """Run into the end of the disk at each step, and go on."""
    disk = root / ".holdfast"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=True)
    spark = start_session("local[2]", {}, app_name="full disk", log_path=root / "spark.log")
    world = World(root, spark)
    world.configure()
    world.add()
    world.run()
    for step in STEPS:
        world.add()

        def observe(reached: str, _subject: str, step: str = step) -> None:
            if reached == step and not (disk / "filler").exists():
                fill(disk)

        failpoints.observe(observe)
        try:
            world.run()
        except DiskFull as error:
            print(f"{step}: {error.message}")
        else:
            raise AssertionError(f"{step}: the disk was full and nobody noticed")
        finally:
            failpoints.observe(None)
            (disk / "filler").unlink()
    result = world.run()
    assert result.head is not None
    assert result.head.epoch == len(STEPS), result.head
    assert world.lake() == world.expected(), "not every event, or not once"
    stop_session(spark)
    print("every event once")


main(Path.cwd())
