"""A project to run commands in, the commands themselves, and a back door to what they wrote.

Commands that need Spark run inside this process, through the same `main` that the installed
script calls, so that one Spark session serves all of them. What a copy holds is read with
pyarrow, so that Holdfast and Spark are not judged by themselves.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
START = datetime(2026, 1, 1, tzinfo=UTC)
METADATA = ("_loaded_by", "_loaded_at", "_batch_id")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("updated_at", pa.timestamp("us", tz="UTC")), ("note", pa.string())]
)

Row = tuple[int, datetime, str]


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as the one document it must be."""
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """Everything a user saw, with the line breaks of the terminal taken out."""
        return " ".join((self.out + "\n" + self.err).split())


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs `holdfast` in this process, in one directory."""

    directory: Path

    def __call__(self, *words: str, answer: str = "") -> Done:
        """Run one command; `answer` is what the user types."""
        from holdfast.cli import main

        out, err = io.StringIO(), io.StringIO()
        before = sys.argv, sys.stdin, Path.cwd()
        sys.argv, sys.stdin = ["holdfast", *words], io.StringIO(answer)
        os.chdir(self.directory)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    main()
                    code: object = 0
                except SystemExit as ended:
                    code = ended.code or 0
        finally:
            sys.argv, sys.stdin = before[:2]
            os.chdir(before[2])
        assert isinstance(code, int), f"exit code {code!r}"
        return Done(code, out.getvalue(), err.getvalue())


def at(seconds: float) -> datetime:
    """A moment so many seconds after the start of the story."""
    return START + timedelta(seconds=seconds)


def rows(first: int, last: int, note: str = "") -> list[Row]:
    """Rows with these ids, one a second."""
    return [(i, at(i), note or f"row {i}") for i in range(first, last + 1)]


def write_rows(path: Path, content: Iterable[Row]) -> None:
    """Write a Parquet file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids, moments, notes = list(zip(*content, strict=True)) or ([], [], [])
    draft = path.with_name(f"_{path.name}.draft")
    parquet.write_table(pa.table([ids, moments, notes], schema=SCHEMA), draft)
    draft.replace(path)


def read_files(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Read Parquet files one by one."""
    found: list[dict[str, Any]] = []
    for path in paths:
        found += parquet.ParquetFile(path).read().to_pylist()
    return found


def visible_files(table: Path) -> list[Path]:
    """The data files a plain `spark.read.parquet` would find: none below a hidden name."""
    found = []
    for path in sorted(table.rglob("*")):
        inside = path.relative_to(table).parts
        if path.is_file() and not any(part[0] in "._" for part in inside):
            found.append(path)
    return found


def copied(table: Path) -> Counter[tuple[Any, ...]]:
    """The rows of a copy as a multiset, without what Holdfast adds."""
    return multiset(
        tuple(_in_utc(value) for name, value in row.items() if name not in METADATA)
        for row in read_files(visible_files(table))
    )


def _in_utc(value: Any) -> Any:
    # Spark stores moments as INT96, which pyarrow reads as UTC without saying so.
    naive = isinstance(value, datetime) and value.tzinfo is None
    return value.replace(tzinfo=UTC) if naive else value


def multiset(content: Iterable[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    """Rows with how often each occurs."""
    return Counter(tuple(row) for row in content)


def latest(content: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """The latest row per id."""
    newest: dict[int, Row] = {}
    for row in content:
        if row[0] not in newest or row[1] >= newest[row[0]][1]:
            newest[row[0]] = row
    return multiset(newest.values())


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
    """Return as soon as `condition` holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Shop:
    """A directory with a configuration, sources and copies."""

    root: Path

    def configure(
        self,
        *,
        tables: Sequence[str] | None = ("orders",),
        pipeline: str = "shop",
        **settings: str,
    ) -> None:
        """Write `holdfast.toml` with one pipeline; `settings` are TOML values by key."""
        self.write_config(self.section(pipeline, tables=tables, **settings))

    def write_config(self, *sections: str) -> None:
        """Write `holdfast.toml`."""
        conf = '{ "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" }'
        start = f'[spark]\nmaster = "local[2]"\nconf = {conf}\n'
        self.config.write_text("\n".join([start, *sections]))

    def section(
        self, pipeline: str, *, tables: Sequence[str] | None = ("orders",), **settings: str
    ) -> str:
        """The TOML of one pipeline."""
        keys = {
            "type": '"replicate"',
            "source": '{ format = "parquet", path = "source" }',
            "target": '{ path = "lake" }',
            "tables": json.dumps(list(tables)) if tables else "",
            "watermark": '"updated_at"',
            **settings,
        }
        lines = [f"{key} = {value}" for key, value in keys.items() if value]
        return "\n".join([f"[pipeline.{pipeline}]", *lines, ""])

    def duplicate(self, root: Path) -> Shop:
        """The same project, ledger and copies included, in another place."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return Shop(root)

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.root / "holdfast.toml"

    @property
    def ledger(self) -> Path:
        """The ledger's file, where it is by default."""
        return self.root / ".holdfast" / "ledger.db"

    def add(self, table: str, name: str, content: Iterable[Row]) -> Path:
        """Add a file to a source table, or replace it."""
        path = self.root / "source" / table / f"{name}.parquet"
        write_rows(path, content)
        return path

    def source(self, table: str = "orders") -> Counter[tuple[Any, ...]]:
        """Every row of a source table."""
        files = sorted((self.root / "source" / table).glob("*.parquet"))
        return multiset(tuple(row.values()) for row in read_files(files))

    def copy(self, table: str = "orders") -> Counter[tuple[Any, ...]]:
        """Every row of a copied table."""
        return copied(self.root / "lake" / table)


class Terminal:
    """A real `holdfast` in a terminal of its own, so many columns wide."""

    def __init__(self, directory: Path, *words: str, columns: int = 80) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            [HOLDFAST, *words],
            cwd=directory,
            env={**environment, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self._reader.start()

    def send(self, number: signal.Signals) -> None:
        """Do what a terminal does on Ctrl-C: signal every process in its foreground."""
        os.killpg(self._process.pid, number)

    @property
    def running(self) -> bool:
        """Whether the command is still going on."""
        return self._process.poll() is None

    def wait(self, *, seconds: float = 90) -> int:
        """Wait for the command to end, and return its exit code."""
        code = self._process.wait(seconds)
        self._reader.join(seconds)
        return code

    @property
    def raw(self) -> str:
        """What was written to the terminal, control sequences included."""
        return self._shown.decode()

    @property
    def lines(self) -> list[str]:
        """What was written, line by line, without colours and without what was drawn over."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r\n", "\n")
        return [line.rpartition("\r")[2].rstrip() for line in plain.split("\n")]

    def _read(self, master: int) -> None:
        # Reading fails when the last process on the other side is gone.
        with suppress(OSError):
            while chunk := os.read(master, 1 << 16):
                self._shown += chunk
        os.close(master)
