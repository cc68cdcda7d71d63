"""A PostgreSQL server that can be stopped and started again."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from postgres.server import Server

_DEADLINE_S = 30


@contextmanager
def outage(server: Server) -> Iterator[None]:
    """Stop a server, as an administrator would, and start it again at the end."""
    data = server.log.parent / "data"
    # The server wrote down its own command line.
    command = shlex.split((data / "postmaster.opts").read_text())
    _stop(data / "postmaster.pid")
    try:
        yield
    finally:
        owner = pwd.getpwuid(data.stat().st_uid).pw_name if os.getuid() == 0 else None
        with server.log.open("ab") as output:
            process = subprocess.Popen(
                command, user=owner, cwd=data.parent, stdout=output, stderr=output
            )
        _wait_until_ready(server, process)


@contextmanager
def stopped_at_the_end(server: Server) -> Iterator[Server]:
    """Stop whatever serves these files at the end, started by us or by somebody else."""
    try:
        yield server
    finally:
        _stop(server.log.parent / "data" / "postmaster.pid")


def _stop(pid_file: Path) -> None:
    # "Fast": open connections are ended, not waited for.
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGINT)
    deadline = time.monotonic() + _DEADLINE_S
    while pid_file.exists():
        assert time.monotonic() < deadline, "the server does not stop"
        time.sleep(0.02)


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            server.connect().close()
        except psycopg.OperationalError:
            assert process.poll() is None, server.log.read_text()
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.02)
        else:
            return
