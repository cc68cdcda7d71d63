"""A real PostgreSQL, stopped and started while a stream runs: the policy decides, none is lost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from postgres.server import PASSWORD, USER, Server, find_programs, running_server
from sinks.postgres_server import outage, stopped_at_the_end

from .background import Background
from .world import FILES, Rows, World, sink

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

QUICK = {"attempts": 1, "first_delay": "100ms", "max_delay": "300ms"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that nobody else uses: it is going to be stopped."""
    programs = find_programs()
    if programs is None:
        reason = "needs PostgreSQL in /usr/lib/postgresql"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with running_server(programs) as running, stopped_at_the_end(running):
        yield running


@pytest.fixture
def database(server: Server) -> str:
    """An empty database, by its address."""
    name = f"pay_{os.urandom(4).hex()}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/{name}"


def stored(server: Server, database: str) -> Rows:
    """What the table has."""
    with server.connect(database.rpartition("/")[2]) as connection:
        return Counter(connection.execute("SELECT id, merchant, paise FROM events").fetchall())


def order(server: Server, database: str) -> list[int]:
    """The epochs of the rows in the order they were stored in."""
    with server.connect(database.rpartition("/")[2]) as connection:
        found = connection.execute("SELECT epoch FROM events ORDER BY xmin::text::bigint, ctid")
        return [int(str(epoch)) for (epoch,) in found.fetchall()]


def test_a_required_database_is_waited_for(world: World, server: Server, database: str) -> None:
    """Nothing is committed while it is down; afterwards every event is in both, once."""
    table = sink("db", "postgres", url=database, table="events", retry=QUICK)
    world.configure(FILES, table)
    world.add()
    running = Background(world)
    running.until_epochs(1)
    with outage(server):
        world.add()
        running.until(lambda: bool(running.watcher.waits))
        assert len(running.watcher.epochs) == 1
        assert PASSWORD not in str(running.watcher.waits[0]["db"])
    running.until_epochs(2)
    world.add()
    running.until_epochs(3)
    running.stop()

    assert stored(server, database) == world.expected()
    assert world.lake() == world.expected()


def test_an_optional_database_gets_its_batches_in_order(
    world: World, server: Server, database: str
) -> None:
    """The files go on while it is down; its spool drains oldest first once it is back."""
    table = sink(
        "db",
        "postgres",
        url=database,
        table="events",
        epoch_column="epoch",
        retry=QUICK,
        required=False,
    )
    world.configure(FILES, table)
    world.add()
    running = Background(world)
    running.until_epochs(1)
    with outage(server):
        for number in range(2, 5):
            world.add()
            running.until_epochs(number)
        assert world.lake() == world.expected()
        with world.project() as project:
            behind = project.checkpoints("pay").sink_positions()["db"]
        assert behind.waiting is not None
        assert (behind.waiting.first.epoch, behind.waiting.last.epoch) == (1, 3)
    running.until(lambda: stored(server, database) == world.expected())
    world.add()
    running.until_epochs(5)
    running.stop()

    assert stored(server, database) == world.expected()
    assert order(server, database) == sorted(order(server, database))
