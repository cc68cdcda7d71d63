"""Several processes on one ledger."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.errors import LedgerError, LedgerLocked
from holdfast.ledger import Ledger, open_ledger, sqlite_schema

from .child import NAMESPACE
from .children import child, go_on, line

PROCESSES = 3
TIMES = 25

files = pytest.mark.parametrize("name", ["ledger.db", "ledger.json"])
everywhere = pytest.mark.parametrize("name", ["ledger.db", "ledger.json", ":memory:"])


def located(tmp_path: Path, name: str) -> str:
    """Return a location in the test's directory, or in memory."""
    return name if name == ":memory:" else str(tmp_path / name)


@files
@pytest.mark.parametrize("how", ["compare-and-set", "change"])
def test_no_update_is_lost(tmp_path: Path, name: str, how: str) -> None:
    """Processes that increment one counter at the same time lose no increment."""
    location = tmp_path / name
    with ExitStack() as stack:
        counters = [
            stack.enter_context(child("count", location, how, TIMES)) for _ in range(PROCESSES)
        ]
        assert [line(counter) for counter in counters] == ["ready"] * PROCESSES
        for counter in counters:
            go_on(counter)
        assert [counter.wait(timeout=60) for counter in counters] == [0] * PROCESSES
    with open_ledger(location) as ledger, ledger.reading() as view:
        found = view.get(NAMESPACE, "counter")
        assert found is not None
        assert found.value == b"%d" % (PROCESSES * TIMES)
        assert found.version == PROCESSES * TIMES


@files
def test_a_locked_ledger_names_its_holder(tmp_path: Path, name: str) -> None:
    """A writer that waits in vain says which process it waited for; a reader does not wait."""
    location = tmp_path / name
    with open_ledger(location, timeout_s=0.1) as ledger, child("hold", location) as holder:
        assert line(holder) == "held"
        with pytest.raises(LedgerLocked) as refused:
            ledger.put(NAMESPACE, "held", b"2")
        assert f"process {holder.pid} (" in refused.value.message
        assert "child.py hold" in refused.value.message
        assert str(location) in refused.value.message
        assert ledger.get(NAMESPACE, "held") is None


@files
def test_a_writer_waits_for_another_process(tmp_path: Path, name: str) -> None:
    """A writer gets its turn as soon as the other process is done, and sees what it wrote."""
    location = tmp_path / name
    with open_ledger(location, timeout_s=60) as ledger, child("hold", location) as holder:
        assert line(holder) == "held"
        go_on(holder)
        with ledger.writing() as change:
            found = change.get(NAMESPACE, "held")
            assert found is not None
            assert found.value == b"1"


@files
def test_a_dead_holder_is_no_holder(tmp_path: Path, name: str) -> None:
    """The lock of a killed process is gone with it, and so is its change."""
    location = tmp_path / name
    with child("hold", location) as holder:
        assert line(holder) == "held"
        holder.kill()
        holder.wait()
        with open_ledger(location, timeout_s=5) as ledger:
            assert ledger.get(NAMESPACE, "held") is None
            ledger.put(NAMESPACE, "held", b"2")


def in_fork(work: Callable[[], bool]) -> bool:
    """Call something in a forked child and return what it returned there."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@everywhere
def test_a_forked_child_cannot_use_its_parents_transaction(tmp_path: Path, name: str) -> None:
    """A transaction belongs to the process that began it, whatever a forked child does."""
    with open_ledger(located(tmp_path, name)) as ledger:
        change = ledger.writing()
        change.put(NAMESPACE, "orders", b"1")

        def misuse() -> bool:
            try:
                change.put(NAMESPACE, "orders", b"2")
            except LedgerError as error:
                change.abort()
                return str(os.getppid()) in error.message
            return False

        assert in_fork(misuse)
        change.commit()
        found = ledger.get(NAMESPACE, "orders")
        assert found is not None
        assert (found.version, found.value) == (1, b"1")


@files
def test_a_forked_child_can_use_the_ledger(tmp_path: Path, name: str) -> None:
    """A ledger opened before a fork works in the child, which waits for its parent's change."""
    with open_ledger(tmp_path / name, timeout_s=0.1) as ledger:

        def write(value: bytes) -> bool:
            return ledger.put(NAMESPACE, "orders", value).value == value

        def is_locked() -> bool:
            try:
                return not write(b"2")
            except LedgerLocked as error:
                return f"process {os.getppid()} (" in error.message

        assert write(b"1")
        with ledger.writing() as change:
            assert in_fork(is_locked)
            change.put(NAMESPACE, "orders", b"3")
        assert in_fork(lambda: write(b"4"))
        assert write(b"5")
        assert values(ledger) == [b"5", b"4", b"3", b"1"]


def test_a_forked_child_never_uses_its_parents_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite connections do not survive a fork, so the child opens one of its own."""
    opened: list[int] = []
    connect = sqlite_schema.connect

    def counted(path: Path, location: str) -> sqlite3.Connection:
        opened.append(os.getpid())
        return connect(path, location)

    monkeypatch.setattr(sqlite_schema, "connect", counted)
    with open_ledger(tmp_path / "ledger.db") as ledger:
        for number in range(2):
            ledger.put(NAMESPACE, "orders", b"%d" % number)
        assert opened == [os.getpid()]
        assert in_fork(
            lambda: ledger.get(NAMESPACE, "orders") is not None and opened[-1] == os.getpid()
        )


def test_a_forked_child_has_its_own_memory_ledger() -> None:
    """A memory ledger is copied by a fork and does not hang on a turn of its parent."""
    with open_ledger(":memory:") as ledger, ledger.writing() as change:
        change.put(NAMESPACE, "orders", b"1")
        assert in_fork(lambda: ledger.put(NAMESPACE, "orders", b"2").version == 1)


def values(ledger: Ledger) -> list[bytes | None]:
    """Return every value of the record, newest first."""
    with ledger.reading() as view:
        numbers = [info.version for info in view.versions(NAMESPACE, "orders")]
        found = [view.read(NAMESPACE, "orders", number) for number in numbers]
    return [record.value for record in found if record]
