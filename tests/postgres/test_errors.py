"""What users are told when a database does not answer, and what nobody is ever told."""

from __future__ import annotations

import pytest

from cli.harness import at
from cli.test_errors import assert_told

from .conftest import Database
from .server import PASSWORD, USER, free_port

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def orders(database: Database) -> Database:
    """A table of one row, configured."""
    database.execute("CREATE TABLE orders (id bigint, updated_at timestamptz)")
    database.execute("INSERT INTO orders VALUES (1, %s)", at(1))
    database.shop.configure(source=database.source())
    return database


def assert_nothing_lost(database: Database) -> None:
    """Once the trouble is over, a run makes the copy equal to its source."""
    database.shop.configure(source=database.source())
    assert database.run("run").code == 0
    assert database.copied("orders") == database.rows("SELECT * FROM orders")


def test_a_wrong_password(orders: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused login names the user and the keys to look at."""
    with monkeypatch.context() as patch:
        patch.setenv("SHOP_PASSWORD", "wr0ng-gue55")
        refused = orders.run("run")

    assert_told(refused, "the database refused the login", USER, "source.options.user")
    assert "wr0ng-gue55" not in refused.said
    assert_nothing_lost(orders)


def test_a_driver_that_is_not_named(orders: Database) -> None:
    """A jar alone is not enough for Spark; what is missing is said."""
    source = orders.source().replace('driver = "org.postgresql.Driver", ', "")
    orders.shop.configure(source=source)

    assert_told(orders.run("run"), "no JDBC driver for this database", "source.options.driver")
    assert_nothing_lost(orders)


def test_a_missing_table(orders: Database) -> None:
    """A table the database does not have is named."""
    orders.shop.configure(source=orders.source(), tables=["invoices"])

    assert_told(orders.run("run"), "shop.invoices", 'relation "invoices" does not exist')
    assert_nothing_lost(orders)


def test_a_missing_database(orders: Database) -> None:
    """A database the server does not have is named."""
    orders.shop.configure(source=orders.source().replace(orders.name, "nowhere"))

    assert_told(orders.run("run"), 'database "nowhere" does not exist')
    assert_nothing_lost(orders)


def test_a_missing_watermark_column(orders: Database) -> None:
    """The columns of the database's table are suggested."""
    orders.shop.configure(source=orders.source(), watermark='"updated"')

    assert_told(orders.run("run"), "updated is not in the source. Did you mean updated_at?")
    assert_nothing_lost(orders)


def test_nobody_listens(orders: Database) -> None:
    """A refused connection says where to."""
    port = free_port()
    orders.shop.configure(source=orders.source().replace(str(orders.server.port), str(port)))

    refused = orders.run("run")

    assert_told(refused, "the database cannot be reached", f"127.0.0.1:{port}", "options.url")
    assert_nothing_lost(orders)


def test_a_connection_that_breaks(orders: Database) -> None:
    """A server that ends the connection in the middle of a query is no stack trace either."""
    orders.execute(
        "CREATE VIEW broken AS SELECT id, updated_at, pg_terminate_backend(pg_backend_pid()) AS x "
        "FROM orders"
    )
    orders.shop.configure(source=orders.source(), tables=["broken"])

    assert_told(orders.run("run"), "shop.broken")
    assert_nothing_lost(orders)


def test_an_error_of_the_database(orders: Database) -> None:
    """What the database says about a query it could not finish is passed on."""
    orders.execute("CREATE VIEW broken AS SELECT id, updated_at, 1 / (id - 1) AS x FROM orders")
    orders.shop.configure(source=orders.source(), tables=["broken"])

    assert_told(orders.run("run"), "shop.broken", "division by zero")
    assert_nothing_lost(orders)


@pytest.mark.parametrize("place", ["option", "url"])
def test_the_password_is_nowhere(
    orders: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No output, ledger, log or manifest has the password, whichever way a command ends."""
    source = orders.source()
    if place == "url":
        url = orders.server.url(orders.name)
        source = source.replace(url, f"{url}?user={USER}&password=${{SHOP_PASSWORD}}")
        source = source.replace(', user = "${SHOP_USER}", password = "${SHOP_PASSWORD}"', "")
    orders.shop.configure(source=source)
    plan = orders.run("plan", "-o", "json")
    done = [plan, orders.run("apply", plan.json["plan_id"])]
    done += [orders.run(*words.split()) for words in ("run", "status", "state show", "doctor")]
    stale = orders.run("plan", "-o", "json").json["plan_id"]
    orders.shop.configure(source=source, tables=["orders", "missing"])
    done += [orders.run("run"), orders.run("plan")]
    monkeypatch.setenv("SHOP_PASSWORD", "an0ther-0ne")
    done += [orders.run("run"), orders.run("apply", stale), orders.run("doctor")]

    assert [entry.code for entry in done] == [0, 0, 0, 0, 0, 0, 2, 1, 1, 1, 3]
    for entry in done:
        for secret in (PASSWORD, "an0ther-0ne"):
            assert secret not in entry.out + entry.err
    written = [path for path in orders.shop.root.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.db" for path in written)
    for path in written:
        assert PASSWORD.encode() not in path.read_bytes(), path


def test_a_changed_password_is_told_without_saying_it(
    orders: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan made with another password is refused; neither password is shown."""
    plan_id = orders.run("plan", "-o", "json").json["plan_id"]
    monkeypatch.setenv("SHOP_PASSWORD", "an0ther-0ne")

    refused = orders.run("apply", plan_id)

    assert_told(refused, "pipeline.shop.source.options.password: changed (a secret, not shown)")
