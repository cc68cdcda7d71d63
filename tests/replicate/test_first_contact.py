"""What a run does with a target it knows nothing about, or that is not what it remembers."""

from __future__ import annotations

import shutil

import pytest

from holdfast.errors import UsageError

from .workshop import Row, Workshop, at


def row(number: int) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number)}


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop in which two rows were copied."""
    shop.configure('watermark = "ts"')
    shop.add([row(1), row(2)])
    shop.copy()
    return shop


def lose_the_ledger(shop: Workshop) -> None:
    """Somebody cleans up."""
    shutil.rmtree(shop.directory / ".holdfast")


def refusal(shop: Workshop) -> tuple[str, str, str]:
    """The kind, message and hint with which a run is refused, nothing having changed."""
    before = shop.batches()
    outcome = shop.run()
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert shop.batches() == before
    return outcome.failure.error, outcome.failure.message, outcome.failure.hint


def test_rows_without_a_watermark_are_refused_with_two_ways_out(shop: Workshop) -> None:
    """Copying from the beginning would double every row of an append target."""
    lose_the_ledger(shop)

    error, message, hint = refusal(shop)

    assert error == "TargetNotEmpty"
    assert "has rows, but the ledger remembers no watermark" in message
    assert "holdfast state set p.t VALUE" in hint
    assert "holdfast run --full-refresh --table p.t" in hint
    assert shop.ids() == [1, 2]


def test_saying_how_far_the_rows_reach_is_one_way_out(shop: Workshop) -> None:
    """After `state set` only what is newer is copied, beside what was there."""
    lose_the_ledger(shop)
    assert shop.run().status == "failed"
    with shop.open() as project:
        project.state.set("p.t", [at(2).isoformat()])
    shop.add([row(3)])

    assert shop.copy().rows == 1
    assert shop.ids() == [1, 2, 3]


def test_a_full_refresh_is_the_other_way_out(shop: Workshop) -> None:
    """The target is replaced by a new copy."""
    lose_the_ledger(shop)
    shop.add([row(3)])

    assert shop.copy(full_refresh=True).rows == 3

    assert shop.ids() == [1, 2, 3]
    assert len(shop.batches()) == 1


def test_a_merge_target_without_a_watermark_is_refused_too(shop: Workshop) -> None:
    """Rows that were deleted at the source since would stay in it for ever, unnoticed."""
    lose_the_ledger(shop)
    shop.configure('watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]')

    assert refusal(shop)[0] == "TargetNotEmpty"


def test_a_full_refresh_table_needs_no_memory(shop: Workshop) -> None:
    """It is replaced at every run anyway."""
    lose_the_ledger(shop)
    shop.configure('strategy = "full_refresh"')

    shop.copy()

    assert shop.ids() == [1, 2]


def test_files_of_another_program_are_refused(shop: Workshop) -> None:
    """A directory that somebody else writes to is not ours to add to, nor to replace silently."""
    lose_the_ledger(shop)
    shutil.rmtree(shop.target())
    shop.target().mkdir()
    foreign = shop.target() / "data.parquet"
    next(shop.source().glob("*.parquet")).rename(foreign)
    shop.add([row(5)])

    error, message, hint = refusal(shop)

    assert error == "TargetNotEmpty"
    assert "files that Holdfast did not write" in message
    assert "holdfast_batch=before" in hint
    assert "holdfast state set p.t VALUE" in hint
    assert "--full-refresh" in hint
    assert foreign.exists()


def test_files_of_another_program_can_be_taken_over(shop: Workshop) -> None:
    """The way out that the message names keeps the rows and goes on from them."""
    lose_the_ledger(shop)
    shutil.rmtree(shop.target())
    before = shop.target() / "holdfast_batch=before"
    before.mkdir(parents=True)
    (file,) = shop.source().glob("*.parquet")
    shutil.copy(file, before / "part-0.parquet")
    with shop.open() as project:
        project.state.set("p.t", [at(2).isoformat()])
    shop.add([row(3)])

    assert shop.copy().rows == 1

    found = shop.spark.read.parquet(str(shop.target())).orderBy("id").collect()
    assert [r["id"] for r in found] == [1, 2, 3]


def test_foreign_files_beside_our_batches_are_refused(shop: Workshop) -> None:
    """Somebody who writes into a table of ours is noticed at the next run."""
    (file,) = shop.source().glob("*.parquet")
    shutil.copy(file, shop.target() / "stray.parquet")
    shop.add([row(3)])

    error, message, _ = refusal(shop)

    assert error == "TargetNotEmpty"
    assert "files that Holdfast did not write" in message


@pytest.mark.parametrize("emptied", [False, True], ids=["deleted", "emptied"])
def test_a_target_that_is_gone_is_refused(shop: Workshop, emptied: bool) -> None:
    """Going on from the watermark would leave a hole where the copied rows were."""
    shutil.rmtree(shop.target())
    if emptied:
        shop.target().mkdir()
    shop.add([row(3)])

    error, message, hint = refusal(shop)

    assert error == "TargetError"
    assert "is gone" in message
    assert "--full-refresh" in hint
    shop.copy(full_refresh=True)
    assert shop.ids() == [1, 2, 3]


def test_a_target_that_is_gone_is_refused_after_a_rewind_too(shop: Workshop) -> None:
    """A rewound watermark stands for the batches before it, which must be there."""
    shop.add([row(3)])
    shop.copy()
    with shop.open() as project:
        project.state.rewind("p.t", to=[at(2).isoformat()])
    shutil.rmtree(shop.target())

    assert refusal(shop)[0] == "TargetError"


def test_a_watermark_set_before_the_first_run_skips_what_lies_before_it(shop: Workshop) -> None:
    """There is nothing to lose yet: the rows before it are simply not wanted."""
    lose_the_ledger(shop)
    shutil.rmtree(shop.target())
    with shop.open() as project:
        project.state.set("p.t", [at(1).isoformat()])

    assert shop.copy().rows == 1
    assert shop.ids() == [2]


def test_a_deleted_watermark_copies_everything_again(shop: Workshop) -> None:
    """`state delete` replaces the target at the next run, so no row is doubled."""
    with shop.open() as project:
        project.state.delete("p.t")
    shop.add([row(3)])

    outcome = shop.copy()

    assert (outcome.reason, outcome.rows) == ("deleted", 3)
    assert shop.ids() == [1, 2, 3]


def test_a_lost_ledger_does_not_lose_the_columns(shop: Workshop) -> None:
    """The files themselves say which columns the target has."""
    lose_the_ledger(shop)
    with shop.open() as project:
        project.state.set("p.t", [at(2).isoformat()])
    shop.rewrite([{"id": "three", "ts": at(3)}])

    error, message, _ = refusal(shop)

    assert error == "SchemaConflict"
    assert "column id was bigint, is string" in message


def test_a_position_of_the_wrong_type_is_refused(shop: Workshop) -> None:
    """What a person writes is held against the column's type before it is used."""
    with (
        shop.open() as project,
        pytest.raises(UsageError, match="is not a value of type timestamp"),
    ):
        project.state.set("p.t", ["yesterday"])
