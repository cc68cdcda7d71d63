"""What the other process of a test does: `python child.py <task> <arguments>`.

Every task prints a line when something has happened that the test may rely on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.errors import VersionConflict
from holdfast.ledger import ABSENT, Ledger, open_ledger

NAMESPACE = "crash"
KEYS = ["a", "b", "c", "d"]
KEPT = 3
PADDING = b" " * 3000


def say(text: object) -> None:
    """Tell the test something."""
    print(text, flush=True)


def write(location: str) -> None:
    """Write the same number to every key, again and again, and say each committed one."""
    with open_ledger(location) as ledger:
        say("ready")
        while True:
            say(write_once(ledger))


def write_once(ledger: Ledger) -> int:
    """Write the next number to every key in one change."""
    with ledger.writing() as change:
        found = change.get(NAMESPACE, KEYS[-1])
        number = 1 if found is None else int(found.value or b"0") + 1
        for key in KEYS:
            change.put(NAMESPACE, key, b"%d" % number + PADDING)
            change.prune(NAMESPACE, key, KEPT)
    return number


def create(directory: str, suffix: str) -> None:
    """Create one ledger after the other and say each that is there."""
    say("ready")
    number = 0
    while True:
        with open_ledger(Path(directory, f"{number}{suffix}")):
            say(number)
        number += 1


def die(location: str, function: str, call: str) -> None:
    """Write once, be killed at the n-th call of a function of `os`, and never say "alive"."""
    with open_ledger(location) as ledger:
        calls = 0
        original: Callable[..., Any] = getattr(os, function)

        def deadly(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == int(call):
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        setattr(os, function, deadly)
        write_once(ledger)
        say("alive")


def count(location: str, how: str, times: str) -> None:
    """Increment one counter when told to start."""
    with open_ledger(location, timeout_s=60) as ledger:
        say("ready")
        sys.stdin.readline()
        increment = (
            increment_by_compare_and_set if how == "compare-and-set" else increment_by_change
        )
        for _ in range(int(times)):
            increment(ledger)


def increment_by_compare_and_set(ledger: Ledger) -> None:
    """Read, then write if nobody else has written, else begin again."""
    while True:
        found = ledger.get(NAMESPACE, "counter")
        number, expect = (0, ABSENT) if found is None else (int(found.value or b""), found.version)
        try:
            ledger.put(NAMESPACE, "counter", b"%d" % (number + 1), expect=expect)
        except VersionConflict:
            continue
        return


def increment_by_change(ledger: Ledger) -> None:
    """Read and write in one change."""
    with ledger.writing() as change:
        found = change.get(NAMESPACE, "counter")
        number = 0 if found is None else int(found.value or b"")
        change.put(NAMESPACE, "counter", b"%d" % (number + 1))


def hold(location: str) -> None:
    """Keep a change open until told to end it."""
    with open_ledger(location) as ledger, ledger.writing() as change:
        change.put(NAMESPACE, "held", b"1")
        say("held")
        sys.stdin.readline()


INCREMENTS = {"compare-and-set": increment_by_compare_and_set, "change": increment_by_change}

TASKS = {task.__name__: task for task in (write, create, die, count, hold)}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
