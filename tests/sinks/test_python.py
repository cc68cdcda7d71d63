"""Functions of the user's own as sinks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.config.sinks import PythonSink as Config
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model import Token
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.opening import open_sink
from holdfast.spark.sinks.python import PythonSink
from holdfast.testing.sinks import PIPELINE, Row, SinkConformance, token

pytestmark = pytest.mark.spark


class Shelf:
    """What a careful user writes: batches by token, in memory."""

    def __init__(self) -> None:
        self.batches: dict[Token, list[Row]] = {}
        self.last: Token | None = None

    def __call__(self, frame: DataFrame, token: Token) -> int:
        """Take a batch, once, and in order."""
        if not (token.follows(self.last) or token.repeats(self.last)):
            raise SinkRefused(f"{token} is late, or has other rows")
        rows = [(row["id"], row["name"]) for row in frame.collect()]
        self.batches.setdefault(token, rows)
        self.last = token
        return len(rows)

    def roll_back(self, to: Token) -> None:
        """Forget what came after an epoch."""
        self.batches = {t: rows for t, rows in self.batches.items() if t.epoch <= to.epoch}
        self.last = to


class TestFunction(SinkConformance):
    """The conformance suite over a function that keeps its promise."""

    says_repeated = False
    takes_rows_back = True

    @pytest.fixture(autouse=True)
    def _shelf(self) -> None:
        self.shelf = Shelf()

    def open(self, spark: SparkSession) -> PythonSink:
        del spark
        return PythonSink("shelf", self.shelf, idempotent=True)

    def read(self) -> list[Row]:
        return [row for rows in self.shelf.batches.values() for row in rows]


def test_a_function_tells_batches_apart(spark: SparkSession) -> None:
    """A function that remembers its tokens sees other rows that come under one of them."""
    shelf = Shelf()
    frame = spark.createDataFrame([(1, "tea")], "id long, name string")
    for batch, refused in (("0198-a", False), ("0198-a", False), ("0198-b", True)):
        sink = PythonSink("shelf", shelf, idempotent=True)
        delivery = Delivery(token(1, batch=batch), frame, frame.schema)
        if refused:
            with pytest.raises(SinkRefused, match="shop/1/1/0198-b is late, or has other rows"):
                sink.deliver(delivery)
        else:
            sink.deliver(delivery)
    assert list(shelf.batches) == [token(1, batch="0198-a")]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the current directory, which the test writes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    name = f"deliveries_{uuid4().hex}"
    yield name
    sys.modules.pop(name, None)


def write(module: str, text: str) -> None:
    """Write the module."""
    Path(f"{module}.py").write_text(dedent(text))


def open_function(spark: SparkSession, function: str, *, idempotent: bool = False) -> Sink:
    """Open a sink as the configuration names it."""
    config = Config(name="mine", type="python", function=function, idempotent=idempotent)
    return open_sink(config, pipeline=PIPELINE, spark=spark)


def deliver(spark: SparkSession, sink: Sink, epoch: int = 0) -> Receipt:
    """Deliver three rows."""
    frame = spark.range(3)
    return sink.deliver(Delivery(token(epoch), frame, frame.schema))


def test_a_function_next_to_the_configuration(spark: SparkSession, module: str) -> None:
    """A module of the current directory is found, and its function gets rows and token."""
    write(module, "def send(frame, token): open('sent', 'a').write(f'{token} {frame.count()}\\n')")
    sink = open_function(spark, f"{module}:send")
    assert deliver(spark, sink, 4) == Receipt(rows=None)
    assert Path("sent").read_text() == "shop/1/4 3\n"
    assert sink.guarantee == "at_least_once"
    assert sink.description == f"the function {module}:send"
    assert "has no roll_back" in sink.roll_back(token(1, generation=2))
    assert open_function(spark, f"{module}:send", idempotent=True).guarantee == "exactly_once"


def test_a_function_may_take_back(spark: SparkSession, module: str) -> None:
    """A function's attribute roll_back is called with the token of a roll-back."""
    write(
        module,
        """
        def send(frame, token): ...
        def forget(token): open('forgotten', 'w').write(str(token))
        send.roll_back = forget
        """,
    )
    sink = open_function(spark, f"{module}:send")
    assert sink.roll_back(token(2, generation=3)) == sink.takes_back
    assert Path("forgotten").read_text() == "shop/3/2"


def test_what_a_function_raises(spark: SparkSession, module: str) -> None:
    """An exception may pass; it is told with its type, message, and the user's own line."""
    write(
        module,
        """
        import json
        def send(frame, token):
            return parse("{")
        def parse(text):
            return json.loads(text)
        """,
    )
    with pytest.raises(SinkUnavailable, match=r"raised JSONDecodeError: Expecting .*") as raised:
        deliver(spark, open_function(spark, f"{module}:send"))
    assert f"{module}.py:6)" in str(raised.value)


def test_what_a_function_raises_on_purpose(spark: SparkSession) -> None:
    """A refusal stays a refusal; Spark's own failures are told in one line."""

    def refuse(frame: DataFrame, token: Token) -> None:
        raise SinkRefused("not these rows")

    def select(frame: DataFrame, token: Token) -> None:
        frame.select("nothing").collect()

    with pytest.raises(SinkRefused, match=r"^not these rows$"):
        deliver(spark, PythonSink("mine", refuse))
    with pytest.raises(SinkUnavailable, match=r"raised AnalysisException: .*nothing") as raised:
        deliver(spark, PythonSink("mine", select))
    assert f"{Path(__file__).name}:" in raised.value.message
    assert len(raised.value.message.splitlines()) == 1


def test_functions_that_are_not_there(spark: SparkSession, module: str) -> None:
    """A name that leads nowhere is refused when the sink is opened, with where it was sought."""
    write(module, "def send(frame, token): ...\nlimit = 3\n")
    with pytest.raises(SinkRefused, match="there is no module nowhere for nowhere:send") as raised:
        open_function(spark, "nowhere:send")
    assert str(Path.cwd()) in raised.value.hint
    with pytest.raises(SinkRefused, match="has no sent") as raised:
        open_function(spark, f"{module}:sent")
    assert raised.value.hint == "Did you mean send?"
    with pytest.raises(SinkRefused, match="is a int, not a function"):
        open_function(spark, f"{module}:limit")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_thing", "needs the module no_such_thing, which is not installed"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("def send(:", "cannot be imported: SyntaxError"),
    ],
)
def test_modules_that_cannot_be_imported(
    spark: SparkSession, module: str, text: str, message: str
) -> None:
    """A module that fails while it is imported says why, and where."""
    write(module, text)
    with pytest.raises(SinkRefused, match=message) as raised:
        open_function(spark, f"{module}:send")
    assert f"{module}.py" in str(raised.value)
