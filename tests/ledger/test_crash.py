"""A process killed at any moment leaves a ledger with every commit and no half of one."""

from __future__ import annotations

import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.ledger import Ledger, open_ledger

from .child import KEPT, KEYS, NAMESPACE, PADDING, write_once
from .children import child, kill_after, line

KILLS = 12

files = pytest.mark.parametrize("name", ["ledger.db", "ledger.json"])


def committed(ledger: Ledger) -> int:
    """Check that every change is there as a whole or not at all, and return the last one."""
    with ledger.reading() as view:
        records = {key: view.get(NAMESPACE, key) for key in KEYS}
        versions = {key: view.versions(NAMESPACE, key) for key in KEYS}
    numbers = {0 if r is None else int(r.value or b"") for r in records.values()}
    assert len(numbers) == 1, f"half a change: {numbers}"
    (number,) = numbers
    for key in KEYS:
        kept = list(range(number, max(0, number - KEPT), -1))
        assert [info.version for info in versions[key]] == kept
        assert [info.size for info in versions[key]] == [len(b"%d" % n + PADDING) for n in kept]
    return number


@files
def test_killed_at_random_moments(tmp_path: Path, name: str) -> None:
    """Every acknowledged change survives, and at most the one in flight is there besides."""
    location = tmp_path / name
    chance = random.Random(name)
    acknowledged = 0
    for _ in range(KILLS):
        with child("write", location) as writer:
            assert line(writer) == "ready"
            said = kill_after(writer, chance.uniform(0.0, 0.15))
        acknowledged = int(said[-1]) if said else acknowledged
        with open_ledger(location) as ledger:
            found = committed(ledger)
            assert acknowledged <= found <= acknowledged + 1
            acknowledged = write_once(ledger)
            assert acknowledged == found + 1
    assert acknowledged > KILLS
    if name == "ledger.db":
        with closing(sqlite3.connect(location)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@files
def test_killed_while_it_creates_ledgers(tmp_path: Path, name: str) -> None:
    """A ledger is created whole or not at all."""
    chance = random.Random(name)
    for attempt in range(4):
        directory = tmp_path / str(attempt)
        with child("create", directory, Path(name).suffix) as creator:
            assert line(creator) == "ready"
            said = kill_after(creator, chance.uniform(0.02, 0.1))
        for number in range(len(said) + 1):
            with open_ledger(directory / f"{number}{Path(name).suffix}") as ledger:
                assert committed(ledger) == 0


@pytest.mark.parametrize(
    ("step", "function", "call", "survives"),
    [
        ("before the new file is opened", "open", 1, False),
        ("before the new file is durable", "fsync", 1, False),
        ("before the new file takes the old one's place", "replace", 1, False),
        ("before the new name is durable", "fsync", 2, True),
    ],
)
def test_killed_at_a_step_of_the_json_commit(
    tmp_path: Path, step: str, function: str, call: int, survives: bool
) -> None:
    """At each step of replacing the file, either all of the old one or all of the new is there."""
    location = tmp_path / "ledger.json"
    with open_ledger(location) as ledger:
        write_once(ledger)
    with child("die", location, function, call) as writer:
        assert line(writer) == "", f"was not killed {step}"
        assert writer.wait() == -signal.SIGKILL
    with open_ledger(location) as ledger:
        assert committed(ledger) == 1 + survives
        assert write_once(ledger) == 2 + survives
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]
