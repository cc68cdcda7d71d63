"""A Delta table that batches are appended to, read back by the package deltalake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from holdfast.config.sinks import DeltaSink as Config
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model import Token
from holdfast.spark.sinks.delta import DeltaSink
from holdfast.testing.sinks import PIPELINE as SUITE_PIPELINE
from holdfast.testing.sinks import Row, SinkConformance

from .conftest import PIPELINE, Crashing, Deliveries

pytestmark = pytest.mark.spark

WIDE = "id long, v string, n int"

Open = Callable[..., DeltaSink]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the table is; it is not there yet."""
    return tmp_path / "lake" / "totals"


@pytest.fixture
def sink(spark: SparkSession, path: Path) -> Open:
    """Open the sink, as a new process would."""

    def make(*, name: str = "totals", pipeline: str = PIPELINE) -> DeltaSink:
        return sink_at(path, spark, name=name, pipeline=pipeline)

    return make


def sink_at(path: Path, spark: SparkSession, *, pipeline: str, name: str = "totals") -> DeltaSink:
    """A sink that writes to a table."""
    config = Config.model_validate({"type": "delta", "name": name, "path": str(path)})
    return DeltaSink(config, pipeline=pipeline, spark=spark)


def rows(path: Path, *columns: str) -> Counter[tuple[Any, ...]]:
    """What any Delta reader sees, as a multiset."""
    names = columns or ("id", "v")
    found = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return Counter(tuple(row[name] for name in names) for row in found)


def version(path: Path) -> int:
    """The number of the newest commit."""
    return DeltaTable(str(path)).version()


class TestTable(SinkConformance):
    """The conformance suite over a Delta table."""

    takes_rows_back = True

    @pytest.fixture(autouse=True)
    def _table(self, path: Path) -> None:
        self.path = path

    def open(self, spark: SparkSession) -> DeltaSink:
        return sink_at(self.path, spark, pipeline=SUITE_PIPELINE)

    def read(self) -> list[Row]:
        if not self.path.exists():
            return []
        return [(i, name) for i, name in rows(self.path, "id", "name").elements()]


def test_each_batch_is_one_commit(sink: Open, delivery: Deliveries, path: Path) -> None:
    """Rows are appended, and the log has their token; a batch without rows has one, too."""
    delta = sink()
    assert delta.deliver(delivery(1, 1, [(1, "a"), (2, "b")])).rows == 2
    assert delta.deliver(delivery(1, 2, [])).rows == 0
    assert delta.deliver(delivery(1, 3, [(2, "b")])).rows == 1
    assert rows(path) == Counter({(1, "a"): 1, (2, "b"): 2})
    assert version(path) == 2
    last = DeltaTable(str(path)).transaction_version("holdfast/payments/totals")
    assert last == (1 << 40) + 3
    assert delta.guarantee == "exactly_once"


def test_an_empty_first_batch_makes_the_table(sink: Open, delivery: Deliveries, path: Path) -> None:
    """A table without rows has the columns and the token."""
    sink().deliver(delivery(1, 1, []))
    assert rows(path) == Counter()
    assert sink().deliver(delivery(1, 1, [])).repeated


@pytest.mark.parametrize("reopened", [False, True])
def test_a_token_that_comes_again_changes_nothing(
    sink: Open, delivery: Deliveries, path: Path, reopened: bool
) -> None:
    """The last batch is answered from the log, by the same process and by the next one."""
    delta = sink()
    delta.deliver(delivery(1, 1, [(1, "a")]))
    again = (sink() if reopened else delta).deliver(delivery(1, 1, [(1, "a")]))
    assert (again.rows, again.repeated) == (1, True)
    assert version(path) == 0


STEPS = ("delta.written", "delta.moved", "delta.recorded", "delta.columns", "delta.committed")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_neither_loses_nor_doubles_a_row(
    sink: Open, delivery: Deliveries, crashing_at: Crashing, path: Path, step: str
) -> None:
    """A reader sees all of a batch or nothing, and delivering again completes it."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    with crashing_at(step):
        sink().deliver(delivery(1, 2, [(2, "b", 5), (3, "c", 6)], WIDE))
    seen = sum(rows(path).values())
    assert seen == (3 if step == "delta.committed" else 1)
    receipt = sink().deliver(delivery(1, 2, [(2, "b", 5), (3, "c", 6)], WIDE))
    assert (receipt.rows, receipt.repeated) == (2, step == "delta.committed")
    expected = Counter([(1, "a", None), (2, "b", 5), (3, "c", 6)])
    assert rows(path, "id", "v", "n") == expected
    assert list(path.glob("_holdfast/*/staging/*")) == []
    sink().roll_back(Token(PIPELINE, 2, 1))
    assert rows(path) == Counter([(1, "a")])


@pytest.mark.parametrize("step", ["delta.recorded", "delta.committed"])
def test_a_crash_before_the_table_exists(
    sink: Open, delivery: Deliveries, crashing_at: Crashing, path: Path, step: str
) -> None:
    """The very first batch can be delivered again as well."""
    with crashing_at(step):
        sink().deliver(delivery(1, 1, [(1, "a")]))
    sink().deliver(delivery(1, 1, [(1, "a")]))
    assert rows(path) == Counter([(1, "a")])


def test_a_process_that_was_overtaken_is_refused(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """A token before the last one is refused, and so is a roll-back of an older generation."""
    old, new = sink(), sink()
    old.deliver(delivery(1, 1, [(1, "a")]))
    new.deliver(delivery(2, 2, [(2, "b")]))
    with pytest.raises(SinkRefused, match="epoch 2 of generation 1 comes too late"):
        old.deliver(delivery(1, 2, [(2, "zombie")]))
    with pytest.raises(SinkRefused, match="too late"):
        old.roll_back(Token(PIPELINE, 1, 0))
    assert rows(path) == Counter([(1, "a"), (2, "b")])


def test_a_batch_whose_record_is_gone_is_known_by_its_epoch(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """Without the record that names the batch, the log's generation and epoch decide."""
    sink().deliver(delivery(1, 1, [(1, "a")], batch="first"))
    with pytest.raises(SinkRefused, match="other rows"):
        sink().deliver(delivery(1, 1, [(1, "b")], batch="second"))
    (record,) = path.glob("_holdfast/*/epochs/1-1-*.json")
    record.unlink()
    again = sink().deliver(delivery(1, 1, [(1, "a")], batch="first"))
    assert (again.rows, again.repeated) == (None, True)
    assert rows(path) == Counter([(1, "a")])


def test_a_process_overtaken_during_its_write_does_not_commit(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """The log itself refuses a commit after a token that its writer has not seen."""
    from holdfast import failpoints

    old, new = sink(), sink()
    old.deliver(delivery(1, 1, [(1, "a")]))

    def overtake(step: str, _name: str) -> None:
        if step == "delta.recorded":
            failpoints.observe(None)
            new.deliver(delivery(2, 2, [(2, "b")]))

    failpoints.observe(overtake)
    try:
        with pytest.raises(SinkUnavailable, match="another writer"):
            old.deliver(delivery(1, 2, [(2, "zombie")]))
    finally:
        failpoints.observe(None)
    with pytest.raises(SinkRefused, match="too late"):
        old.deliver(delivery(1, 2, [(2, "zombie")]))
    assert rows(path) == Counter([(1, "a"), (2, "b")])


@pytest.mark.parametrize("step", [None, "delta.rolled_back"])
def test_a_roll_back_removes_later_epochs_in_one_commit(
    sink: Open, delivery: Deliveries, crashing_at: Crashing, path: Path, step: str | None
) -> None:
    """Later rows go at once, twice is as once, and epochs go on from there, again and again."""
    for epoch in (1, 2, 3, 4):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    to = Token(PIPELINE, 2, 2)
    if step is not None:
        with crashing_at(step):
            sink().roll_back(to)
    else:
        assert sink().roll_back(to).startswith("Removed 2 files of epochs after 2")
    assert version(path) == 4
    assert "nothing to do" in sink().roll_back(to)
    assert rows(path) == Counter([(1, "a"), (2, "a")])
    assert sink().deliver(delivery(2, 2, [(2, "a")])).repeated
    sink().deliver(delivery(2, 3, [(3, "b")]))
    assert rows(path) == Counter([(1, "a"), (2, "a"), (3, "b")])
    sink().roll_back(Token(PIPELINE, 3, 1))
    sink().deliver(delivery(3, 2, [(2, "c")]))
    assert rows(path) == Counter([(1, "a"), (2, "c")])


def test_a_batch_that_was_never_committed_does_not_stand_in_the_way(
    sink: Open, delivery: Deliveries, crashing_at: Crashing, path: Path
) -> None:
    """What a crash left of an epoch is not taken for rows that somebody rewrote."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    with crashing_at("delta.recorded"):
        sink().deliver(delivery(1, 2, [(2, "lost")]))
    sink().deliver(delivery(2, 2, [(2, "b")]))
    sink().roll_back(Token(PIPELINE, 3, 1))
    assert rows(path) == Counter([(1, "a")])


def test_rows_that_others_rewrote_cannot_be_taken_back(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """After a compaction nobody knows which rows are whose, and the table stays as it is."""
    for epoch in (1, 2, 3):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    DeltaTable(str(path)).optimize.compact()
    with pytest.raises(SinkRefused, match=r"epoch 2, 3 .* rewritten") as refused:
        sink().roll_back(Token(PIPELINE, 2, 1))
    assert "Restore the table" in refused.value.hint
    assert sum(rows(path).values()) == 3
    sink().deliver(delivery(1, 4, [(4, "a")]))
    sink().roll_back(Token(PIPELINE, 2, 3))
    assert rows(path) == Counter([(1, "a"), (2, "a"), (3, "a")])


def test_records_survive_a_vacuum(sink: Open, delivery: Deliveries, path: Path) -> None:
    """Removing old files from the disk does not make rewritten rows look untouched."""
    for epoch in (1, 2):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    table = DeltaTable(str(path))
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(SinkRefused, match="rewritten"):
        sink().roll_back(Token(PIPELINE, 2, 1))


def test_a_roll_back_without_a_table(sink: Open, path: Path) -> None:
    """There is nothing to take back, and no table is made for it."""
    assert "no table" in sink().roll_back(Token(PIPELINE, 2, 1))
    assert not path.exists()


def test_an_existing_table_is_appended_to(sink: Open, delivery: Deliveries, path: Path) -> None:
    """Rows of others stay, through a roll-back as well, and other writers may go on."""
    write_deltalake(str(path), pa.table({"id": pa.array([0], pa.int64()), "v": ["theirs"]}))
    sink().deliver(delivery(1, 1, [(1, "a")]))
    write_deltalake(
        str(path), pa.table({"id": pa.array([9], pa.int64()), "v": ["theirs"]}), mode="append"
    )
    sink().deliver(delivery(1, 2, [(2, "a")]))
    sink().roll_back(Token(PIPELINE, 2, 1))
    assert rows(path) == Counter([(0, "theirs"), (1, "a"), (9, "theirs")])


def test_two_sinks_share_a_table(sink: Open, delivery: Deliveries, path: Path) -> None:
    """Tokens and roll-backs of one are nothing to the other."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    sink().deliver(delivery(1, 2, [(2, "a")]))
    sink(pipeline="refunds").deliver(delivery(1, 1, [(1, "b")], pipeline="refunds"))
    sink(pipeline="refunds").deliver(delivery(1, 2, [(2, "b")], pipeline="refunds"))
    sink().roll_back(Token(PIPELINE, 2, 1))
    assert rows(path) == Counter([(1, "a"), (1, "b"), (2, "b")])


def test_columns_come_go_and_are_cast(sink: Open, delivery: Deliveries, path: Path) -> None:
    """New columns are null in earlier rows; a narrower type is widened to the table's."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    sink().deliver(delivery(1, 2, [(7, "b", 2)], "n int, V string, id int"))
    sink().deliver(delivery(1, 3, [(3,)], "id long"))
    assert rows(path, "id", "v", "n") == Counter([(1, "a", None), (2, "b", 7), (3, None, None)])


@pytest.mark.parametrize(
    ("schema", "row", "said"),
    [
        ("id long, v double", (1, 1.5), "column v was string, is double"),
        ("id decimal(30,2), v string", (None, "x"), r"narrower types than the rows for id"),
        ("id long, v interval day to second", (1, None), "no type"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    sink: Open, delivery: Deliveries, path: Path, schema: str, row: tuple[Any, ...], said: str
) -> None:
    """The column is named, and the table stays as it is."""
    sink().deliver(delivery(1, 1, [(1, "a")]))
    with pytest.raises(SinkRefused, match=said):
        sink().deliver(delivery(1, 2, [row], schema))
    assert rows(path) == Counter([(1, "a")])
    assert version(path) == 0


def test_a_column_without_nulls_is_not_given_any(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """A table of others that takes no nulls is given only rows that cannot have them."""
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    write_deltalake(str(path), pa.Table.from_pylist([{"id": 0, "v": "theirs"}], strict))
    with pytest.raises(SinkRefused, match="takes no nulls in id"):
        sink().deliver(delivery(1, 1, [(1, "a")]))
    sink().deliver(delivery(1, 1, [(1, "a")], "id long not null, v string"))
    assert rows(path) == Counter([(0, "theirs"), (1, "a")])


def test_a_table_beyond_plain_parquet_is_refused(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """What the sink could not write right is named before anything is written."""
    write_deltalake(str(path), pa.table({"id": [1], "v": ["a"]}), partition_by=["v"])
    with pytest.raises(SinkRefused, match=r"partition columns \(v\)"):
        sink().check()
    with pytest.raises(SinkRefused, match=r"partition columns \(v\)"):
        sink().deliver(delivery(1, 1, [(1, "a")]))


def test_a_directory_that_is_no_table_is_refused(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """Files of others do not become part of a new table by accident."""
    path.mkdir(parents=True)
    (path / "export.parquet").write_bytes(b"")
    with pytest.raises(SinkRefused, match=r"holds export\.parquet and is no Delta table"):
        sink().deliver(delivery(1, 1, [(1, "a")]))


def test_a_disk_that_refuses_can_be_tried_again(
    sink: Open, delivery: Deliveries, path: Path
) -> None:
    """Something in the way is for an operator to move, while the stream waits."""
    path.parent.mkdir(parents=True)
    path.write_text("in the way")
    delta = sink()
    with pytest.raises(SinkUnavailable):
        delta.deliver(delivery(1, 1, [(1, "a")]))
    path.unlink()
    delta.deliver(delivery(1, 1, [(1, "a")]))
    assert rows(path) == Counter([(1, "a")])


def test_elsewhere_than_on_a_local_disk_it_is_refused(spark: SparkSession) -> None:
    """Another file system is refused before anything is written."""
    config = Config.model_validate({"type": "delta", "name": "totals", "path": "hdfs://host/t"})
    with pytest.raises(SinkRefused, match="cannot be written to hdfs://host/t"):
        DeltaSink(config, pipeline=PIPELINE, spark=spark)


def test_a_roll_back_that_was_killed_can_be_done_again(
    sink: Open, delivery: Deliveries, path: Path, crashing_at: Crashing
) -> None:
    """What the first one took out of the table is not taken for somebody else's doing."""
    for epoch in (0, 1, 2):
        sink().deliver(delivery(1, epoch, [(epoch, "a")]))
    with crashing_at("delta.rolled_back"):
        sink().roll_back(Token(PIPELINE, 2, 0))
    sink().roll_back(Token(PIPELINE, 3, 0))
    assert rows(path) == Counter([(0, "a")])
    sink().deliver(delivery(3, 1, [(1, "b")]))
    assert rows(path) == Counter([(0, "a"), (1, "b")])
