"""Plans: what a run would do, and doing exactly that."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pyarrow as pa
import pytest

from holdfast.errors import PlanRefused
from holdfast.model import Plan, PlannedTable

from .crashes import crash
from .workshop import MOMENT, Row, Workshop, at

MERGE = 'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]\noverlap = "1 hour"'


def row(number: int) -> Row:
    """A row at its own minute."""
    return {"id": number, "ts": at(number)}


def when(number: int) -> str:
    """The minute of a row, as the ledger writes it."""
    return f"2024-06-01T10:{number:02}:00.000000Z"


def only(plan: Plan) -> PlannedTable:
    """The one table of a plan."""
    (table,) = plan.tables
    return table


def bounds(table: PlannedTable) -> tuple[str | None, str | None]:
    """Low and high as text."""
    return (
        str(table.low) if table.low else None,
        str(table.high) if table.high else None,
    )


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A workshop whose table is appended to by its time."""
    shop.configure('watermark = "ts"')
    return shop


def test_a_first_run_is_planned_from_the_beginning(shop: Workshop) -> None:
    """The plan says what, where to, why and how much, and changes nothing."""
    shop.add([row(1), row(2)])

    plan = shop.plan()

    table = only(plan)
    assert (table.table, table.source, table.target) == ("p.t", "t", str(shop.target()))
    assert (table.action, table.strategy, table.reason) == ("copy", "incremental", "first_run")
    assert bounds(table) == (None, when(2))
    assert (table.rows, table.source_rows, table.replaces_all) == (2, 2, False)
    assert table.batch_id
    assert (plan.pipeline, plan.created_at) == ("p", shop.clock.now)
    assert not shop.target().exists()


def test_newer_rows_are_planned_from_the_watermark(shop: Workshop) -> None:
    """Low is where the last run ended, high the newest row there is."""
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2), row(3)])

    table = only(shop.plan())

    assert (table.reason, table.rows, table.source_rows) == ("watermark", 2, 3)
    assert bounds(table) == (when(1), when(3))


def test_nothing_new_is_nothing_to_do(shop: Workshop) -> None:
    """Applying such a plan leaves everything as it is, newer rows included."""
    shop.add([row(1)])
    shop.copy()
    plan = shop.plan()
    table = only(plan)
    assert (table.action, table.reason, table.batch_id) == ("nothing", None, None)
    shop.add([row(2)])

    result = shop.apply(plan)

    assert [o.status for o in result.outcomes] == ["unchanged"]
    assert shop.ids() == [1]


def test_late_rows_are_planned_from_the_start_of_the_overlap(shop: Workshop) -> None:
    """Nothing is newer, but the overlap holds a row it did not hold before."""
    shop.configure(MERGE)
    shop.add([row(10)])
    shop.copy()
    shop.add([row(5)])

    table = only(shop.plan())

    assert (table.reason, table.rows) == ("late_rows", 2)
    assert bounds(table) == ("2024-06-01T09:10:00.000000Z", when(10))


def test_a_deleted_watermark_is_planned_as_a_replacement(shop: Workshop) -> None:
    """The plan says that the target will be replaced."""
    shop.add([row(1), row(2)])
    shop.copy()
    with shop.open() as project:
        project.state.delete("p.t")

    table = only(shop.plan())

    assert (table.reason, table.rows, table.replaces_all) == ("deleted", 2, True)
    assert bounds(table) == (None, when(2))


def test_a_full_refresh_is_planned_on_request(shop: Workshop) -> None:
    """`plan --full-refresh` stores that choice; apply needs no flag."""
    shop.add([row(1), row(2)])
    shop.copy()

    plan = shop.plan(full_refresh=True)

    table = only(plan)
    assert (table.reason, table.rows, table.replaces_all) == ("refresh", 2, True)
    shop.apply(plan)
    assert len(shop.batches()) == 1
    assert shop.batches() == [table.batch_id]


def test_a_table_copied_whole_is_planned_as_a_refresh(shop: Workshop) -> None:
    """From the second time on; it has no bounds."""
    shop.configure('strategy = "full_refresh"')
    shop.add([row(1)])
    assert only(shop.plan()).reason == "first_run"
    shop.copy()

    table = only(shop.plan())

    assert (table.reason, table.rows, bounds(table)) == ("refresh", 1, (None, None))


def test_a_rewound_table_is_planned_from_where_it_was_rewound_to(shop: Workshop) -> None:
    """The reason tells it from a usual run."""
    for number in (1, 2):
        shop.add([row(number)])
        shop.copy()
    with shop.open() as project:
        project.state.rewind("p.t", version=1)

    table = only(shop.plan())

    assert (table.reason, table.rows) == ("rewound", 1)
    assert bounds(table) == (when(1), when(2))


def test_an_unfinished_batch_is_planned_before_anything_new(shop: Workshop) -> None:
    """Applying the plan finishes exactly that batch; what is newer waits for the next one."""
    shop.add([row(1)])
    crash(shop, "before_publish")
    shop.add([row(2)])

    plan = shop.plan()

    table = only(plan)
    assert (table.action, table.reason, table.rows) == ("copy", "recover", 1)
    result = shop.apply(plan)
    assert [(o.status, o.batch_ids) for o in result.outcomes] == [("copied", (table.batch_id,))]
    assert shop.ids() == [1]


def test_apply_copies_what_was_planned_and_not_what_came_since(shop: Workshop) -> None:
    """Newer rows wait for the next run, under the batch id the plan gave."""
    shop.add([row(1), row(2)])
    plan = shop.plan()
    shop.add([row(3)])

    result = shop.apply(plan)

    assert result.run.plan_id == plan.plan_id
    assert (result.outcomes[0].rows, shop.ids()) == (2, [1, 2])
    assert shop.batches() == [only(plan).batch_id]
    assert shop.watermark() == (when(2),)
    shop.copy()
    assert shop.ids() == [1, 2, 3]


def test_apply_of_a_merge_keeps_to_the_planned_bound_too(shop: Workshop) -> None:
    """Also where rows are re-read within an overlap."""
    shop.configure(MERGE)
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2)])
    plan = shop.plan()
    shop.add([row(3)])

    shop.apply(plan)

    assert shop.ids() == [1, 2]
    shop.copy()
    assert shop.ids() == [1, 2, 3]


@pytest.mark.parametrize("settings", ['watermark = "ts"', MERGE], ids=["append", "merge"])
def test_a_plan_of_an_empty_source_copies_nothing(shop: Workshop, settings: str) -> None:
    """It has no row to bound it by; those that come after it wait all the same."""
    shop.configure(settings)
    shop.add([], types={"id": pa.int64(), "ts": MOMENT})
    plan = shop.plan()
    assert (only(plan).rows, bounds(only(plan))) == (0, (None, None))
    shop.add([row(1)])

    shop.apply(plan)

    assert shop.ids() == []
    shop.copy()
    assert shop.ids() == [1]


def refused(shop: Workshop, plan: Plan) -> str:
    """The message with which a plan is refused, the target being left alone."""
    before = shop.batches()
    with pytest.raises(PlanRefused) as caught:
        shop.apply(plan)
    assert shop.batches() == before
    assert "holdfast plan" in caught.value.hint
    return caught.value.message


def test_a_plan_is_applied_once(shop: Workshop) -> None:
    """Its batch ids must never be used again."""
    shop.add([row(1)])
    plan = shop.plan()
    run = shop.apply(plan).run

    assert f"was already applied by run {run.run_id}" in refused(shop, plan)


def test_a_plan_is_refused_when_the_configuration_moved(shop: Workshop) -> None:
    """The message names the key with its old and new value."""
    shop.add([row(1)])
    plan = shop.plan()
    shop.configure('cursor = ["ts", "id"]')

    message = refused(shop, plan)

    assert "pipeline.p.cursor" in message
    assert '["ts"]' in message
    assert '["ts", "id"]' in message


def test_a_setting_that_moves_no_row_does_not_refuse_a_plan(shop: Workshop) -> None:
    """How fast it copies is nobody's business."""
    shop.add([row(1)])
    plan = shop.plan()
    shop.configure('watermark = "ts"\nconcurrency = 1')

    assert shop.apply(plan).run.status == "success"


def _run(shop: Workshop) -> None:
    shop.copy()


def _set(shop: Workshop) -> None:
    with shop.open() as project:
        project.state.set("p.t", [when(9)])


@pytest.mark.parametrize(("move", "place"), [(_run, when(2)), (_set, when(9))], ids=["run", "set"])
def test_a_plan_is_refused_when_a_watermark_moved(
    shop: Workshop, move: Callable[[Workshop], None], place: str
) -> None:
    """The message says which table's, where to, and by whom."""
    shop.add([row(1)])
    shop.copy()
    shop.add([row(2)])
    plan = shop.plan()
    move(shop)

    message = refused(shop, plan)

    assert f"p.t: the watermark moved to {place} (by " in message


def test_a_plan_is_refused_when_a_batch_was_left_open(shop: Workshop) -> None:
    """A crash in between must be finished first."""
    shop.add([row(1)])
    plan = shop.plan()
    crash(shop, "after_write")

    assert "p.t: another run left a batch open" in refused(shop, plan)


def test_a_table_that_cannot_be_copied_is_blocked(shop: Workshop) -> None:
    """The plan says why, plans the others, and is not applied until that is put right."""
    shop.configure('watermark = "ts"', tables=("t", "u"))
    shop.add([row(1)], "t")
    shop.add([row(1)], "u")
    shop.run_all()
    shutil.rmtree(shop.source("u"))
    shop.add([row(2)], "t")

    plan = shop.plan()

    tables = {t.table: t for t in plan.tables}
    assert tables["p.t"].action == "copy"
    assert tables["p.u"].action == "blocked"
    failure = tables["p.u"].failure
    assert failure is not None
    assert "the source is not there" in failure.message
    assert "could not be made for p.u" in refused(shop, plan)


def test_a_plan_of_some_tables_applies_to_those(shop: Workshop) -> None:
    """The others are neither planned nor run."""
    shop.configure('watermark = "ts"', tables=("t", "u"))
    shop.add([row(1)], "t")
    shop.add([row(1)], "u")

    plan = shop.plan(tables=["u"])
    result = shop.apply(plan)

    assert [t.table for t in plan.tables] == ["p.u"]
    assert result.run.tables == ("p.u",)
    assert not shop.target("t").exists()


def test_a_plan_is_found_by_the_beginning_of_its_id(shop: Workshop) -> None:
    """As long as only one begins like that; an unknown one is refused."""
    shop.add([row(1)])
    plan = shop.plan()
    with shop.open() as project:
        with pytest.raises(PlanRefused, match="is no stored plan"):
            project.apply("nonsense")
        assert project.apply(plan.plan_id[:20]).run.plan_id == plan.plan_id
