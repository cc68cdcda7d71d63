"""A directory of epochs, read back by a plain Spark reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast import failpoints
from holdfast.config.sinks import FilesSink as Config
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model import Token
from holdfast.spark.sinks.files import FilesSink
from holdfast.testing.sinks import PIPELINE as SUITE_PIPELINE
from holdfast.testing.sinks import Row, SinkConformance

from .conftest import PIPELINE, Crashing, Deliveries

pytestmark = pytest.mark.spark

Open = Callable[..., FilesSink]
Read = Callable[..., Counter[tuple[Any, ...]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the sink writes; it is not there yet."""
    return tmp_path / "lake" / "totals"


@pytest.fixture
def sink(spark: SparkSession, path: Path) -> Open:
    """Open the sink, as a new process would."""

    def make(*, name: str = "totals", pipeline: str = PIPELINE, **settings: Any) -> FilesSink:
        return sink_at(path, spark, name=name, pipeline=pipeline, **settings)

    return make


def sink_at(
    path: Path, spark: SparkSession, *, name: str, pipeline: str, **settings: Any
) -> FilesSink:
    """A sink that writes to a directory."""
    config = Config.model_validate({"type": "files", "name": name, "path": str(path), **settings})
    return FilesSink(config, pipeline=pipeline, spark=spark)


@pytest.fixture
def read(spark: SparkSession, path: Path) -> Read:
    """Read what a plain reader sees, as a multiset of rows."""

    def rows(*columns: str, file_format: str = "parquet") -> Counter[tuple[Any, ...]]:
        frame = spark.read.format(file_format).load(str(path))
        return Counter(map(tuple, frame.select(*(columns or ("id", "v"))).collect()))

    return rows


class TestDirectory(SinkConformance):
    """The conformance suite over a directory."""

    takes_rows_back = True

    @pytest.fixture(autouse=True)
    def _directory(self, read: Read, path: Path) -> None:
        self.rows, self.path = read, path

    def open(self, spark: SparkSession) -> FilesSink:
        return sink_at(self.path, spark, name="totals", pipeline=SUITE_PIPELINE)

    def read(self) -> list[Row]:
        if not list(self.path.glob("*/part-*")):
            return []
        return [(i, name) for i, name in self.rows("id", "name").elements()]


def test_a_plain_reader_sees_every_epoch(sink: Open, read: Read, delivery: Deliveries) -> None:
    """Each delivery adds its rows, a batch without rows included, and says how many there were."""
    files = sink()
    assert files.deliver(delivery(1, 1, [(1, "a"), (2, "b")])).rows == 2
    assert files.deliver(delivery(1, 2, [])).rows == 0
    assert files.deliver(delivery(1, 4, [(2, "b")])).rows == 1
    assert read() == Counter({(1, "a"): 1, (2, "b"): 2})
    assert read("id", "holdfast_epoch") == Counter([(1, 1), (2, 1), (2, 4)])
    assert files.guarantee == "exactly_once"


@pytest.mark.parametrize("reopened", [False, True])
def test_a_token_that_comes_again_changes_nothing(
    sink: Open, read: Read, delivery: Deliveries, path: Path, reopened: bool
) -> None:
    """The last batch is answered from what is there, by the same process and by the next one."""
    files = sink()
    files.deliver(delivery(1, 1, [(1, "a")]))
    before = {p: p.stat().st_mtime_ns for p in path.rglob("part-*")}
    again = (sink() if reopened else files).deliver(delivery(1, 1, [(1, "a")]))
    assert (again.rows, again.repeated) == (1, True)
    assert {p: p.stat().st_mtime_ns for p in path.rglob("part-*")} == before
    assert read() == Counter([(1, "a")])


STEPS = ("files.fenced", "files.columns", "files.written", "files.staged", "files.published")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_neither_loses_nor_doubles_a_row(
    sink: Open, read: Read, delivery: Deliveries, crashing_at: Crashing, path: Path, step: str
) -> None:
    """What a crash leaves is whole epochs, and delivering again completes them."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    with crashing_at(step):
        # Another generation and another column: every step is reached.
        sink().deliver(delivery(2, 2, [(2, "b", 5)], "id long, v string, n int"))
    seen = read()
    assert seen in (Counter([(1, "a")]), Counter([(1, "a"), (2, "b")]))
    receipt = sink().deliver(delivery(2, 2, [(2, "b", 5)], "id long, v string, n int"))
    assert receipt.repeated == (step == "files.published")
    assert read("id", "v", "n") == Counter([(1, "a", None), (2, "b", 5)])
    sink().deliver(delivery(2, 3, [(3, "c", 6)], "id long, v string, n int"))
    assert list((path / "_holdfast" / "staging").iterdir()) == []
    assert sum(read().values()) == 3


@pytest.mark.parametrize("step", ["files.fenced", "files.staged"])
def test_a_crash_at_first_contact_leaves_a_directory_that_is_adopted(
    sink: Open, read: Read, delivery: Deliveries, crashing_at: Crashing, step: str
) -> None:
    """The very first batch can be delivered again as well."""
    with crashing_at(step):
        sink().deliver(delivery(1, 1, [(1, "a")]))
    sink().deliver(delivery(1, 1, [(1, "a")]))
    assert read() == Counter([(1, "a")])


@pytest.mark.parametrize("step", [None, "files.fenced", "files.retired", "files.published"])
def test_an_epoch_counts_again_only_after_a_roll_back(
    sink: Open,
    read: Read,
    delivery: Deliveries,
    crashing_at: Crashing,
    path: Path,
    step: str | None,
) -> None:
    """A newer generation alone is an older ledger; once told, readers see one copy, the new one."""
    sink().deliver(delivery(1, 1, [(1, "old")]))
    with pytest.raises(SinkRefused, match="lies before that"):
        sink().deliver(delivery(2, 1, [(1, "new")]))
    if step is not None:
        with crashing_at(step):
            sink().roll_back(Token("payments", 2, 0))
            sink().deliver(delivery(3, 1, [(1, "new")]))
    if step != "files.published":
        sink().roll_back(Token("payments", 2, 0))
    sink().deliver(delivery(3, 1, [(1, "new")]))
    assert read() == Counter([(1, "new")])
    assert list((path / "_holdfast/abandoned/1").glob("holdfast_epoch=1/part-*"))


def test_a_process_that_was_overtaken_is_refused(
    sink: Open, read: Read, delivery: Deliveries
) -> None:
    """A token before the last one is refused, by whichever process it comes."""
    old, new = sink(), sink()
    old.deliver(delivery(1, 1, [(1, "a")]))
    old.deliver(delivery(1, 2, [(2, "b")]))
    with pytest.raises(SinkRefused, match="epoch 1 of generation 1 comes too late"):
        old.deliver(delivery(1, 1, [(1, "a")]))
    new.deliver(delivery(2, 3, [(3, "c")]))
    with pytest.raises(SinkRefused, match="too late"):
        old.deliver(delivery(1, 3, [(3, "zombie")]))
    with pytest.raises(SinkRefused, match="too late"):
        old.roll_back(Token(PIPELINE, 1, 1))
    assert read() == Counter([(1, "a"), (2, "b"), (3, "c")])


def test_a_process_overtaken_during_its_write_does_not_publish(
    sink: Open, read: Read, delivery: Deliveries
) -> None:
    """Whoever is overtaken between its write and its rename notices in time."""
    from holdfast import failpoints

    old, new = sink(), sink()
    old.deliver(delivery(1, 1, [(1, "a")]))

    def overtake(step: str, _name: str) -> None:
        if step == "files.staged":
            failpoints.observe(None)
            new.roll_back(Token(PIPELINE, 2, 1))

    failpoints.observe(overtake)
    try:
        with pytest.raises(SinkRefused, match="too late"):
            old.deliver(delivery(1, 2, [(2, "zombie")]))
    finally:
        failpoints.observe(None)
    assert read() == Counter([(1, "a")])


def test_an_epoch_that_was_published_meanwhile_stays(
    sink: Open, read: Read, delivery: Deliveries, path: Path
) -> None:
    """Two ledgers that drive one directory do not take each other's epochs away."""
    from holdfast import failpoints

    slow, quick = sink(), sink()
    slow.deliver(delivery(1, 1, [(1, "a")]))

    def publish(step: str, _name: str) -> None:
        if step == "files.staged":
            failpoints.observe(None)
            quick.deliver(delivery(1, 2, [(2, "quick")], batch="quick"))

    failpoints.observe(publish)
    try:
        with pytest.raises(SinkRefused, match="other rows under epoch 2 of generation 1"):
            slow.deliver(delivery(1, 2, [(2, "slow")], batch="slow"))
    finally:
        failpoints.observe(None)
    assert sink().deliver(delivery(1, 2, [(2, "quick")], batch="quick")).repeated
    assert read() == Counter([(1, "a"), (2, "quick")])
    assert not (path / "_holdfast/abandoned").exists()


def test_the_same_batch_is_published_once_by_two_at_a_time(
    sink: Open, read: Read, delivery: Deliveries, path: Path
) -> None:
    """Whoever finds its batch published when it has written it leaves it alone."""
    from holdfast import failpoints

    slow, quick = sink(), sink()

    def publish(step: str, _name: str) -> None:
        if step == "files.staged":
            failpoints.observe(None)
            quick.deliver(delivery(1, 1, [(1, "a")], batch="same"))

    slow.deliver(delivery(1, 0, []))
    failpoints.observe(publish)
    try:
        receipt = slow.deliver(delivery(1, 1, [(1, "a")], batch="same"))
    finally:
        failpoints.observe(None)
    assert (receipt.rows, receipt.repeated) == (1, True)
    assert read() == Counter([(1, "a")])
    assert not (path / "_holdfast/abandoned").exists()
    assert not list((path / "_holdfast/staging").iterdir())


@pytest.mark.parametrize("step", [None, "files.fenced", "files.retired", "files.rolled_back"])
def test_a_roll_back_takes_later_epochs_away(
    sink: Open,
    read: Read,
    delivery: Deliveries,
    crashing_at: Crashing,
    path: Path,
    step: str | None,
) -> None:
    """Later epochs are moved out of sight, twice is as once, and epochs go on from there."""
    for epoch in (1, 2, 3, 4):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    to = Token(PIPELINE, 2, 2)
    if step is not None:
        with crashing_at(step):
            sink().roll_back(to)
    said = sink().roll_back(to)
    if step is None:
        assert said.startswith("Moved epochs 3 to 4")
    assert read() == Counter([(1, "a"), (2, "a")])
    assert "nothing to do" in sink().roll_back(to)
    assert sink().deliver(delivery(2, 2, [(2, "a")])).repeated
    files = sink()
    assert not files.deliver(delivery(2, 3, [(3, "b")])).repeated
    assert "nothing to do" in files.roll_back(to)
    assert read() == Counter([(1, "a"), (2, "a"), (3, "b")])
    kept = sorted(p.name for p in (path / "_holdfast/abandoned/1").iterdir())
    assert kept == ["holdfast_epoch=3", "holdfast_epoch=4"]


@pytest.mark.parametrize("step", ["files.fenced", "files.retired"])
def test_a_delivery_finishes_a_roll_back_that_a_crash_ended(
    sink: Open, read: Read, delivery: Deliveries, crashing_at: Crashing, step: str
) -> None:
    """No row of an abandoned epoch is left beside those of the new generation."""
    for epoch in (1, 2, 3, 4):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    with crashing_at(step):
        sink().roll_back(Token(PIPELINE, 2, 1))
    sink().deliver(delivery(2, 2, [(2, "b")]))
    assert read() == Counter([(1, "a"), (2, "b")])


def test_a_roll_back_before_the_first_batch_is_remembered(
    sink: Open, read: Read, delivery: Deliveries
) -> None:
    """Even with nothing to move, older generations are shut out from then on."""
    sink().roll_back(Token(PIPELINE, 3, 0))
    with pytest.raises(SinkRefused, match="too late"):
        sink().deliver(delivery(2, 1, [(1, "zombie")]))
    sink().deliver(delivery(3, 1, [(1, "a")]))
    assert read() == Counter([(1, "a")])


def test_every_column_ever_written_is_seen(sink: Open, read: Read, delivery: Deliveries) -> None:
    """Columns that come, go, widen or change places are read by their name in every epoch."""
    sink().deliver(delivery(1, 1, [(1, "a")], "id int, v string"))
    sink().deliver(delivery(1, 2, [("b", 2**40, 7)], "v string, id long, n int"))
    sink().deliver(delivery(1, 3, [(3,)], "id int"))
    assert read("id", "v", "n") == Counter([(1, "a", None), (2**40, "b", 7), (3, None, None)])


def test_a_type_that_does_not_fit_is_refused(sink: Open, read: Read, delivery: Deliveries) -> None:
    """A column whose type became another one is named, and nothing is written."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    with pytest.raises(SinkRefused, match="column v was string, is double"):
        sink().deliver(delivery(1, 2, [(1, 1.5)], "id long, v double"))
    assert read() == Counter([(1, "a")])


@pytest.mark.parametrize("file_format", ["json", "csv", "orc"])
def test_other_formats(
    sink: Open, delivery: Deliveries, spark: SparkSession, path: Path, file_format: str
) -> None:
    """Any format of Spark's is counted and published alike."""
    assert sink(format=file_format).deliver(delivery(1, 1, [(1, "a"), (2, "b")])).rows == 2
    assert sink(format=file_format).deliver(delivery(1, 2, [])).rows == 0
    again = sink(format=file_format).deliver(delivery(1, 2, []))
    assert (again.rows, again.repeated) == (0, True)
    reader = spark.read.format(file_format).option("header", "true").schema("id long, v string")
    rows = reader.load(str(path)).drop("holdfast_epoch").collect()
    assert Counter(map(tuple, rows)) == Counter([(1, "a"), (2, "b")])


@pytest.mark.parametrize(
    ("file_format", "schema", "changed"),
    [
        ("csv", "id int, v string, n int", "n"),
        ("orc", "id int, v string, n int", "n"),
        ("orc", "id long, v string", "id"),
    ],
)
def test_columns_that_a_plain_reader_would_miss_are_refused(
    sink: Open, delivery: Deliveries, file_format: str, schema: str, changed: str
) -> None:
    """Files with different columns are refused where they would be read wrongly together."""
    sink(format=file_format).deliver(delivery(1, 1, [(1, "a")], "id int, v string"))
    with pytest.raises(SinkRefused, match=rf"new or wider \({changed}\)"):
        sink(format=file_format).deliver(delivery(1, 2, [], schema))


def test_a_directory_of_others_is_refused(sink: Open, delivery: Deliveries, path: Path) -> None:
    """Files that the sink did not write are named, before and after the first batch."""
    path.mkdir(parents=True)
    stranger = path / "export.parquet"
    stranger.write_bytes(b"")
    with pytest.raises(SinkRefused, match=r"holds export\.parquet"):
        sink().check()
    with pytest.raises(SinkRefused, match=r"holds export\.parquet"):
        sink().deliver(delivery(1, 1, [(1, "a")]))
    stranger.unlink()
    sink().deliver(delivery(1, 1, [(1, "a")]))
    stranger.write_bytes(b"")
    with pytest.raises(SinkRefused, match=r"holds export\.parquet"):
        sink().deliver(delivery(1, 2, [(1, "a")]))


def test_another_owner_is_refused(sink: Open, delivery: Deliveries) -> None:
    """A directory has one sink of one pipeline, and one format."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    with pytest.raises(SinkRefused, match="belongs to the sink totals of the pipeline payments"):
        sink(pipeline="refunds").check()
    with pytest.raises(SinkRefused, match="belongs to the sink totals"):
        sink(name="copies").deliver(delivery(1, 1, [(1, "a")]))
    with pytest.raises(SinkRefused, match="holds parquet files"):
        sink(format="json").deliver(delivery(1, 2, [(1, "a")]))


def test_a_lost_or_damaged_record_is_refused(sink: Open, delivery: Deliveries, path: Path) -> None:
    """Without knowing whose the epochs are, none is added."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    record = path / "_holdfast" / "sink.json"
    text = record.read_text()
    record.write_text(text[:20])
    with pytest.raises(SinkRefused, match="damaged"):
        sink().deliver(delivery(1, 2, [(1, "a")]))
    record.write_text(json.dumps({**json.loads(text), "format": 2}))
    with pytest.raises(SinkRefused, match="another version"):
        sink().deliver(delivery(1, 2, [(1, "a")]))
    record.unlink()
    with pytest.raises(SinkRefused, match="missing"):
        sink().deliver(delivery(1, 2, [(1, "a")]))


@pytest.mark.parametrize(
    ("settings", "schema", "said"),
    [
        ({"format": "text"}, "id long", "(?i)text"),
        ({"format": "csv"}, "id array<int>", "(?i)csv"),
        ({}, "holdfast_epoch long", "holdfast_epoch"),
    ],
)
def test_what_can_never_be_written_is_refused(
    sink: Open, delivery: Deliveries, settings: dict[str, str], schema: str, said: str
) -> None:
    """A format, a type or a name that would fail every time is not worth a second try."""
    with pytest.raises(SinkRefused, match=said):
        sink(**settings).deliver(delivery(1, 1, [], schema))


def test_a_path_in_the_way_can_be_tried_again(
    sink: Open, read: Read, delivery: Deliveries, path: Path
) -> None:
    """A file where the directory should be is for an operator to move, while the stream waits."""
    path.parent.mkdir(parents=True)
    path.write_text("in the way")
    files = sink()
    with pytest.raises(SinkUnavailable, match="is a file, not a directory"):
        files.deliver(delivery(1, 1, [(1, "a")]))
    path.unlink()
    files.deliver(delivery(1, 1, [(1, "a")]))
    assert read() == Counter([(1, "a")])


def test_a_failed_write_can_be_tried_again(
    sink: Open, read: Read, delivery: Deliveries, path: Path
) -> None:
    """A disk that refuses is unavailable, not refused, and what was half written goes."""
    files = sink()
    files.deliver(delivery(1, 1, [(1, "a")]))
    staging = path / "_holdfast" / "staging"
    staging.rmdir()
    staging.write_text("in the way")
    with pytest.raises(SinkUnavailable):
        files.deliver(delivery(1, 2, [(2, "b")]))
    staging.unlink()
    files.deliver(delivery(1, 2, [(2, "b")]))
    assert read() == Counter([(1, "a"), (2, "b")])


def test_checking_writes_nothing(sink: Open, path: Path) -> None:
    """A path that is not there yet passes, and is still not there afterwards."""
    sink().check()
    assert not path.parent.exists()


class TestThroughHadoop:
    """A file system that only Hadoop's client reaches; its local one stands for it."""

    @pytest.fixture(autouse=True)
    def through_hadoop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the sink take no path for a local one."""
        monkeypatch.setattr("holdfast.spark.filesystem.is_local", lambda _spark, _path: False)

    def test_epochs_are_published_replaced_and_rolled_back(
        self, sink: Open, read: Read, delivery: Deliveries
    ) -> None:
        """The protocol is the same without a disk of one's own."""
        wide = "id long, v string, n int"
        assert sink().deliver(delivery(1, 1, [(1, "a"), (1, "a")])).rows == 2
        assert sink().deliver(delivery(1, 2, [(2, "b", 3)], wide)).rows == 1
        assert sink().deliver(delivery(1, 2, [(2, "b", 3)], wide)).repeated
        assert "epoch 2" in sink().roll_back(Token(PIPELINE, 2, 1))
        sink().deliver(delivery(2, 2, [(2, "c", 3)], wide))
        assert read("id", "v", "n") == Counter([(1, "a", None), (1, "a", None), (2, "c", 3)])

    def test_a_copy_that_was_interrupted_is_not_taken_for_an_epoch(
        self, sink: Open, read: Read, delivery: Deliveries, path: Path
    ) -> None:
        """Where a rename copies file by file, half of an epoch is delivered again."""
        sink().deliver(delivery(1, 1, [(1, "a"), (2, "b")]))
        next((path / "holdfast_epoch=1").glob("part-*")).unlink()
        assert not sink().deliver(delivery(1, 1, [(1, "a"), (2, "b")])).repeated
        assert read() == Counter([(1, "a"), (2, "b")])

    def test_a_record_between_two_steps_is_found(
        self, sink: Open, read: Read, delivery: Deliveries, path: Path
    ) -> None:
        """Where a file cannot be replaced in one step, its next version is taken."""
        sink().deliver(delivery(1, 1, [(1, "a")]))
        record = path / "_holdfast" / "sink.json"
        record.rename(record.with_name(".sink.json.tmp"))
        sink().deliver(delivery(1, 2, [(2, "b")]))
        assert read() == Counter([(1, "a"), (2, "b")])


def test_a_process_that_wakes_up_late_leaves_the_record_of_a_newer_one(
    sink: Open, read: Read, delivery: Deliveries
) -> None:
    """Overtaken by a roll-back while it begins its generation, it neither publishes nor unlocks."""
    for epoch in (0, 1, 2):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    newer = sink()

    def overtake(reached: str, _subject: str) -> None:
        if reached == "files.fenced":
            failpoints.observe(None)
            newer.roll_back(Token(PIPELINE, 3, 1))

    failpoints.observe(overtake)
    with pytest.raises(SinkRefused, match="too late"):
        sink().deliver(delivery(2, 3, [(3, "late")]))
    failpoints.observe(None)

    assert read() == Counter([(0, "a"), (1, "a")])
    sink().deliver(delivery(4, 2, [(2, "new")]))
    assert read() == Counter([(0, "a"), (1, "a"), (2, "new")])
