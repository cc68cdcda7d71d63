"""The conformance suite of sinks: what every destination must do with batches and tokens.

    class TestMySink(SinkConformance):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.place = tmp_path

        def open(self, spark):
            return MySink(config_for(self.place), pipeline=PIPELINE, spark=spark)

        def read(self):
            return [(row["id"], row["name"]) for row in ...]  # without MySink

It needs a fixture `spark`, a session of Spark. A sink that takes a batch at least once is held to
`AtLeastOnceConformance` only. The attributes of both say what a sink may do otherwise than others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pytest
from pyspark.sql import SparkSession  # noqa: TID251 - only Spark can make a batch

from holdfast.errors import SinkRefused
from holdfast.model import Guarantee, Token
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink

PIPELINE = "shop"
"""The pipeline that the suite delivers for."""

Row = tuple[int, str | None]
"""An `id`, unique within a batch, and a `name`."""

FIRST: list[Row] = [(1, "tea"), (2, None), (3, 'Jürgen\'s ☕ \\ "x"\n{y}')]
SECOND: list[Row] = [(4, "milk"), (5, "")]


def token(epoch: int, generation: int = 1, batch: str = "") -> Token:
    """A token of the suite's pipeline; without a batch it is that of a roll-back."""
    return Token(PIPELINE, generation, epoch, batch)


class AtLeastOnceConformance:
    """What every sink must do, however little it promises."""

    guarantee: ClassVar[Guarantee] = "at_least_once"
    keyed: ClassVar[bool] = False
    """Rows with the same `id` replace each other."""
    takes_rows_back: ClassVar[bool] = False
    """A roll-back removes the rows of later epochs."""
    secrets: ClassVar[Sequence[str]] = ()
    """Texts of its configuration that must not be shown."""

    @abstractmethod
    def open(self, spark: SparkSession) -> Sink:
        """Return a new handle on the one destination of this test."""

    @abstractmethod
    def read(self) -> list[Row]:
        """Return every row of the destination; it must not use the sink."""

    @pytest.fixture
    def sink(self, spark: SparkSession) -> Iterator[Sink]:
        """One handle for one test."""
        with self._opened(spark) as sink:
            yield sink

    def test_rows_arrive(self, spark: SparkSession, sink: Sink) -> None:
        """What is delivered is there, nulls and odd characters included."""
        receipt = self._deliver(spark, sink, 0, FIRST)
        assert not receipt.repeated
        assert receipt.rows in (len(FIRST), None)
        assert self._found() == sorted(FIRST)

    def test_batches_add_up(self, spark: SparkSession, sink: Sink) -> None:
        """The next batch leaves the rows of the one before."""
        self._deliver(spark, sink, 0, FIRST)
        self._deliver(spark, sink, 1, SECOND)
        assert self._found() == sorted(FIRST + SECOND)

    def test_many_rows_arrive(self, spark: SparkSession, sink: Sink) -> None:
        """Thousands of rows of several partitions, some of them empty, all arrive once."""
        frame = spark.range(2500).selectExpr("id", "concat('n', id) name").repartition(3, "name")
        frame = frame.union(frame.where("id < 0"))
        sink.deliver(Delivery(token(0), frame, frame.schema))
        assert self._found() == sorted((n, f"n{n}") for n in range(2500))

    def test_epochs_are_new_after_a_roll_back(self, spark: SparkSession, sink: Sink) -> None:
        """After a roll-back the epochs behind it are taken once more, under the new generation."""
        for epoch, rows in enumerate((FIRST, SECOND, SECOND)):
            self._deliver(spark, sink, epoch, rows)
        assert sink.roll_back(token(0, generation=2)).endswith(".")
        if self.takes_rows_back:
            assert self._found() == sorted(FIRST)
        assert not self._deliver(spark, sink, 1, SECOND, generation=2).repeated
        left_behind = [] if self.takes_rows_back or self.keyed else SECOND + SECOND
        assert self._found() == sorted(FIRST + left_behind + SECOND)

    def test_a_roll_back_comes_again(self, spark: SparkSession, sink: Sink) -> None:
        """A roll-back that is done twice, or of a sink that took nothing, changes nothing more."""
        with self._opened(spark) as fresh:
            fresh.roll_back(token(3, generation=2))
        self._deliver(spark, sink, 4, FIRST, generation=2)
        for _ in range(2):
            sink.roll_back(token(4, generation=3))
            assert self._found() == sorted(FIRST)
        self._deliver(spark, sink, 5, SECOND, generation=3)
        assert self._found() == sorted(FIRST + SECOND)

    def test_a_batch_may_be_empty(self, spark: SparkSession, sink: Sink) -> None:
        """A batch without rows is taken like any other, token included."""
        receipt = self._deliver(spark, sink, 0, [])
        assert receipt.rows in (0, None)
        assert self._found() == []
        self._deliver(spark, sink, 1, FIRST)
        assert self._found() == sorted(FIRST)

    def test_a_check_writes_nothing(self, spark: SparkSession, sink: Sink) -> None:
        """A sink that can be used says so, and has taken nothing by that."""
        sink.check()
        assert self._found() == []
        assert not self._deliver(spark, sink, 0, FIRST).repeated

    def test_it_closes_twice(self, spark: SparkSession, sink: Sink) -> None:
        """Closing a sink a second time, or one that was never used, is harmless."""
        sink.close()
        sink.close()
        with self._opened(spark) as used:
            self._deliver(spark, used, 0, FIRST)
            used.close()
            used.close()
        assert self._found() == sorted(FIRST)

    def test_it_describes_itself(self, sink: Sink) -> None:
        """A sink says what it is, what it promises and what it takes back, without secrets."""
        assert sink.guarantee == self.guarantee
        assert sink.takes_back.endswith(".")
        assert sink.description
        for secret in self.secrets:
            assert secret not in sink.description + sink.takes_back + sink.name + repr(sink)

    @contextmanager
    def _opened(self, spark: SparkSession) -> Iterator[Sink]:
        sink = self.open(spark)
        try:
            yield sink
        finally:
            sink.close()

    def _deliver(
        self,
        spark: SparkSession,
        sink: Sink,
        epoch: int,
        rows: Sequence[Row],
        *,
        generation: int = 1,
        batch: str = "",
    ) -> Receipt:
        frame = spark.createDataFrame(list(rows), "id long, name string").coalesce(1)
        named = token(epoch, generation, batch or f"{generation}-{epoch}-once")
        return sink.deliver(Delivery(named, frame, frame.schema))

    def _found(self) -> list[Row]:
        return sorted(self.read(), key=lambda row: (row[0], row[1] or ""))


class SinkConformance(AtLeastOnceConformance):
    """What a sink must do that takes every batch exactly once."""

    guarantee = "exactly_once"
    says_repeated: ClassVar[bool] = True
    """It knows, and says, that it did nothing for a token that came again. A sink that does not
    leaves it to the server, and knows its last token only as long as it is open."""

    def test_a_batch_comes_again(self, spark: SparkSession, sink: Sink) -> None:
        """A token that comes again changes nothing, in the same process or after a crash."""
        self._deliver(spark, sink, 0, FIRST)
        self._deliver(spark, sink, 1, SECOND)
        receipt = self._deliver(spark, sink, 1, SECOND)
        assert receipt.repeated == self.says_repeated
        with self._opened(spark) as restarted:
            receipt = self._deliver(spark, restarted, 1, SECOND)
            assert receipt.repeated == self.says_repeated
            assert self._found() == sorted(FIRST + SECOND)
            third: list[Row] = [(6, "bread")]
            assert not self._deliver(spark, restarted, 2, third).repeated
        assert self._found() == sorted(FIRST + SECOND + third)

    def test_an_older_batch_is_refused(self, spark: SparkSession, sink: Sink) -> None:
        """A process that was overtaken cannot write: neither an old epoch nor an old generation."""
        self._deliver(spark, sink, 5, FIRST, generation=2)
        for epoch, generation in ((4, 2), (6, 1)):
            with self._opened(spark) as overtaken, pytest.raises(SinkRefused):
                self._deliver(spark, overtaken, epoch, SECOND, generation=generation)
        assert self._found() == sorted(FIRST)

    def test_other_rows_of_the_same_epoch_are_refused(
        self, spark: SparkSession, sink: Sink
    ) -> None:
        """An older copy of a ledger counts the same epochs again; its rows are not a replay."""
        self._deliver(spark, sink, 1, FIRST, generation=2, batch="first")
        with pytest.raises(
            SinkRefused, match="other rows under epoch 1 of generation 2"
        ) as refused:
            self._deliver(spark, sink, 1, SECOND, generation=2, batch="second")
        assert f"holdfast checkpoint repair {PIPELINE}" in refused.value.hint
        if self.says_repeated:
            with self._opened(spark) as restored, pytest.raises(SinkRefused, match="other rows"):
                self._deliver(spark, restored, 1, SECOND, generation=2, batch="second")
        assert self._found() == sorted(FIRST)
        with self._opened(spark) as restarted:
            for same in (sink, restarted):
                receipt = self._deliver(spark, same, 1, FIRST, generation=2, batch="first")
                assert receipt.repeated == self.says_repeated
            assert self._found() == sorted(FIRST)
            self._deliver(spark, restarted, 2, SECOND, generation=2)
        assert self._found() == sorted(FIRST + SECOND)

    def test_a_roll_back_fences(self, spark: SparkSession, sink: Sink) -> None:
        """After a roll-back the old generation is refused, and the new one's own token repeats."""
        self._deliver(spark, sink, 0, FIRST)
        sink.roll_back(token(0, generation=2))
        with self._opened(spark) as overtaken, pytest.raises(SinkRefused):
            self._deliver(spark, overtaken, 1, SECOND)
        assert self._found() == sorted(FIRST)

    def test_an_empty_batch_comes_again(self, spark: SparkSession, sink: Sink) -> None:
        """The token of a batch without rows is remembered like any other."""
        self._deliver(spark, sink, 3, [])
        assert self._deliver(spark, sink, 3, []).repeated == self.says_repeated
        assert self._found() == []
