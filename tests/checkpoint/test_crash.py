"""A process killed at any moment leaves the last committed checkpoint whole."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.checkpoint import STEPS, gc, verify_all
from holdfast.failpoints import KILL_AT
from holdfast.ledger import SqliteLedger
from holdfast.objects import STEPS as OBJECT_STEPS
from holdfast.objects import LocalObjects

from .workshop import Workshop, named

_CHILD = Path(__file__).with_name("child.py")


def run(directory: Path, kill_at: str = "", seconds: float = 0.0) -> list[int]:
    """Let a process run epochs until it is killed, and return those it said."""
    process = subprocess.Popen(
        [sys.executable, str(_CHILD), "run", str(directory)],
        stdout=subprocess.PIPE,
        env={**os.environ, KILL_AT: kill_at},
    )
    assert process.stdout is not None
    heard = b""
    try:
        if not kill_at:
            heard = process.stdout.readline()  # it has begun
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                if select.select([process.stdout], [], [], left)[0]:
                    heard += os.read(process.stdout.fileno(), 65536)
            process.kill()
        heard += process.stdout.read()
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()
    return [int(line) for line in heard.decode().rpartition("\n")[0].split()]


def check(directory: Path, at_least: int) -> int:
    """See that every kept checkpoint is whole, nothing acknowledged is lost, and it goes on."""
    with SqliteLedger(directory / "ledger.db") as ledger:
        workshop = Workshop(ledger, LocalObjects(directory / "files"))
        book = workshop.checkpoints
        head = book.head()
        version = head.version if head else 0
        assert version >= at_least
        assert all(each.whole for each in verify_all(book))
        restored = book.restore()
        assert (restored.entry.version if restored else 0) == version
        assert restored is None or restored.notes == ()
        workshop.activate()
        after = workshop.commit()
        assert after.version == version + 1
        if version:
            assert len(book.line()) > 1
        gc(book, dry_run=False)
        assert workshop.files() == set().union(*(named(entry) for entry in book.entries()))
        return after.version


@pytest.mark.parametrize("step", [*STEPS, *OBJECT_STEPS])
def test_killed_at_a_step(tmp_path: Path, step: str) -> None:
    """Killed when it first comes to a step, a pipeline loses nothing and goes on."""
    said = run(tmp_path, kill_at=step)
    last = check(tmp_path, max([0, *said]))
    assert last - len(said) in (1, 2)


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Every acknowledged checkpoint survives a kill at any moment, retention included."""
    chance = random.Random("checkpoints")
    last = 0
    for _ in range(4):
        said = run(tmp_path, seconds=chance.uniform(0.0, 0.3))
        assert said
        last = check(tmp_path, max([last, *said]))


@pytest.mark.parametrize("ledger", ["elsewhere", "disk"])
def test_a_full_disk(tmp_path: Path, ledger: str) -> None:
    """Without space the last checkpoint is whole; retention makes room and the work goes on."""
    # A small disk of our own: nobody else sees what is mounted in there.
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, _CHILD, "fill", tmp_path, ledger],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "o space" in found["said"]
    assert "Free some space" in found["hint"]
    assert found["committed"] > 5
    assert found["restored"] == found["whole"] == found["committed"]
    assert found["notes"] == found["hidden"] == []
    if ledger != "disk":
        assert found["removed"] == found["committed"] - 2
        assert found["after"] == found["committed"] + 2
