"""What is remembered of a table, and changing it on purpose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.errors import PipelineBusy, UsageError
from holdfast.model import Watermark
from holdfast.pipelines.state import HistoryEntry

from .crashes import crash
from .workshop import NOON, Row, Workshop, at

MERGE = 'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]'


def row(number: int) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number)}


def when(number: int) -> str:
    """The minute of a row, as the ledger writes it."""
    return f"2024-06-01T10:{number:02}:00.000000Z"


def copy_one_by_one(shop: Workshop, *numbers: int) -> None:
    """A batch for each row, an hour apart."""
    for number in numbers:
        shop.add([row(number)])
        shop.copy()
        shop.clock.advance(hours=1)


def rewind(shop: Workshop, **options: Any) -> Watermark:
    """Rewind the table."""
    with shop.open() as project:
        return project.state.rewind("p.t", **options)


def set_to(shop: Workshop, *values: str, **options: Any) -> Watermark:
    """Set the table's watermark."""
    with shop.open() as project:
        return project.state.set("p.t", values, **options)


def history(shop: Workshop, **options: Any) -> list[HistoryEntry]:
    """The table's history."""
    with shop.open() as project:
        return project.state.history("p.t", **options)


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop whose table is appended to by its time."""
    shop.configure('watermark = "ts"')
    return shop


def test_show_lists_tables_by_glob(shop: Workshop) -> None:
    """Every table that was ever copied is listed, sorted, with where it stands."""
    shop.configure('watermark = "ts"', tables=("orders", "order_lines", "people"))
    for table in ("orders", "order_lines", "people"):
        shop.add([row(1), row(2)], table)
    shop.run_all()

    with shop.open() as project:
        every = project.state.show()
        some = project.state.show("p.order*")
        none = project.state.show("q.*")

    assert [s.table for s in every] == ["p.order_lines", "p.orders", "p.people"]
    assert [s.table for s in some] == ["p.order_lines", "p.orders"]
    assert none == []
    state = some[0]
    assert state.watermark is not None
    assert str(state.watermark.position) == when(2)
    assert state.row_count is not None
    assert (state.row_count.count, state.version, state.open_batch) == (2, 1, None)


def test_get_suggests_the_nearest_name(shop: Workshop) -> None:
    """A misspelt table is an error that helps."""
    copy_one_by_one(shop, 1)

    with shop.open() as project:
        assert project.state.get("p.t").table == "p.t"
        with pytest.raises(UsageError, match=r"remembers no table p\.r\. Did you mean p\.t\?"):
            project.state.get("p.r")


def test_history_says_who_did_what_when_and_why(shop: Workshop) -> None:
    """Runs and changes by hand are steps of one history, newest first, each with its version."""
    copy_one_by_one(shop, 1, 2)
    set_to(shop, when(5), note="the source was repaired")
    shop.clock.advance(hours=1)
    with shop.open() as project:
        project.state.delete("p.t")

    entries = history(shop)

    steps = [e.watermark for e in entries]
    assert all(step is not None for step in steps)
    assert [step.cause for step in steps if step] == ["delete", "set", "run", "run"]
    assert [e.info.version for e in entries] == [4, 3, 2, 1]
    assert [e.info.created_at for e in entries] == [NOON + timedelta(hours=h) for h in (3, 2, 1, 0)]
    assert all(e.info.size > 0 for e in entries)
    assert all(step.actor and "@" in step.actor for step in steps if step)
    assert steps[1] is not None
    assert steps[1].note == "the source was repaired"
    assert steps[2] is not None
    assert steps[2].batch is not None
    assert steps[2].rows == 1
    assert len(history(shop, limit=2)) == 2


def test_set_skips_rows_without_touching_the_target(shop: Workshop) -> None:
    """What lies between the old and the new place is not copied."""
    copy_one_by_one(shop, 1)
    set_to(shop, when(3))
    shop.add([row(2), row(3), row(4)])

    assert shop.copy().rows == 1
    assert shop.ids() == [1, 4]


@pytest.mark.parametrize("detour", ["nothing", "set", "delete"])
def test_set_never_goes_back_over_copied_rows(shop: Workshop, detour: str) -> None:
    """An append target would get them twice, whatever was done to the watermark in between."""
    copy_one_by_one(shop, 1, 2)
    if detour == "set":
        set_to(shop, when(9))
    if detour == "delete":
        with shop.open() as project:
            project.state.delete("p.t")

    with pytest.raises(UsageError, match="would copy rows a second time") as caught:
        set_to(shop, when(1))

    assert f"holdfast state rewind p.t --to {when(1)}" in caught.value.hint


def test_set_may_take_back_a_set(shop: Workshop) -> None:
    """A skip that was never run is no harm to undo."""
    copy_one_by_one(shop, 1)
    set_to(shop, when(9))
    set_to(shop, when(1))
    shop.add([row(2)])

    shop.copy()

    assert shop.ids() == [1, 2]


def test_set_may_go_back_for_a_merge(shop: Workshop) -> None:
    """Merging a row again does not double it."""
    shop.configure(MERGE)
    copy_one_by_one(shop, 1, 2)
    set_to(shop, when(1))

    assert shop.copy().rows == 1
    assert shop.ids() == [1, 2]


def test_set_wants_a_value_for_every_cursor_column(shop: Workshop) -> None:
    """Half a position is no position."""
    shop.configure('cursor = ["ts", "id"]')

    with pytest.raises(UsageError, match="needs 2 value"):
        set_to(shop, when(1))

    assert set_to(shop, when(1), "7").position is not None
    shop.add([{"id": 7, "ts": at(1)}, {"id": 8, "ts": at(1)}])
    shop.copy()
    assert shop.ids() == [8]


def test_a_tie_breaker_that_is_added_later_needs_a_place(shop: Workshop) -> None:
    """A watermark of one column does not say where the second one stands; `set` does."""
    copy_one_by_one(shop, 1, 2)
    shop.configure('cursor = ["ts", "id"]')
    shop.add([{"id": 3, "ts": at(2)}])

    failure = shop.run().failure
    assert failure is not None
    assert "has 1 value(s), but the cursor has 2 column(s): ts, id" in failure.message
    assert "holdfast state set p.t TS ID" in failure.hint

    with pytest.raises(UsageError, match="would copy rows a second time"):
        set_to(shop, "2024-06-01 10:01:00", "1")
    set_to(shop, "2024-06-01 10:02:00", "2")
    shop.copy()
    assert shop.ids() == [1, 2, 3]


def test_set_without_a_cursor_is_refused(shop: Workshop) -> None:
    """A table that is copied whole has no place to set."""
    shop.configure('strategy = "full_refresh"')

    with pytest.raises(UsageError, match="copied whole at every run"):
        set_to(shop, "1")


def test_a_time_may_be_written_in_any_zone(shop: Workshop) -> None:
    """What is stored is always UTC, to the microsecond."""
    copy_one_by_one(shop, 1)

    watermark = set_to(shop, "2024-06-01 16:30:00.5+05:30")

    assert str(watermark.position) == "2024-06-01T11:00:00.500000Z"


def test_rewind_goes_to_the_end_of_a_batch(shop: Workshop) -> None:
    """Asked for a place inside a batch, it goes to the end of the one before."""
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2), row(4)])
    shop.copy()
    shop.add([row(5)])
    shop.copy()

    watermark = rewind(shop, to=[when(3)])

    assert str(watermark.position) == when(1)
    assert len(watermark.retire) == 2


def test_a_rewound_table_ends_exactly_like_its_source(shop: Workshop) -> None:
    """The next run replaces the batches after the place; corrected rows come, no row doubles."""
    copy_one_by_one(shop, 1, 2, 3)
    shop.rewrite([row(1), {"id": 20, "ts": at(2)}, row(3), row(4)])
    rewind(shop, to=[when(1)])
    assert shop.ids() == [1, 2, 3], "the target stays as it is until the run"

    outcome = shop.copy()

    assert (outcome.reason, outcome.rows) == ("rewound", 3)
    assert shop.ids() == [1, 3, 4, 20]
    assert len(shop.batches()) == 2
    assert shop.run().status == "unchanged"


def test_a_rewind_to_rows_that_are_gone_takes_them_out(shop: Workshop) -> None:
    """The batches after the place are replaced even when the source has nothing there."""
    copy_one_by_one(shop, 1, 2, 3)
    shop.rewrite([row(1)])
    rewind(shop, to=[when(1)])

    shop.copy()

    assert shop.ids() == [1]


def test_a_table_can_be_rewound_twice_before_it_runs(shop: Workshop) -> None:
    """The second rewind goes further back; everything after it is replaced once."""
    copy_one_by_one(shop, 1, 2, 3)
    rewind(shop, to=[when(2)])
    rewind(shop, to=[when(1)])

    assert shop.copy().rows == 2
    assert shop.ids() == [1, 2, 3]


def test_a_table_can_be_rewound_again_after_it_ran(shop: Workshop) -> None:
    """Batches that were replaced are no places to go back to."""
    copy_one_by_one(shop, 1, 2, 3)
    rewind(shop, to=[when(1)])
    shop.copy()
    shop.add([row(4)])
    shop.copy()

    assert str(rewind(shop, to=[when(2)]).position) == when(1)
    shop.copy()

    assert shop.ids() == [1, 2, 3, 4]


def test_a_rewind_can_be_taken_back_by_version(shop: Workshop) -> None:
    """Going to the version before the rewind leaves the target as it is, nothing missing."""
    copy_one_by_one(shop, 1, 2, 3)
    rewind(shop, to=[when(1)])

    watermark = rewind(shop, version=3)

    assert (str(watermark.position), watermark.retire) == (when(3), ())
    shop.add([row(4)])
    assert shop.copy().rows == 1
    assert shop.ids() == [1, 2, 3, 4]


def test_rewind_by_version(shop: Workshop) -> None:
    """A version of the history names the place as well as a value does."""
    copy_one_by_one(shop, 1, 2, 3)

    assert str(rewind(shop, version=1).position) == when(1)
    with pytest.raises(UsageError, match="no watermark in version 17"):
        rewind(shop, version=17)


def test_rewind_with_tie_breakers_takes_the_first_column(shop: Workshop) -> None:
    """A value for the first column alone stands for every row that has it."""
    shop.configure('cursor = ["ts", "id"]')
    for number in (1, 2):
        shop.add([{"id": number, "ts": at(1)}])
        shop.copy()
    shop.add([row(3)])
    shop.copy()

    watermark = rewind(shop, to=[when(1)])

    assert watermark.position is not None
    assert watermark.position.values == (when(1), "2")
    shop.copy()
    assert shop.ids() == [1, 2, 3]


def test_rewind_forward_is_refused(shop: Workshop) -> None:
    """Skipping rows is what `set` is for, and the message says so."""
    copy_one_by_one(shop, 1)

    with pytest.raises(UsageError, match="lies after the watermark") as caught:
        rewind(shop, to=[when(2)])

    assert "holdfast state set p.t" in caught.value.hint


def test_rewind_before_the_first_batch_is_refused(shop: Workshop) -> None:
    """That is copying everything again, which `delete` does."""
    copy_one_by_one(shop, 2)

    with pytest.raises(UsageError, match="no batch that ends at or before") as caught:
        rewind(shop, to=[when(1)])

    assert "holdfast state delete p.t" in caught.value.hint


def test_a_table_without_a_watermark_cannot_be_rewound(shop: Workshop) -> None:
    """There is no place to go back from."""
    copy_one_by_one(shop, 1)
    with shop.open() as project:
        project.state.delete("p.t")

    with pytest.raises(UsageError, match="has no watermark to rewind"):
        rewind(shop, version=1)


def test_set_after_a_rewind_is_refused_until_it_ran(shop: Workshop) -> None:
    """The batches to be replaced would stay, or go without being copied again."""
    copy_one_by_one(shop, 1, 2)
    rewind(shop, to=[when(1)])

    with pytest.raises(UsageError, match="was rewound and not run since"):
        set_to(shop, when(5))


def test_rewind_never_crosses_a_merge(shop: Workshop) -> None:
    """A merge wrote the batches before it anew: they are no longer there to keep."""
    shop.configure(MERGE)
    copy_one_by_one(shop, 1, 2)
    shop.configure('watermark = "ts"')
    copy_one_by_one(shop, 3)

    with pytest.raises(UsageError, match="no batch that ends at or before"):
        rewind(shop, to=[when(1)])

    rewind(shop, to=[when(2)])
    shop.copy()
    assert shop.ids() == [1, 2, 3]


def test_a_full_refresh_starts_a_new_history_of_batches(shop: Workshop) -> None:
    """Batches from before it cannot be gone back to."""
    copy_one_by_one(shop, 1, 2)
    shop.copy(full_refresh=True)

    with pytest.raises(UsageError, match="no batch that ends at or before"):
        rewind(shop, to=[when(1)])


def changes(project: holdfast.Project) -> list[Callable[[], Watermark]]:
    """Everything that changes a watermark on purpose."""
    return [
        lambda: project.state.set("p.t", [when(5)]),
        lambda: project.state.rewind("p.t", version=1),
        lambda: project.state.delete("p.t"),
    ]


def test_nothing_is_changed_during_a_run(shop: Workshop) -> None:
    """Whoever holds the pipeline decides where it stands; the message names the process."""
    copy_one_by_one(shop, 1)
    with shop.open() as running:
        lease = running.records.leases.acquire("p", "a-run")
        with shop.open() as project:
            for change in changes(project):
                with pytest.raises(PipelineBusy, match=rf"process {lease.pid} .*run a-run"):
                    change()
        running.records.leases.release("p", lease)

    set_to(shop, when(5))


def test_nothing_is_changed_while_a_batch_is_unfinished(shop: Workshop) -> None:
    """What a crash left open is finished first, and the message says how."""
    copy_one_by_one(shop, 1)
    shop.add([row(2)])
    crash(shop, "after_publish")

    with shop.open() as project:
        assert project.state.get("p.t").open_batch is not None
        for change in changes(project):
            with pytest.raises(UsageError, match="unfinished batch") as caught:
                change()
            assert "holdfast run p --table p.t" in caught.value.hint
    shop.copy()
    assert shop.state().open_batch is None
    assert shop.ids() == [1, 2]


def test_a_batch_open_before_the_first_commit_is_shown(shop: Workshop) -> None:
    """A table whose very first batch crashed is already there to be looked at."""
    shop.add([row(1)])
    crash(shop, "after_write")

    with shop.open() as project:
        (state,) = project.state.show()

    assert state.watermark is None
    assert state.open_batch is not None
    assert state.open_batch.reason == "first_run"


def test_matching_finds_at_least_one_table(shop: Workshop) -> None:
    """A glob stands for the tables it matches; one that matches nothing is a mistake."""
    copy_one_by_one(shop, 1)

    with shop.open() as project:
        assert project.state.matching("p.*") == ["p.t"]
        with pytest.raises(UsageError, match="remembers no table"):
            project.state.matching("q.*")
