"""A database for every test, and commands that copy from it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from cli.harness import Commands, Shop, copied, multiset

from .server import JDBC_JAR, PASSWORD, USER, Server, find_programs, running_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests; without one they are skipped here, and fail in CI."""
    programs = find_programs()
    if programs is None or not JDBC_JAR.exists():
        reason = f"needs PostgreSQL in /usr/lib/postgresql and {JDBC_JAR}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with running_server(programs) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Database:
    """A database, the project that copies it, and the commands that do."""

    server: Server
    name: str
    connection: psycopg.Connection[tuple[object, ...]]
    shop: Shop
    run: Commands

    def execute(self, statement: str, *values: object) -> None:
        """Execute and commit one statement."""
        self.connection.execute(statement.encode(), values or None)

    def rows(self, query: str) -> Counter[tuple[Any, ...]]:
        """What the database answers, as a multiset."""
        return multiset(self.connection.execute(query.encode()).fetchall())

    def copied(self, table: str) -> Counter[tuple[Any, ...]]:
        """What was copied of a table."""
        return copied(self.shop.root / "lake" / table)

    def source(self, options: str = "", *, namespace: str = "") -> str:
        """The TOML of a source; `options` are put after those every test needs."""
        url = self.server.url(self.name)
        within = f'namespace = "{namespace}", ' if namespace else ""
        login = 'user = "${SHOP_USER}", password = "${SHOP_PASSWORD}"'
        driver = 'driver = "org.postgresql.Driver"'
        return (
            f'{{ format = "jdbc", {within}'
            f'options = {{ url = "{url}", {driver}, {login}{", " if options else ""}{options} }} }}'
        )

    def statements(self, since: int = 0) -> list[str]:
        """The queries for rows, not only for columns, from a place in the server's log on."""
        log = self.server.log.read_text()[since:]
        return [line for line in log.splitlines() if "FROM" in line and "WHERE 1=0" not in line]

    def log_size(self) -> int:
        """A place in the server's log."""
        return len(self.server.log.read_text())


@pytest.fixture
def database(
    request: pytest.FixtureRequest,
    server: Server,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Database]:
    """An empty database of the test's own."""
    monkeypatch.setenv("SHOP_USER", USER)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    name = f"shop_{abs(hash(request.node.nodeid))}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    with server.connect(name) as connection:
        yield Database(server, name, connection, Shop(tmp_path), Commands(tmp_path))
