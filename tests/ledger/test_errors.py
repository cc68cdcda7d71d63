"""A user's mistake or a failing disk ends in a Holdfast error with advice."""

from __future__ import annotations

import errno
import gc
import os
import resource
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from holdfast.errors import DiskFull, LedgerDamaged, LedgerError, LedgerLocked
from holdfast.ledger import open_ledger, sqlite_schema
from holdfast.ledger.processes import holder_of_lock
from holdfast.ledger.sqlite_errors import from_sqlite

NAMESPACE = "positions"
NOBODY = 65534

names = ["ledger.db", "ledger.json"]
files = pytest.mark.parametrize("name", names)
everywhere = pytest.mark.parametrize("name", [*names, ":memory:"])


def located(tmp_path: Path, name: str) -> str:
    """Return a location in the test's directory, or in memory."""
    return name if name == ":memory:" else str(tmp_path / name)


def filled(path: Path) -> Path:
    """Make a ledger that is worth damaging."""
    with open_ledger(path) as ledger, ledger.writing() as change:
        for number in range(50):
            change.put(NAMESPACE, f"table {number}", b"x" * 1000)
    return path


@files
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"this is not a ledger", b"\0" * 4096, b"[]", b"{}"]
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """A file that is no ledger is refused with its name, and is left alone."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LedgerDamaged) as refused:
        open_ledger(path)
    assert str(path) in refused.value.message
    assert "Restore a copy" in refused.value.hint
    assert path.read_bytes() == content


@files
def test_a_truncated_file_is_refused(tmp_path: Path, name: str) -> None:
    """A file that lost its second half is refused when it is opened or read."""
    path = filled(tmp_path / name)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(LedgerDamaged, match="damaged") as refused:
        read_everything(path)
    assert str(path) in refused.value.message
    assert "Restore a copy" in refused.value.hint
    assert name == "ledger.json" or f"sqlite3 {path} .recover" in refused.value.hint


def read_everything(path: Path) -> None:
    """Open a ledger and read every current value."""
    with open_ledger(path) as ledger, ledger.reading() as view:
        list(view.items(NAMESPACE))


def test_a_changed_json_file_is_refused(tmp_path: Path) -> None:
    """A JSON file with another value than was written fails its checksum."""
    path = filled(tmp_path / "ledger.json")
    path.write_text(path.read_text().replace("xxx", "xyx", 1))
    with pytest.raises(LedgerDamaged, match="checksum"):
        open_ledger(path)


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    """An SQLite database of another program is not written to."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (id)")
    with pytest.raises(LedgerError, match=r"another program .*customers"):
        open_ledger(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("customers",)]


@files
def test_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    """A directory in the ledger's place is called that."""
    (tmp_path / name).mkdir()
    with pytest.raises(LedgerError, match="it is a directory") as refused:
        open_ledger(tmp_path / name)
    assert "Name a file" in refused.value.hint


@files
def test_a_file_is_no_parent(tmp_path: Path, name: str) -> None:
    """A path that leads through a file is refused."""
    (tmp_path / "file").write_text("")
    for parent in ("file", "file/deeper"):
        with pytest.raises(LedgerError, match="a file, not a directory"):
            open_ledger(tmp_path / parent / name)


@files
def test_a_ledger_that_may_not_be_read_or_written(name: str) -> None:
    """Missing permissions are called that, for the directory and for the file."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        path = filled(place / name)
        path.chmod(0o444)
        place.chmod(0o555)
        with unprivileged():
            with pytest.raises(LedgerError, match="may not") as refused:
                open_ledger(place / "deeper" / name)
            assert "permissions" in refused.value.hint
            with pytest.raises(LedgerError, match="may not"), open_ledger(path) as ledger:
                ledger.put(NAMESPACE, "orders", b"1")
        path.chmod(0o000)
        with unprivileged(), pytest.raises(LedgerError, match="may not"):
            open_ledger(path)
        place.chmod(0o755)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be a user that permissions apply to, which root is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_json_ledger_can_be_read_where_it_cannot_be_written() -> None:
    """Reading a JSON ledger needs nothing but permission to read it."""
    with tempfile.TemporaryDirectory() as directory:
        path = filled(Path(directory, "ledger.json"))
        path.chmod(0o444)
        Path(directory).chmod(0o555)
        with unprivileged(), open_ledger(path) as ledger:
            assert ledger.get(NAMESPACE, "table 0") is not None
        Path(directory).chmod(0o755)


@files
def test_a_removed_file_is_not_started_again(tmp_path: Path, name: str) -> None:
    """A ledger removed while it is open is missed, not replaced by an empty one."""
    path = filled(tmp_path / name)
    with open_ledger(path) as ledger:
        path.unlink()
        for write in (True, False):
            with pytest.raises(LedgerError, match="removed"):
                ledger.begin(write=write)
    assert not path.exists()


def test_a_replaced_sqlite_file_is_noticed(tmp_path: Path) -> None:
    """A file put in the place of an open SQLite ledger is not mixed with it."""
    path, other = filled(tmp_path / "ledger.db"), filled(tmp_path / "other.db")
    with open_ledger(path) as ledger:
        other.replace(path)
        with pytest.raises(LedgerError, match="replaced"):
            ledger.get(NAMESPACE, "table 0")


def test_a_full_disk_under_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of space undoes the change, even if the error is swallowed, and loses nothing else."""
    path = filled(tmp_path / "ledger.db")
    original = sqlite_schema.connect

    def cramped(*arguments: object) -> sqlite3.Connection:
        connection = original(*arguments)  # type: ignore[arg-type]
        connection.execute("PRAGMA max_page_count = 40")
        return connection

    monkeypatch.setattr(sqlite_schema, "connect", cramped)
    with open_ledger(path) as ledger:
        with pytest.raises(DiskFull, match=r"ledger\.db"):
            ledger.put(NAMESPACE, "orders", b"x" * 1_000_000)
        change = ledger.writing()
        change.put(NAMESPACE, "customers", b"1")
        with pytest.raises(DiskFull):
            change.put(NAMESPACE, "orders", b"x" * 1_000_000)
        with pytest.raises(LedgerError, match="earlier error"), change:
            pass
        assert ledger.get(NAMESPACE, "customers") is None
        ledger.put(NAMESPACE, "orders", b"small")
        assert ledger.get(NAMESPACE, "table 49") is not None


@files
def test_a_write_that_the_system_refuses(tmp_path: Path, name: str) -> None:
    """A failed write undoes the change and leaves the ledger usable and without leftovers."""
    path = tmp_path / name
    with open_ledger(path) as ledger:
        ledger.put(NAMESPACE, "orders", b"1")
        before = sorted(tmp_path.iterdir())
        with largest_file(100_000), pytest.raises((LedgerError, DiskFull), match=name):
            ledger.put(NAMESPACE, "orders", b"x" * 1_000_000)
        assert sorted(tmp_path.iterdir()) == before
        found = ledger.get(NAMESPACE, "orders")
        assert found is not None
        assert found.value == b"1"
        assert ledger.put(NAMESPACE, "orders", b"2").version == 2


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Let the system refuse to write beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, LedgerError)],
)
def test_a_failing_disk_under_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    """A file that does not become durable is not committed."""

    def failing(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with open_ledger(tmp_path / "ledger.json") as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(kind, match=r"ledger\.json"):
                ledger.put(NAMESPACE, "orders", b"1")
        assert ledger.get(NAMESPACE, "orders") is None
        assert ledger.put(NAMESPACE, "orders", b"1").version == 1


def test_a_value_too_big_for_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value beyond SQLite's limit is refused by name."""
    original = sqlite_schema.connect

    def limited(*arguments: object) -> sqlite3.Connection:
        connection = original(*arguments)  # type: ignore[arg-type]
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        return connection

    monkeypatch.setattr(sqlite_schema, "connect", limited)
    with open_ledger(tmp_path / "ledger.db") as ledger, pytest.raises(LedgerError, match="too big"):
        ledger.put(NAMESPACE, "orders", b"x" * 2000)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY_RECOVERY, LedgerLocked),
        (sqlite3.SQLITE_CORRUPT_INDEX, LedgerDamaged),
        (sqlite3.SQLITE_FULL, DiskFull),
        (sqlite3.SQLITE_IOERR_FSYNC, LedgerError),
        (sqlite3.SQLITE_READONLY_DIRECTORY, LedgerError),
        (sqlite3.SQLITE_NOMEM, LedgerError),
    ],
)
def test_every_sqlite_error_has_a_name(tmp_path: Path, code: int, kind: type[Exception]) -> None:
    """Errors of SQLite, those with extended codes too, become errors of the ledger."""
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    said = from_sqlite("ledger.db", tmp_path, error)
    assert type(said) is kind
    assert "ledger.db" in said.message
    assert said.hint


@everywhere
def test_a_thread_that_waits_in_vain_is_told_for_whom(tmp_path: Path, name: str) -> None:
    """Within one process the error names the thread that is writing."""
    with open_ledger(located(tmp_path, name), timeout_s=0.05) as ledger:
        refused: list[LedgerLocked] = []

        def write() -> None:
            with pytest.raises(LedgerLocked) as caught:
                ledger.put(NAMESPACE, "orders", b"1")
            refused.append(caught.value)

        with ledger.writing():
            other = threading.Thread(target=write)
            other.start()
            other.join()
        assert f"thread MainThread of this process {os.getpid()}" in refused[0].message


@files
def test_two_handles_in_one_thread_do_not_wait_for_each_other(tmp_path: Path, name: str) -> None:
    """A thread that writes through one handle is refused a change through another at once."""
    path = tmp_path / name
    with open_ledger(path, timeout_s=600) as ledger, open_ledger(path, timeout_s=600) as other:
        with ledger.writing(), pytest.raises(LedgerError, match="already writing") as refused:
            other.writing()
        assert type(refused.value) is LedgerError


@everywhere
def test_a_forgotten_transaction_frees_the_ledger(tmp_path: Path, name: str) -> None:
    """A change that nobody holds any more is undone and keeps nobody out."""
    with open_ledger(located(tmp_path, name), timeout_s=0.05) as ledger:
        ledger.writing().put(NAMESPACE, "orders", b"1")
        gc.collect()
        assert ledger.put(NAMESPACE, "orders", b"2").version == 1


@everywhere
def test_ending_a_transaction_inside_its_block(tmp_path: Path, name: str) -> None:
    """A change that is aborted or committed by hand may be left normally."""
    with open_ledger(located(tmp_path, name)) as ledger:
        with ledger.writing() as change:
            change.put(NAMESPACE, "orders", b"1")
            change.abort()
        assert ledger.get(NAMESPACE, "orders") is None
        with ledger.writing() as change:
            change.put(NAMESPACE, "orders", b"2")
            change.commit()
        assert ledger.get(NAMESPACE, "orders") is not None


@everywhere
def test_wrong_arguments_are_explained(tmp_path: Path, name: str) -> None:
    """The error says what was wrong with a name, a value or a time."""
    with open_ledger(located(tmp_path, name)) as ledger, ledger.writing() as change:
        with pytest.raises(LedgerError, match="A key must not be empty"):
            change.get(NAMESPACE, "")
        with pytest.raises(TypeError, match="A namespace is a str, not int"):
            change.keys(7)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="positions/orders is str, not bytes"):
            change.put(NAMESPACE, "orders", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="A version is an int, not str"):
            change.read(NAMESPACE, "orders", "1")  # type: ignore[arg-type]
        with pytest.raises(LedgerError, match="time zone"):
            change.append(NAMESPACE, "orders", b"1", datetime(2025, 3, 15))  # noqa: DTZ001


def test_a_lock_of_this_process_has_no_other_holder(tmp_path: Path) -> None:
    """The search for a holder finds only other processes."""
    path = tmp_path / "ledger.db"
    with open_ledger(path) as ledger, ledger.writing():
        assert holder_of_lock(Path(f"{path}-shm").stat().st_ino) is None
