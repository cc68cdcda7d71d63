"""Delta Lake targets, read back with deltalake's own reader."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from holdfast import failpoints
from holdfast.pipelines.replicating import STEPS
from holdfast.spark import delta_log

from .workshop import Row, Workshop, at, sorted_rows, without_own

pytestmark = pytest.mark.spark

TARGET = 'format = "delta", path = "lake"'
INCREMENTAL = 'watermark = "changed"\n'
MERGE = 'watermark = "changed"\nstrategy = "merge"\nprimary_key = ["id"]\n'


class Crash(BaseException):
    """The end of a process, as far as one process can play it."""


def crash_at(wanted: str) -> None:
    """Make the next run end when it reaches a step."""

    def end(step: str, _: str) -> None:
        if step == wanted:
            failpoints.observe(None)
            raise Crash(step)

    failpoints.observe(end)


def crash_before_commit(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until the files are in the table's directory and only the commit is missing."""

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(delta_log.Snapshot, "commit", crash)
        with pytest.raises(Crash):
            shop.run()


def table(shop: Workshop) -> DeltaTable:
    """The target as deltalake opens it."""
    return DeltaTable(str(shop.target()))


def all_rows(shop: Workshop) -> list[Row]:
    """The target's rows with every column."""
    found: list[Row] = table(shop).to_pyarrow_table().to_pylist()
    return found


def copied(shop: Workshop) -> list[Row]:
    """The target's rows with the source's columns, in a fixed order."""
    return sorted_rows(without_own(all_rows(shop)))


def ids(shop: Workshop) -> list[Any]:
    """The ids in the target, sorted."""
    return sorted(row["id"] for row in all_rows(shop))


def parquet_files(shop: Workshop) -> set[Path]:
    """Every data file in the target's directory, named by the log or not."""
    return set(shop.target().rglob("*.parquet"))


def row(number: int | None, minute: float, **columns: Any) -> Row:
    """A row of the source."""
    return {"id": number, "changed": at(minute), **columns}


def last_transaction(shop: Workshop) -> int | None:
    """The version of the application transaction of the newest batch."""
    return table(shop).transaction_version("holdfast:p.t")


def versions_of(shop: Workshop, batch_id: str) -> list[int]:
    """The versions of the table that a batch made."""
    history = table(shop).history()
    return [step["version"] for step in history if step.get("holdfast_batch") == batch_id]


def configured(shop: Workshop, settings: str, rows: Sequence[Row] = ()) -> Workshop:
    """A workshop with a Delta target and some rows at the source."""
    shop.configure(settings, target=TARGET)
    if rows:
        shop.add(rows)
    return shop


def test_each_run_appends_what_is_new_in_one_commit(shop: Workshop) -> None:
    """Two runs make two commits, and a run without news makes none."""
    configured(shop, INCREMENTAL, [row(1, 1), row(2, 2)])
    shop.copy()
    shop.add([row(3, 3)])
    shop.copy()
    assert shop.run().status == "unchanged"
    assert ids(shop) == [1, 2, 3]
    assert table(shop).version() == 1


def test_readers_can_count_from_the_log_alone(shop: Workshop) -> None:
    """Every file's row count is in the log, and files without rows are not."""
    configured(shop, INCREMENTAL, [row(n, n) for n in range(1, 8)])
    shop.copy()
    counts = table(shop).get_add_actions(flatten=True).column("num_records").to_pylist()
    assert sum(counts) == 7
    assert 0 not in counts


def test_every_batch_is_an_application_transaction(shop: Workshop) -> None:
    """The log says which batch was last, by a number made from its id."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    first = shop.copy().batch_ids[0]
    before = last_transaction(shop)
    assert before is not None
    assert before >> 12 == UUID(first).int >> 80
    shop.add([row(2, 2)])
    second = shop.copy().batch_ids[0]
    after = last_transaction(shop)
    assert after is not None
    assert after > before
    assert [step.get("holdfast_batch") for step in table(shop).history()] == [second, first]


def test_no_column_comes_from_a_directory(shop: Workshop) -> None:
    """The directory that holds a batch is not a column of the table."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    batch_id = shop.copy().batch_ids[0]
    (found,) = all_rows(shop)
    assert set(found) == {"id", "changed", "_loaded_by", "_loaded_at", "_batch_id"}
    assert found["_batch_id"] == batch_id


def test_types_survive(shop: Workshop) -> None:
    """Values of many types come back as they were, far timestamps and nested values included."""
    types = {
        "small": pa.int8(),
        "price": pa.decimal128(12, 3),
        "far": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
        "tags": pa.list_(pa.string()),
        "inner": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "raw": pa.binary(),
    }
    wanted = row(
        1,
        1,
        small=-3,
        price=Decimal("12.345"),
        far=datetime.fromisoformat("9999-12-31T23:59:59.999999+00:00"),
        local=datetime.fromisoformat("1999-01-01T00:00:00.000001"),
        tags=["x", None],
        inner={"a": 1, "b": None},
        raw=b"\x00\xff",
    )
    configured(shop, INCREMENTAL)
    shop.add([wanted], types=types)
    shop.copy()
    assert copied(shop) == [wanted]


def test_merge_keeps_the_latest_row_of_every_key(shop: Workshop) -> None:
    """A newer row replaces, an older one does not, and a null is a key like any other."""
    configured(shop, MERGE + 'overlap = "1 hour"\n')
    shop.add([row(1, 10, v="a"), row(2, 11, v="a"), row(None, 12, v="a")])
    shop.copy()
    shop.add([row(1, 20, v="b"), row(2, 5, v="late"), row(None, 21, v="b"), row(3, 22, v="b")])
    outcome = shop.copy()
    assert copied(shop) == sorted_rows(
        [row(1, 20, v="b"), row(2, 11, v="a"), row(None, 21, v="b"), row(3, 22, v="b")]
    )
    assert versions_of(shop, outcome.batch_ids[0]) == [1]


def test_merge_leaves_files_without_incoming_keys_alone(shop: Workshop) -> None:
    """Only the files that hold a key that comes in are written again."""
    configured(shop, MERGE, [row(1, 1, v="a")])
    shop.copy()
    (first,) = table(shop).file_uris()
    shop.add([row(2, 2, v="a")])
    shop.copy()
    assert first in table(shop).file_uris()
    shop.add([row(1, 3, v="b")])
    shop.copy()
    assert first not in table(shop).file_uris()
    assert copied(shop) == sorted_rows([row(1, 3, v="b"), row(2, 2, v="a")])


def test_full_refresh_replaces_everything_in_one_commit(shop: Workshop) -> None:
    """A refreshed table is what the source is now, and the version before it still exists."""
    configured(shop, 'strategy = "full_refresh"\n', [row(1, 1), row(2, 2)])
    shop.copy()
    shop.rewrite([{"id": "x", "other": 1.5}])
    shop.copy()
    assert copied(shop) == [{"id": "x", "other": 1.5}]
    assert table(shop).version() == 1
    assert DeltaTable(str(shop.target()), version=0).count() == 2


def test_a_refresh_may_bring_a_type_that_needs_a_newer_reader(shop: Workshop) -> None:
    """A column of local times raises the table's protocol before any file needs it."""
    configured(shop, 'strategy = "full_refresh"\n', [{"id": 1}])
    shop.copy()
    local = datetime.fromisoformat("2024-01-01T00:00:00")
    shop.rewrite([{"id": 1, "local": local}], types={"local": pa.timestamp("us")})
    shop.copy()
    assert copied(shop) == [{"id": 1, "local": local}]


def test_a_rewound_table_replaces_its_batches_in_one_commit(shop: Workshop) -> None:
    """After a rewind the batches past it are copied again, changed rows and all."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    shop.copy()
    shop.add([row(2, 2)])
    retired = shop.copy().batch_ids[0]
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(1).isoformat()])
    shop.rewrite([row(1, 1), row(2, 2, v="corrected"), row(3, 3, v="new")])
    outcome = shop.copy()
    assert ids(shop) == [1, 2, 3]
    assert retired not in {found["_batch_id"] for found in all_rows(shop)}
    # One commit for the new column, one for the rows.
    assert versions_of(shop, outcome.batch_ids[0]) == [3, 2]


def test_a_rewind_finds_its_rows_in_files_that_others_compacted(shop: Workshop) -> None:
    """Batches can be replaced even after another tool has put several of them in one file."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    shop.copy()
    shop.add([row(2, 2)])
    shop.copy()
    table(shop).optimize.compact()
    assert len(table(shop).file_uris()) == 1
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(1).isoformat()])
    shop.copy()
    assert ids(shop) == [1, 2]


def test_a_rewind_that_cannot_tell_the_rows_apart_is_refused(shop: Workshop) -> None:
    """Without `_batch_id`, a compacted table cannot be rewound, and nothing is lost by trying."""
    configured(shop, INCREMENTAL + "metadata_columns = false\n", [row(1, 1)])
    shop.copy()
    shop.add([row(2, 2)])
    shop.copy()
    table(shop).optimize.compact()
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(1).isoformat()])
    outcome = shop.run()
    assert outcome.failure is not None
    assert "--full-refresh" in outcome.failure.hint
    assert ids(shop) == [1, 2]


@pytest.mark.parametrize("settings", [INCREMENTAL, MERGE], ids=["incremental", "merge"])
def test_a_new_column_is_null_in_earlier_rows(shop: Workshop, settings: str) -> None:
    """Earlier files are kept and read as null in the column they lack."""
    configured(shop, settings, [row(1, 1)])
    shop.copy()
    shop.add([row(2, 2, extra="x")])
    shop.source().joinpath("0001.parquet").unlink()
    shop.copy()
    assert copied(shop) == sorted_rows([row(1, 1, extra=None), row(2, 2, extra="x")])


@pytest.mark.parametrize("settings", [INCREMENTAL, MERGE], ids=["incremental", "merge"])
def test_a_dropped_column_is_null_in_later_rows(shop: Workshop, settings: str) -> None:
    """The target keeps a column that the source no longer has."""
    configured(shop, settings, [row(1, 1, extra="x")])
    shop.copy()
    shop.rewrite([row(1, 1), row(2, 2)])
    shop.copy()
    assert copied(shop) == sorted_rows([row(1, 1, extra="x"), row(2, 2, extra=None)])


@pytest.mark.parametrize("settings", [INCREMENTAL, MERGE], ids=["incremental", "merge"])
def test_a_widened_column_is_rewritten_in_one_commit(shop: Workshop, settings: str) -> None:
    """Every row has the wider type at once, together with the rows that needed it."""
    configured(shop, settings)
    shop.add([row(1, 1, n=7), row(2, 2, n=8)], types={"n": pa.int32()})
    shop.copy()
    shop.rewrite(
        [row(1, 1, n=7), row(2, 3, n=2**40)],
        types={"n": pa.int64()},
    )
    outcome = shop.copy()
    kept = [] if settings == MERGE else [row(2, 2, n=8)]
    assert copied(shop) == sorted_rows([row(1, 1, n=7), *kept, row(2, 3, n=2**40)])
    assert versions_of(shop, outcome.batch_ids[0]) == [1]
    assert table(shop).to_pyarrow_table().schema.field("n").type == pa.int64()


def test_a_widened_table_can_still_be_rewound(shop: Workshop) -> None:
    """Rewriting every file keeps the batches apart."""
    configured(shop, INCREMENTAL)
    shop.add([row(1, 1, n=1)], types={"n": pa.int32()})
    shop.copy()
    shop.rewrite([row(1, 1, n=1), row(2, 2, n=2)], types={"n": pa.int64()})
    shop.copy()
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(1).isoformat()])
    shop.copy()
    assert ids(shop) == [1, 2]


def test_a_column_that_others_added_keeps_its_values(shop: Workshop) -> None:
    """A merge that rewrites a file carries over what another writer put into it."""
    configured(shop, MERGE, [row(1, 1), row(2, 2)])
    shop.copy()
    theirs = table(shop).to_pyarrow_table().append_column("note", pa.array(["mine", "mine"]))
    write_deltalake(str(shop.target()), theirs, mode="overwrite", schema_mode="overwrite")
    shop.add([row(2, 3)])
    shop.copy()
    assert copied(shop) == sorted_rows([row(1, 1, note="mine"), row(2, 3, note=None)])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("settings", [INCREMENTAL, MERGE], ids=["incremental", "merge"])
def test_a_crash_anywhere_neither_loses_nor_doubles_a_row(
    shop: Workshop, settings: str, step: str
) -> None:
    """Whatever a crash left, the next run ends with exactly the source's rows."""
    configured(shop, settings, [row(1, 1, v="a"), row(2, 2, v="a")])
    for news in ([], [row(3, 3, v="b"), row(4, 4, v="b")]):
        if news:
            shop.add(news)
        crash_at(step)
        with pytest.raises(Crash):
            shop.run()
    shop.run()
    assert ids(shop) == [1, 2, 3, 4]
    assert shop.run().status == "unchanged"
    shop.add([row(5, 5, v="c")])
    shop.copy()
    assert not list(shop.staging.glob("*/*"))


@pytest.mark.parametrize("settings", [INCREMENTAL, MERGE], ids=["incremental", "merge"])
def test_a_crash_after_the_delta_commit_publishes_nothing_twice(
    shop: Workshop, settings: str
) -> None:
    """A batch that Delta has and the ledger has not is recognised, even with staging gone."""
    configured(shop, settings, [row(1, 1)])
    shop.copy()
    shop.add([row(1, 2), row(2, 3)])
    crash_at("after_publish")
    with pytest.raises(Crash):
        shop.run()
    before = table(shop).version()
    for path in shop.staging.rglob("_holdfast.json"):
        path.unlink()
    outcome = shop.run()
    assert outcome.rows == 2
    assert table(shop).version() == before
    assert ids(shop) == ([1, 2] if settings == MERGE else [1, 1, 2])


def test_a_published_batch_whose_manifests_are_gone_is_not_copied_again(shop: Workshop) -> None:
    """Without a manifest the run stops and says so, instead of doubling the rows."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    crash_at("after_publish")
    with pytest.raises(Crash):
        shop.run()
    for path in (shop.directory / "lake").rglob("_holdfast.json"):
        path.unlink()
    outcome = shop.run()
    assert outcome.failure is not None
    assert "manifest was removed" in outcome.failure.message
    assert ids(shop) == [1]
    shutil.rmtree(shop.target())
    shop.copy(full_refresh=True)
    assert ids(shop) == [1]


def test_a_crash_between_column_and_rows_is_finished(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new column may stand alone for a moment; the rows follow once."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    shop.copy()
    shop.rewrite([row(1, 1, extra="x"), row(2, 2, extra="x")])
    crash_before_commit(shop, monkeypatch)
    assert copied(shop) == [row(1, 1, extra=None)]
    shop.copy()
    assert copied(shop) == sorted_rows([row(1, 1, extra=None), row(2, 2, extra="x")])


def test_a_staged_merge_is_made_again_if_another_writer_came_between(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was merged into files that are gone is merged anew, and its own files go."""
    configured(shop, MERGE, [row(1, 1, v="a"), row(2, 2, v="a")])
    shop.copy()
    shop.add([row(1, 3, v="b")])
    before = parquet_files(shop)
    crash_before_commit(shop, monkeypatch)
    orphans = parquet_files(shop) - before
    assert orphans
    table(shop).delete("id = 2")
    shop.run()
    assert copied(shop) == [row(1, 3, v="b")]
    assert not orphans & parquet_files(shop)


def test_a_writer_that_comes_before_the_commit_stops_it(shop: Workshop) -> None:
    """A merge never overwrites what another writer did meanwhile; the next run merges anew."""
    configured(shop, MERGE, [row(1, 1, v="a"), row(2, 2, v="a")])
    shop.copy()
    shop.add([row(1, 3, v="b")])

    def interfere(step: str, _: str) -> None:
        if step == "before_publish":
            failpoints.observe(None)
            table(shop).delete("id = 2")

    failpoints.observe(interfere)
    outcome = shop.run()
    assert outcome.failure is not None
    assert "another writer" in outcome.failure.message
    assert copied(shop) == [row(1, 1, v="a")]
    shop.copy()
    assert copied(shop) == [row(1, 3, v="b")]


def test_files_that_are_not_a_delta_table_are_refused(shop: Workshop) -> None:
    """Files in the way are named, kept, and not overwritten."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    shop.target().mkdir(parents=True)
    theirs = shop.target() / "theirs.csv"
    theirs.write_text("id\n1\n")
    outcome = shop.run()
    assert outcome.failure is not None
    assert outcome.failure.error == "TargetNotEmpty"
    assert theirs.exists()
    assert not (shop.target() / "_delta_log").exists()


def test_a_delta_table_of_others_is_refused_until_it_may_be_replaced(shop: Workshop) -> None:
    """Somebody else's table is only ever overwritten on request, and its past stays readable."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    write_deltalake(str(shop.target()), pa.table({"theirs": [1, 2]}))
    outcome = shop.run()
    assert outcome.failure is not None
    assert outcome.failure.error == "TargetNotEmpty"
    shop.copy(full_refresh=True)
    assert copied(shop) == [row(1, 1)]
    assert DeltaTable(str(shop.target()), version=0).count() == 2


def test_a_partitioned_table_is_refused(shop: Workshop) -> None:
    """A table whose layout Holdfast does not write is left as it is."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    theirs = pa.table({"day": ["a", "b"], "n": [1, 2]})
    write_deltalake(str(shop.target()), theirs, partition_by=["day"])
    outcome = shop.run(full_refresh=True)
    assert outcome.failure is not None
    assert "partition columns (day)" in outcome.failure.message
    assert table(shop).count() == 2


def test_a_damaged_log_is_explained(shop: Workshop) -> None:
    """A log that cannot be read fails the table with a sentence, not with a trace."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    shop.copy()
    (shop.target() / "_delta_log" / "00000000000000000000.json").write_text("{")
    outcome = shop.run()
    assert outcome.failure is not None
    assert outcome.failure.error == "TargetError"
    assert "_delta_log" not in outcome.failure.hint
    assert "p.t: opening the Delta table" in outcome.failure.message


def test_a_type_delta_lacks_is_refused_before_anything_is_written(shop: Workshop) -> None:
    """An interval column is named, and no table is made."""
    configured(shop, INCREMENTAL)
    shop.add([row(1, 1)])
    frame = shop.spark.read.parquet(str(shop.source()))
    frame = frame.selectExpr("*", "interval 1 day as span")
    frame.write.mode("overwrite").parquet(str(shop.directory / "other"))
    shop.source().rename(shop.directory / "unused")
    (shop.directory / "other").rename(shop.source())
    outcome = shop.run()
    assert outcome.failure is not None
    assert "column span is interval day" in outcome.failure.message
    assert not shop.target().exists()


def test_a_path_that_is_not_local_is_refused(shop: Workshop) -> None:
    """An object store is refused with a sentence that says what is possible."""
    shop.configure(INCREMENTAL, target='format = "delta", path = "s3a://bucket/lake"')
    shop.add([row(1, 1)])
    outcome = shop.run()
    assert outcome.failure is not None
    assert outcome.failure.error == "TargetError"
    assert "local path" in outcome.failure.hint


def test_a_missing_package_is_named(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without deltalake the table fails with the command that installs it."""
    configured(shop, INCREMENTAL, [row(1, 1)])
    for name in [n for n in sys.modules if n.startswith("holdfast.spark.delta")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    outcome = shop.run()
    assert outcome.failure is not None
    assert "pip install" in outcome.failure.hint
