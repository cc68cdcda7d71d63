"""An HTTP endpoint that takes JSON, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.config.sinks import HttpSink as Config
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.spark.sinks.contract import Delivery, Receipt
from holdfast.spark.sinks.http import HttpSink
from holdfast.testing.sinks import (
    PIPELINE,
    AtLeastOnceConformance,
    Row,
    SinkConformance,
    token,
)

from .http_server import HttpServer, running_http

pytestmark = pytest.mark.spark

SECRET = "tOp-5ecret-0f-the-h00k"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A server for one test."""
    with running_http() as running:
        yield running


def sink_for(server: HttpServer, spark: SparkSession, **settings: Any) -> HttpSink:
    """A sink that posts to the server."""
    config = {"name": "hook", "type": "http", "url": server.url, **settings}
    return HttpSink(Config.model_validate(config), pipeline=PIPELINE, spark=spark)


def deliver(sink: HttpSink, frame: DataFrame, epoch: int = 0) -> Receipt:
    """Deliver a batch."""
    return sink.deliver(Delivery(token(epoch), frame, frame.schema))


class _Http(AtLeastOnceConformance):
    idempotent = False
    secrets = (SECRET,)

    @pytest.fixture(autouse=True)
    def _server(self, server: HttpServer) -> None:
        self.server = server
        server.honours_keys = self.idempotent

    def open(self, spark: SparkSession) -> HttpSink:
        url = self.server.url.replace("//", f"//me:{SECRET}@") + f"?key={SECRET}"
        headers = {"X-Key": SECRET}
        return sink_for(self.server, spark, url=url, headers=headers, idempotent=self.idempotent)

    def read(self) -> list[Row]:
        return [(row["id"], row["name"]) for row in self.server.rows]


class TestPlain(_Http):
    """The conformance suite over a server that promises nothing."""


class TestIdempotent(_Http, SinkConformance):
    """The conformance suite over a server that honours keys: it knows no order of tokens."""

    idempotent = True
    says_repeated = False

    def test_an_older_batch_is_refused(self, spark: SparkSession, sink: HttpSink) -> None:
        """The sink itself refuses an older batch; another process is for the server to refuse."""
        frame = spark.sql("select 1 id")
        deliver(sink, frame, epoch=5)
        with pytest.raises(SinkRefused, match="the sink has taken epoch 5 of generation 1"):
            deliver(sink, frame, epoch=4)

    def test_a_roll_back_fences(self, spark: SparkSession, sink: HttpSink) -> None:
        """After a roll-back the sink itself refuses the old generation."""
        sink.roll_back(token(0, generation=2))
        with pytest.raises(SinkRefused):
            deliver(sink, spark.sql("select 1 id"), epoch=1)


def test_a_request(spark: SparkSession, server: HttpServer) -> None:
    """Rows go in order, in requests of batch_rows, with keys, token and headers, in one go."""
    sink = sink_for(
        server,
        spark,
        batch_rows=2,
        headers={"X-Team": "shop", "user-agent": "me"},
        url=f"{server.url}?a=1",
    )
    assert deliver(sink, spark.range(0, 5, 1, 2), epoch=7).rows == 5
    assert [request.rows for request in server.requests] == [
        [{"id": 0}, {"id": 1}],
        [{"id": 2}, {"id": 3}],
        [{"id": 4}],
    ]
    for number, request in enumerate(server.requests):
        assert request.path == "/events?a=1"
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["X-Team"] == "shop"
        assert request.headers["user-agent"] == "me"
        assert "User-Agent" not in request.headers
        assert request.headers["Idempotency-Key"] == f"shop/1/7/hook/{number}"
        assert request.headers["Holdfast-Token"] == "shop/1/7"
    assert len({request.connection for request in server.requests}) == 1


def test_other_rows_of_the_same_epoch_have_other_keys(
    spark: SparkSession, server: HttpServer
) -> None:
    """A server that honours keys does not take them for a replay: no row is lost."""
    for batch, name in (("0198-a", "tea"), ("0198-b", "milk"), ("0198-a", "tea")):
        frame = spark.sql(f"select '{name}' name")
        sink_for(server, spark).deliver(Delivery(token(7, batch=batch), frame, frame.schema))
    assert server.rows == [{"name": "tea"}, {"name": "milk"}]
    first, second, _ = server.requests
    assert first.headers["Idempotency-Key"] == "shop/1/7/0198-a/hook/0"
    assert second.headers["Holdfast-Token"] == "shop/1/7/0198-b"


def test_the_login_in_the_url_is_sent_as_a_header(spark: SparkSession, server: HttpServer) -> None:
    """User and password of the url become basic authentication."""
    url = server.url.replace("//", "//me:p%40ss@")
    deliver(sink_for(server, spark, url=url), spark.range(1))
    assert server.requests[0].headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert server.requests[0].path == "/events"


def test_the_same_requests_however_rows_are_spread(spark: SparkSession, server: HttpServer) -> None:
    """With `idempotent` a batch makes the same requests whatever partitions Spark made of it."""
    sink = sink_for(server, spark, batch_rows=30, idempotent=True)
    rows = spark.range(100).selectExpr("id % 40 n")
    deliver(sink, rows.repartition(3))
    first = [(r.headers["Idempotency-Key"], r.rows) for r in server.requests]
    server.requests.clear()
    deliver(sink, rows.repartition(2, "n"))
    assert [(r.headers["Idempotency-Key"], r.rows) for r in server.requests] == first
    assert len(server.rows) == 100


def test_a_url_may_have_any_characters(spark: SparkSession, server: HttpServer) -> None:
    """What a url may not hold is written as HTTP wants it, and what is written so stays."""
    deliver(sink_for(server, spark, url=f"{server.url}/é x%20y?q=ü"), spark.range(1))
    assert server.requests[0].path == "/events/%C3%A9%20x%20y?q=%C3%BC"


def test_rows_that_cannot_be_computed(spark: SparkSession, server: HttpServer) -> None:
    """What fails in Spark on the way is told in Spark's words, without a stack trace."""
    frame = spark.range(3).selectExpr("if(id = 2, raise_error('boom'), id) n")
    with pytest.raises(SinkUnavailable, match=r"the rows could not be computed: .*boom") as raised:
        deliver(sink_for(server, spark), frame)
    assert len(str(raised.value).splitlines()) == 2


def test_an_empty_batch_sends_nothing(spark: SparkSession, server: HttpServer) -> None:
    """Without rows there is no request."""
    assert deliver(sink_for(server, spark), spark.range(0)).rows == 0
    assert server.requests == []


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_answers_that_are_tried_again(spark: SparkSession, server: HttpServer, status: int) -> None:
    """What may pass is worth trying again; the time the server asks for is told."""
    server.answers = [(status, {"Retry-After": "17"}, "busy")]
    sink = sink_for(server, spark)
    with pytest.raises(SinkUnavailable, match=f"answered {status} .*: busy") as raised:
        deliver(sink, spark.range(1))
    assert "Retry-After: 17" in raised.value.hint
    assert deliver(sink, spark.range(1)).rows == 1


@pytest.mark.parametrize(
    ("status", "hint"),
    [(301, "points to"), (400, "will not take"), (401, "login"), (413, "batch_rows"), (422, "")],
)
def test_answers_that_are_final(
    spark: SparkSession, server: HttpServer, status: int, hint: str
) -> None:
    """What stays is refused, with the status and the beginning of what the server said."""
    said = "no such thing " + "x" * 500
    server.answers = [(status, {}, said)]
    with pytest.raises(SinkRefused, match=rf"answered {status} .*no such thing x+\n") as raised:
        deliver(sink_for(server, spark), spark.range(1))
    assert hint in raised.value.hint
    assert len(raised.value.message) < 320


def test_no_secret_is_repeated(spark: SparkSession, server: HttpServer) -> None:
    """A server that repeats our credentials does not bring them into a message."""
    server.answers = [(400, {}, f"bad token {SECRET}, bWU6{SECRET}")]
    headers = {"Authorization": f"Bearer {SECRET}"}
    url = server.url.replace("//", f"//me:{SECRET}@") + f"?key={SECRET}"
    with pytest.raises(SinkRefused) as raised:
        deliver(sink_for(server, spark, url=url, headers=headers), spark.range(1))
    assert SECRET not in str(raised.value)


def test_a_connection_that_was_closed_meanwhile(spark: SparkSession, server: HttpServer) -> None:
    """A server that closes connections as it likes gets the rows over a new one."""
    server.hangs_up = True
    sink = sink_for(server, spark, batch_rows=1)
    assert deliver(sink, spark.range(3)).rows == 3
    assert sorted(row["id"] for row in server.rows) == [0, 1, 2]


def test_a_server_that_is_away(spark: SparkSession, server: HttpServer) -> None:
    """A port nobody listens on, a name nobody knows and a server that is silent may all pass."""
    gone = sink_for(server, spark, url=f"http://me:{SECRET}@127.0.0.1:1/events")
    with pytest.raises(SinkUnavailable, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        gone.check()
    with pytest.raises(SinkUnavailable, match=r"cannot be reached") as raised:
        deliver(gone, spark.range(1))
    assert SECRET not in str(raised.value)
    with pytest.raises(SinkUnavailable, match=r"the name nobody\.invalid is not known"):
        sink_for(server, spark, url="http://nobody.invalid/").check()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(SinkUnavailable, match="no answer in time"):
            deliver(sink_for(server, spark, url=url, timeout="200ms"), spark.range(1))


def test_what_is_no_server(spark: SparkSession, server: HttpServer) -> None:
    """A port that is none, a header that cannot be sent, TLS where there is none: plain words."""
    with pytest.raises(SinkRefused, match="the port in the sink's url is not a number"):
        sink_for(server, spark, url="http://host:port/")
    with pytest.raises(SinkRefused, match="'X-Key' cannot be sent as a header") as raised:
        sink_for(server, spark, headers={"X-Key": f"{SECRET}\r\nX-Other: 1"})
    assert SECRET not in str(raised.value)
    with pytest.raises(SinkUnavailable, match="cannot be reached"):
        sink_for(server, spark, url=server.url.replace("http:", "https:")).check()
