"""A process killed at any moment leaves the last acknowledged epoch whole."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import failpoints
from holdfast.failpoints import KILL_AT
from holdfast.state import Directory, Snapshot, Store
from holdfast.state.catalogue import Catalogue
from holdfast.state.files import STEPS

from .child import TABLES, acknowledge, acknowledged, do_epoch, model, opened

KINDS = [
    backend + changelog for backend in ("arrow", "heap", "rocksdb") for changelog in ("", "+log")
]

kinds = pytest.mark.parametrize("kind", KINDS)

_RUNS = {"state.create", "state.write", "state.sync", "state.sync_directory"}
REACHED = {
    "arrow": _RUNS,
    "heap": _RUNS,
    "rocksdb": _RUNS | {"state.link", "state.remove"},
}
"""The steps that each backend reaches when it opens, commits, and opens again."""


@contextmanager
def child(
    directory: Path, kind: str, kill_at: str = "", task: str = "run"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run epochs in a process of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("child.py")), task, str(directory), kind],
        stdout=subprocess.PIPE,
        env={**os.environ, KILL_AT: kill_at},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[bytes], seconds: float | None = None) -> list[int]:
    """Return the epochs a child acknowledged before it died; kill it after a while."""
    assert process.stdout is not None
    if seconds is not None:
        first = process.stdout.readline()  # it has begun
        end = time.monotonic() + seconds
        heard = first
        while (left := end - time.monotonic()) > 0:
            if select.select([process.stdout], [], [], left)[0]:
                heard += os.read(process.stdout.fileno(), 65536)
        process.kill()
        heard += process.stdout.read()
    else:
        heard = process.stdout.read()
    process.wait()
    return [int(line) for line in heard.decode().rpartition("\n")[0].split()]


def check(directory: Path, kind: str, at_least: int) -> int:
    """See that the last acknowledged epoch is there, whole, and that work can go on."""
    snapshots = acknowledged(str(directory))
    epoch = snapshots[0].epoch if snapshots else -1
    assert epoch >= at_least
    for snapshot in snapshots:
        for file in snapshot.files:
            Directory(directory / "state").verify(file)
    with opened(str(directory), kind, snapshots) as store:
        check_content(store)
        acknowledge(str(directory), do_epoch(store, epoch + 1))
        check_content(store)
    return epoch + 1


def check_content(store: Store) -> None:
    """Compare every row of a store with what its epoch must have left."""
    with store.begin(store.epoch + 1, now_ms=0) as transaction:
        for schema in TABLES:
            found = {
                row["k"]: (row["v"], row["text"])
                for batch in transaction.table(schema.name).scan()
                for row in batch.to_pylist()
            }
            assert found == model(store.epoch, schema.name)


@kinds
def test_the_steps_that_are_reached(tmp_path: Path, kind: str) -> None:
    """The steps below are exactly those that a backend reaches."""
    steps: set[str] = set()
    failpoints.observe(lambda step, _: steps.add(step))
    try:
        snapshots: list[Snapshot] = []
        for epoch in range(6):
            with opened(str(tmp_path), kind, snapshots) as store:
                snapshots = [do_epoch(store, epoch)]
    finally:
        failpoints.observe(None)
    assert steps == REACHED[kind.partition("+")[0]]
    assert steps <= set(STEPS)


@pytest.mark.parametrize(
    ("kind", "step"),
    [(kind, step) for kind in KINDS for step in STEPS if step in REACHED[kind.partition("+")[0]]],
)
def test_killed_at_a_step(tmp_path: Path, kind: str, step: str) -> None:
    """Killed when it first comes to a step, with and without older state, it loses nothing."""
    for epochs in (0, 5):
        directory = tmp_path / str(epochs)
        directory.mkdir()
        with opened(str(directory), kind, ()) as store:
            for epoch in range(epochs):
                acknowledge(str(directory), do_epoch(store, epoch))
        with child(directory, kind, kill_at=step) as process:
            heard = said(process)
            assert process.returncode == -signal.SIGKILL
        last = check(directory, kind, max([epochs - 1, *heard]))
        assert last == epochs + len(heard)


@pytest.mark.parametrize("kind", ["arrow", "rocksdb+log"])
@pytest.mark.parametrize("step", ["state.rename", "state.remove"])
def test_killed_while_epochs_are_kept_and_removed(tmp_path: Path, kind: str, step: str) -> None:
    """Killed while it keeps an epoch or removes older ones, the kept ones are whole."""
    with child(tmp_path, kind, kill_at=step, task="retain") as process:
        heard = said(process)
        assert process.returncode == -signal.SIGKILL
    catalogue = Catalogue(Directory(tmp_path / "state"))
    kept = catalogue.epochs()
    assert kept[-1] in (len(heard) - 1, len(heard))
    catalogue.expire(kept[-2:])
    for epoch in kept[-2:]:
        catalogue.verify(epoch)
        with opened(str(tmp_path), kind, catalogue.snapshots(epoch)) as store:
            assert store.epoch == epoch
            check_content(store)


@kinds
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    """Every acknowledged epoch survives a kill at any moment."""
    _kill_again_and_again(tmp_path, kind, kills=2)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@kinds
def test_killed_at_random_moments_many_times(tmp_path: Path, kind: str) -> None:
    """The same, many more times."""
    _kill_again_and_again(tmp_path, kind, kills=60)


def _kill_again_and_again(directory: Path, kind: str, kills: int) -> None:
    chance = random.Random(kind)
    last = -1
    for _ in range(kills):
        with child(directory, kind) as process:
            heard = said(process, chance.uniform(0.0, 0.25))
            assert process.returncode == -signal.SIGKILL
        assert heard
        last = check(directory, kind, max([last, *heard]))
    state = directory / "state"
    catalogue = Catalogue(Directory(state))
    kept = acknowledged(str(directory))
    catalogue.keep(kept)
    catalogue.collect()
    named = {file.name for snapshot in kept for file in snapshot.files}
    left = {path.relative_to(state) for path in state.rglob("*") if path.is_file()}
    # Nothing that a kill left, and nothing of the epochs that were not kept.
    assert {path.as_posix() for path in left} == {*named, f"epochs/{last}.json"}
    check(directory, kind, last)
