"""What lies on disk, and what happens to a ledger of another format."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import LedgerError, LedgerFormatMismatch
from holdfast.ledger import (
    FORMAT_VERSION,
    JsonLedger,
    MemoryLedger,
    Migration,
    Record,
    SqliteLedger,
    migrate,
    open_ledger,
)
from holdfast.ledger.migrations import STEPS
from holdfast.testing.ledger_suite import moment

files = pytest.mark.parametrize("name", ["ledger.db", "ledger.json"])


def filled(path: Path) -> Path:
    """Make a ledger with three versions of a record, the first one pruned."""
    with open_ledger(path, clock=lambda: moment(0)) as ledger, ledger.writing() as change:
        change.put("positions", "orders", b"forgotten")
        change.put("positions", "orders", b'{"high": "\xc3\xa9"}')
        change.put("positions", "orders", b"\xff\x00")
        change.delete("positions", "orders")
        change.prune("positions", "orders", 3)
    return path


def everything(path: Path) -> list[Record | None]:
    """Return every version of the record, newest first."""
    with open_ledger(path) as ledger, ledger.reading() as view:
        versions = [info.version for info in view.versions("positions", "orders")]
        return [view.read("positions", "orders", version) for version in versions]


def set_format(path: Path, number: int) -> None:
    """Make a file say that it has another format."""
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "format": number}))
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {number}")


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        (":memory:", MemoryLedger),
        ("ledger.json", JsonLedger),
        ("LEDGER.JSON", JsonLedger),
        ("ledger.db", SqliteLedger),
        ("ledger", SqliteLedger),
    ],
)
def test_a_location_chooses_the_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, kind: type
) -> None:
    """The location says which kind of ledger it is, and is shown as it was written."""
    monkeypatch.chdir(tmp_path)
    with open_ledger(location) as ledger:
        assert type(ledger) is kind
        assert ledger.location == location


def test_the_json_file_is_as_documented(tmp_path: Path) -> None:
    """The JSON file has the documented fields, one version a line, and a checksum of records."""
    text = filled(tmp_path / "ledger.json").read_text()
    time = '"created_at": "2025-03-15T14:30:00.000000Z"'
    lines = text.splitlines()
    checksum = lines.pop(2)
    assert lines == [
        "{",
        '  "format": 1,',
        '  "records": {',
        '    "positions": {',
        '      "orders": [',
        f'        {{"version": 2, {time}, "text": "{{\\"high\\": \\"é\\"}}"}},',
        f'        {{"version": 3, {time}, "base64": "/wA="}},',
        f'        {{"version": 4, {time}, "deleted": true}}',
        "      ]",
        "    }",
        "  }",
        "}",
    ]
    records = json.dumps(
        json.loads(text)["records"], sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    assert f'"sha256:{hashlib.sha256(records.encode()).hexdigest()}"' in checksum


def test_a_reformatted_json_file_is_the_same_ledger(tmp_path: Path) -> None:
    """White space and the order of fields do not matter to the checksum."""
    path = filled(tmp_path / "ledger.json")
    before = everything(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(document.items())), indent=8))
    assert everything(path) == before


def test_a_json_file_changed_by_hand_is_seen_at_once(tmp_path: Path) -> None:
    """An open ledger notices that its file was replaced by another one."""
    other = filled(tmp_path / "other.json")
    with open_ledger(tmp_path / "ledger.json") as ledger:
        assert ledger.get("positions", "orders") is None
        (tmp_path / "ledger.json").write_bytes(other.read_bytes())
        with ledger.reading() as view:
            assert [info.version for info in view.versions("positions", "orders")] == [4, 3, 2]


def test_a_json_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    """A commit keeps the file's permissions, and writes through a symbolic link."""
    path = filled(tmp_path / "ledger.json")
    path.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with open_ledger(link) as ledger:
        ledger.put("positions", "orders", b"5")
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(everything(path)) == 4


def test_the_sqlite_file_is_as_documented(tmp_path: Path) -> None:
    """The SQLite file has the documented header numbers, table, columns and journal."""
    path = filled(tmp_path / "ledger.db")
    time = "2025-03-15T14:30:00.000000Z"
    with closing(sqlite3.connect(path)) as connection:

        def ask(statement: str) -> list[Any]:
            return connection.execute(statement).fetchall()

        assert ask("PRAGMA application_id") == [(int.from_bytes(b"HOLD"),)]
        assert ask("PRAGMA user_version") == [(FORMAT_VERSION,)]
        assert ask("PRAGMA journal_mode") == [("wal",)]
        assert ask("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'") == [
            ("records", 1),
            ("sqlite_schema", 0),
        ]
        assert ask("SELECT namespace, key, version, created_at, value FROM records") == [
            ("positions", "orders", 2, time, b'{"high": "\xc3\xa9"}'),
            ("positions", "orders", 3, time, b"\xff\x00"),
            ("positions", "orders", 4, time, None),
        ]


def test_a_closed_sqlite_ledger_is_one_file(tmp_path: Path) -> None:
    """Closing the last handle leaves no file beside the ledger, so that it can be copied."""
    filled(tmp_path / "ledger.db")
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


@files
@pytest.mark.parametrize(
    ("found", "advice"),
    [(99, "pip install --upgrade ."), (0, "holdfast state migrate")],
)
def test_another_format_is_refused(tmp_path: Path, name: str, found: int, advice: str) -> None:
    """A newer or older format is refused with both numbers and the command to run."""
    path = filled(tmp_path / name)
    set_format(path, found)
    with pytest.raises(LedgerFormatMismatch) as refused:
        open_ledger(path)
    assert f"format {found};" in refused.value.message
    assert f"format {FORMAT_VERSION}." in refused.value.message
    assert advice in refused.value.hint


@files
def test_a_format_that_changes_meanwhile_is_refused(tmp_path: Path, name: str) -> None:
    """A ledger migrated by a newer Holdfast is not written by an older one that has it open."""
    path = tmp_path / name
    with open_ledger(path) as ledger:
        ledger.put("positions", "orders", b"1")
        set_format(path, FORMAT_VERSION + 1)
        with pytest.raises(LedgerFormatMismatch):
            ledger.put("positions", "orders", b"2")
        with pytest.raises(LedgerFormatMismatch):
            ledger.get("positions", "orders")


@files
def test_a_migration_rewrites_every_version(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Migrating applies the steps to all records, keeps the old file, and says what it did."""
    path = filled(tmp_path / name)
    before = everything(path)
    set_format(path, FORMAT_VERSION - 2)
    monkeypatch.setitem(STEPS, FORMAT_VERSION - 2, shouting)
    monkeypatch.setitem(STEPS, FORMAT_VERSION - 1, shouting)
    copy = tmp_path / f"ledger.format-{FORMAT_VERSION - 2}{path.suffix}"
    assert migrate(path) == Migration(FORMAT_VERSION - 2, FORMAT_VERSION, copy)
    after = everything(path)
    assert after == [r and replace(r, value=r.value and r.value + b"!!") for r in before]
    set_format(copy, FORMAT_VERSION)
    assert everything(copy) == before
    assert migrate(path) == Migration(FORMAT_VERSION, FORMAT_VERSION, None)


def shouting(records: Iterable[Record]) -> Iterable[Record]:
    """A step that changes every value."""
    return (replace(r, value=None if r.value is None else r.value + b"!") for r in records)


@files
def test_a_failing_migration_changes_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that fails leaves the ledger as it was, and free for the next attempt."""
    path = filled(tmp_path / name)
    before = everything(path)
    set_format(path, FORMAT_VERSION - 1)

    def failing(records: Iterable[Record]) -> Iterable[Record]:
        raise ZeroDivisionError

    monkeypatch.setitem(STEPS, FORMAT_VERSION - 1, failing)
    with pytest.raises(ZeroDivisionError):
        migrate(path)
    monkeypatch.setitem(STEPS, FORMAT_VERSION - 1, list)
    assert migrate(path).from_format == FORMAT_VERSION - 1
    assert everything(path) == before


@files
def test_a_migration_that_cannot_be_done_is_refused(tmp_path: Path, name: str) -> None:
    """Migrating needs a file, a format that is not newer, and a step from each older one."""
    path = tmp_path / name
    with pytest.raises(LedgerError, match="no ledger file"):
        migrate(path)
    assert not path.exists()
    filled(path)
    set_format(path, FORMAT_VERSION + 1)
    with pytest.raises(LedgerFormatMismatch, match=f"format {FORMAT_VERSION + 1}"):
        migrate(path)
    set_format(path, FORMAT_VERSION - 1)
    with pytest.raises(LedgerFormatMismatch, match="no step"):
        migrate(path)
