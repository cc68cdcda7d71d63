"""A PostgreSQL server of our own, on a free port of the loopback interface."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

USER = "keeper"
PASSWORD = "tOp-5ecret-0f-the-sh0p"
JDBC_JAR = Path("/usr/share/java/postgresql.jar")


def find_programs() -> Path | None:
    """The directory of the newest PostgreSQL installed here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[-3])
    return found[-1].parent if found else None


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    log: Path

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """Open a connection in which every statement commits by itself."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            dbname=database,
            autocommit=True,
            options="-c TimeZone=UTC",
        )

    def url(self, database: str) -> str:
        """Where Spark finds a database."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}"


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    """Make a cluster in a temporary directory and serve it; nothing of it survives."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    # The server refuses to run as root.
    owner = "postgres" if os.getuid() == 0 else None
    if owner:
        entry = pwd.getpwnam(owner)
        os.chown(home, entry.pw_uid, entry.pw_gid)
    data, secret, log = home / "data", home / "password", home / "log"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    port = free_port()
    try:
        initdb = [str(programs / "initdb"), "--pgdata", str(data), "--username", USER]
        initdb += ["--pwfile", str(secret), "--auth=scram-sha-256", "--encoding=UTF8"]
        subprocess.run(
            [*initdb, "--locale=C.UTF-8", "--no-sync"],
            user=owner,
            cwd=home,
            capture_output=True,
            check=True,
        )
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "log_statement": "all",
            "max_connections": "50",
            # Not UTC: what a server thinks of the time must not matter.
            "TimeZone": "Asia/Kolkata",
        }
        options = [word for k, v in settings.items() for word in ("-c", f"{k}={v}")]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [programs / "postgres", "-D", data, "-p", str(port), *options],
                user=owner,
                cwd=home,
                stdout=output,
                stderr=output,
            )
        try:
            server = Server(port, log)
            _wait_until_ready(server, process)
            yield server
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(home)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            server.connect().close()
        except psycopg.OperationalError:
            assert process.poll() is None, server.log.read_text()
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.05)
        else:
            return
