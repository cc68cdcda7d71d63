"""Rows fall into windows, windows fire when the watermark has passed them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import StateDamaged, StateMismatch
from holdfast.state import Store, TableSchema, Transaction, open_store
from holdfast.state.windows import Session, Sliding, Tumbling, WindowMemory, WindowSpec, WindowState

from .world import KEY, NAME, VALUE, add, held, merge, partials, schemas, stored, windows_on


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store with the tables of the windows."""
    with open_store(tmp_path, schemas()) as opened:
        yield opened


@pytest.fixture
def transaction(store: Store) -> Transaction:
    """The transaction of the first epoch."""
    return store.begin(0, now_ms=0)


def windows(transaction: Transaction, spec: WindowSpec, lateness_us: int = 0) -> WindowState:
    """Return windows over a transaction."""
    return WindowState(transaction, NAME, spec, merge, lateness_us=lateness_us)


def test_a_window_fires_when_the_watermark_reaches_its_end(transaction: Transaction) -> None:
    """Not a microsecond before, once, and then it is gone."""
    state = windows(transaction, Tumbling(10))
    add(state, [("a", 1), ("a", 9), ("b", 3), ("a", 10)])
    assert held(state.fire(9)) == {}
    assert held(state.fire(10)) == {("a", 0, 10): (2, 0, (0, 1)), ("b", 0, 10): (1, 2, (2,))}
    assert held(state.fire(10)) == {}
    assert stored(state, transaction)[0] == {("a", 10, 20, 20)}


def test_adding_says_what_changed(transaction: Transaction) -> None:
    """Every changed window comes once, with what it holds now, for those who emit updates."""
    state = windows(transaction, Tumbling(10))
    add(state, [("a", 1)], ids=[5])
    added = add(state, [("a", 2), ("a", 3), ("b", 4)], ids=[6, 7, 8])
    assert held(added.windows) == {("a", 0, 10): (3, 5, (5, 6, 7)), ("b", 0, 10): (1, 8, (8,))}
    assert not added.late.any()
    assert not added.fired_before.any()


def test_rows_of_a_closed_window_are_late(transaction: Transaction) -> None:
    """They are handed back by position and change nothing."""
    state = windows(transaction, Tumbling(10))
    added = add(state, [("a", 9), ("a", 10), ("b", 3)], watermark_us=10)
    assert added.late.tolist() == [True, False, True]
    assert held(state.flush()) == {("a", 10, 20): (1, 1, (1,))}


def test_a_row_can_be_late_for_one_window_and_not_for_the_next(transaction: Transaction) -> None:
    """Sliding windows are closed one by one."""
    state = windows(transaction, Sliding(10, 5))
    added = add(state, [("a", 7)], watermark_us=10)
    assert added.late.tolist() == [True, False]
    assert list(held(state.flush())) == [("a", 5, 15)]


def test_a_batch_of_nothing_but_late_rows_changes_nothing(transaction: Transaction) -> None:
    """All of them are late, and no window comes back."""
    state = windows(transaction, Session(10))
    added = add(state, [("a", 1), ("b", 2)], watermark_us=100)
    assert added.late.all()
    assert len(added.windows) == len(added.retracted) == len(added.fired_before) == 0
    assert stored(state, transaction) == (set(), set())


def test_a_late_row_within_the_lateness_fires_its_window_again(transaction: Transaction) -> None:
    """The window comes with its whole content, and only if something changed it."""
    state = windows(transaction, Tumbling(10), lateness_us=5)
    add(state, [("a", 1), ("b", 1)])
    assert len(held(state.fire(10))) == 2
    added = add(state, [("a", 2)], watermark_us=12, ids=[7])
    assert added.fired_before.tolist() == [True]
    assert held(state.fire(12)) == {("a", 0, 10): (2, 0, (0, 7))}
    assert held(state.fire(14)) == {}


def test_a_fired_window_is_removed_in_silence_once_its_lateness_is_over(
    transaction: Transaction,
) -> None:
    """Until then it is kept, and from then on its rows are late."""
    state = windows(transaction, Tumbling(10), lateness_us=5)
    add(state, [("a", 1)])
    list(state.fire(10))
    assert stored(state, transaction) == ({("a", 0, 10, 15)}, {("a", 0, 10, 15)})
    assert held(state.fire(15)) == {}
    assert stored(state, transaction) == (set(), set())
    assert add(state, [("a", 1)], watermark_us=15).late.all()


def test_lateness_may_change_from_one_epoch_to_the_next(store: Store) -> None:
    """A window that fired waits as long as was said then, and no entry is left behind."""
    with windows_on(store, 0, Tumbling(10), WindowMemory(), lateness_us=5) as state:
        add(state, [("a", 1), ("b", 1)])
        assert len(held(state.fire(10))) == 2
    transaction = store.begin(1, now_ms=0)
    longer = windows(transaction, Tumbling(10), lateness_us=50)
    add(longer, [("b", 2)], watermark_us=11, ids=[7])
    assert held(longer.fire(15)) == {("b", 0, 10): (2, 1, (1, 7))}
    assert stored(longer, transaction) == ({("b", 0, 10, 60)}, {("b", 0, 10, 60)})


def test_a_late_change_is_not_lost_when_the_watermark_leaps(transaction: Transaction) -> None:
    """The window fires with its last change even if its lateness is over by then."""
    state = windows(transaction, Tumbling(10), lateness_us=5)
    add(state, [("a", 1)])
    list(state.fire(10))
    add(state, [("a", 2)], watermark_us=14)
    assert held(state.fire(1000)) == {("a", 0, 10): (2, 0, (0, 0))}
    assert stored(state, transaction) == (set(), set())


def test_a_lower_watermark_counts_as_the_highest_one(transaction: Transaction) -> None:
    """A window that is closed stays closed."""
    state = windows(transaction, Tumbling(10))
    assert held(state.fire(10)) == {}
    assert add(state, [("a", 1)], watermark_us=0).late.all()
    add(state, [("a", 11)], watermark_us=20 - 1)
    assert held(state.fire(0)) == {}


def test_whether_firing_or_adding_comes_first_does_not_matter(tmp_path: Path) -> None:
    """A session that is over at the watermark takes no more rows, fired or not."""
    results = []
    for order in ("add first", "fire first"):
        with open_store(tmp_path / order[:3], schemas()) as store:
            state = windows(store.begin(0, now_ms=0), Session(10))
            add(state, [("a", 0)])
            fired = held(state.fire(10)) if order == "fire first" else {}
            add(state, [("a", 5)], watermark_us=10, ids=[1])
            results.append(fired | held(state.fire(10)) | held(state.flush()))
    assert results[0] == results[1]
    assert list(results[0]) == [("a", 0, 10), ("a", 5, 15)]


def test_sessions_that_touch_are_one_and_sessions_apart_are_two(transaction: Transaction) -> None:
    """An event exactly one gap after the last still belongs, one microsecond later not."""
    state = windows(transaction, Session(10))
    add(state, [("a", 0), ("b", 0), ("c", 0)])
    add(state, [("a", 9), ("b", 10), ("c", 11)], ids=[3, 4, 5])
    assert sorted(held(state.flush())) == [
        ("a", 0, 19),
        ("b", 0, 20),
        ("c", 0, 10),
        ("c", 11, 21),
    ]


def test_one_row_can_bridge_stored_sessions(transaction: Transaction) -> None:
    """The absorbed sessions and their entries are gone; other keys are left alone."""
    state = windows(transaction, Session(10))
    add(state, [("a", 0), ("a", 20), ("a", 40), (None, 0), (None, 20)])
    added = add(state, [("a", 10), ("a", 29)], ids=[5, 6])
    assert held(added.windows) == {("a", 0, 39): (4, 0, (0, 1, 5, 6))}
    assert stored(state, transaction)[0] == {
        ("a", 0, 39, 39),
        ("a", 40, 50, 50),
        (None, 0, 10, 10),
        (None, 20, 30, 30),
    }


def test_a_row_inside_a_session_does_not_shorten_it(transaction: Transaction) -> None:
    """Rows may come already merged, and then be longer than what follows."""
    state = windows(transaction, Session(10))
    owners = state.owners({"who": ["a", "a", "a"]})
    start, end = np.array([0, 5, 30]), np.array([50, 15, 40])
    state.add(owners, start, end, partials([0, 1, 2]), 0)
    assert held(state.flush()) == {("a", 0, 50): (3, 0, (0, 1, 2))}


def test_a_session_that_fired_and_then_grew_is_retracted(transaction: Transaction) -> None:
    """What had been given out comes back, as it was, so that it can be taken back."""
    state = windows(transaction, Session(10), lateness_us=100)
    add(state, [("a", 0)])
    assert list(held(state.fire(12))) == [("a", 0, 10)]
    added = add(state, [("a", 7)], watermark_us=12, ids=[1])
    assert held(added.retracted) == {("a", 0, 10): (1, 0, (0,))}
    assert not added.fired_before.any()
    assert held(state.fire(17)) == {("a", 0, 17): (2, 0, (0, 1))}


def test_a_session_that_fired_is_retracted_also_if_a_late_row_came_in_between(
    transaction: Transaction,
) -> None:
    """A late row that leaves the bounds as they are does not make undone that it had fired."""
    state = windows(transaction, Session(10), lateness_us=1000)
    add(state, [("a", 0)])
    assert list(held(state.fire(10))) == [("a", 0, 10)]
    assert add(state, [("a", 0)], watermark_us=10, ids=[1]).fired_before.tolist() == [True]
    added = add(state, [("a", 5)], watermark_us=10, ids=[2])
    assert held(added.retracted) == {("a", 0, 10): (2, 0, (0, 1))}
    assert not added.fired_before.any()
    assert held(state.fire(100)) == {("a", 0, 15): (3, 0, (0, 1, 2))}


def test_a_window_that_fired_has_fired_before_however_often_it_changes(
    transaction: Transaction,
) -> None:
    """Until it is removed, and also if it has not fired again in between."""
    state = windows(transaction, Tumbling(10), lateness_us=5)
    add(state, [("a", 1)])
    list(state.fire(10))
    for _ in range(2):
        assert add(state, [("a", 2)], watermark_us=12).fired_before.tolist() == [True]
    assert len(held(state.fire(12))) == 1
    assert add(state, [("a", 2)], watermark_us=13).fired_before.tolist() == [True]


def test_rows_added_while_firing_fire_in_the_same_loop(store: Store) -> None:
    """Nothing is skipped, wherever the row falls and whatever the memory knew before."""
    memory = WindowMemory()
    with windows_on(store, 0, Tumbling(10**6), memory, lateness_us=10**8) as state:
        add(state, [("a", 0)])
    fired = []
    with windows_on(store, 1, Tumbling(10**6), memory, lateness_us=10**8) as state:
        for piece in state.fire(50 * 10**6):
            fired += list(held(piece))
            if len(fired) == 1:
                assert not add(state, [("b", 5 * 10**6)], 50 * 10**6).late.any()
        assert fired == [("a", 0, 10**6), ("b", 5 * 10**6, 6 * 10**6)]
        assert held(state.fire(51 * 10**6)) == held(state.flush()) == {}


def test_a_session_that_grows_while_firing_fires_as_it_is_then(store: Store) -> None:
    """What would have come next is absorbed before it was given out."""
    with windows_on(store, 0, Session(10_000), WindowMemory()) as state:
        add(state, [("a", 0)])
    with windows_on(store, 1, Session(10_000), WindowMemory(), lateness_us=100_000) as state:
        # In another layer than the first, so that the two do not come together.
        add(state, [("b", 10_000)], ids=[1])
        firing = state.fire(50_000)
        assert list(held(next(firing))) == [("a", 0, 10_000)]
        added = add(state, [("b", 15_000)], 50_000, ids=[2])
        assert len(added.retracted) == 0
        assert held(firing) == {("b", 10_000, 25_000): (2, 1, (1, 2))}


def test_windows_fire_once_if_two_loops_fire_at_the_same_time(store: Store) -> None:
    """Whichever comes first gives a window out."""
    with windows_on(store, 0, Tumbling(10_000), WindowMemory()) as state:
        add(state, [("a", 0)])
    with windows_on(store, 1, Tumbling(10_000), WindowMemory(), lateness_us=10**6) as state:
        add(state, [("a", 10_000), ("a", 20_000)])
        one, other = state.fire(100_000), state.fire(100_000)
        pieces = [held(next(one)), held(next(other)), held(one), held(other)]
        fired = [window for piece in pieces for window in piece]
        assert sorted(fired) == [("a", 0, 10_000), ("a", 10_000, 20_000), ("a", 20_000, 30_000)]


def test_a_lateness_beyond_all_times_keeps_windows_for_good(transaction: Transaction) -> None:
    """All of them wait at the end of time, where the order of the index tells none apart."""
    for lateness_us in (10**18, 2**70):
        state = windows(transaction, Tumbling(10), lateness_us=lateness_us)
        rows = [("a", time * 10) for time in range(500)]
        for again in (False, True):
            added = add(state, rows, watermark_us=0)
            assert added.fired_before.all() == again
            assert len(held(state.fire(10_000))) == len(rows)
        assert held(state.flush()) == {}
        assert stored(state, transaction) == (set(), set())


def test_stored_values_are_merged_before_new_ones(transaction: Transaction) -> None:
    """In the order of time and of arrival, so that first and last mean something."""
    state = windows(transaction, Session(10))
    add(state, [("a", 30), ("a", 0)], ids=[30, 0])
    added = add(state, [("a", 20), ("a", 10)], ids=[20, 10])
    assert added.windows.values["ids"].to_pylist() == [[0, 30, 20, 10]]


def test_flushing_fires_everything_and_leaves_nothing(transaction: Transaction) -> None:
    """What had fired already does not fire again."""
    state = windows(transaction, Tumbling(10), lateness_us=5)
    add(state, [("a", 1), ("a", 2**62), (None, -50)])
    assert list(held(state.fire(10))) == [(None, -50, -40), ("a", 0, 10)]
    assert len(held(state.flush())) == 1
    assert stored(state, transaction) == (set(), set())


def test_times_outside_what_the_index_can_order_still_fire_on_time(
    transaction: Transaction,
) -> None:
    """Long before 1691 and long after 2248 all times look alike to the order, not to firing."""
    state = windows(transaction, Tumbling(10))
    early, late = -(2**62), 2**62
    add(state, [("a", early), ("a", early + 100), ("a", late), ("a", late + 100)], -(2**63))
    for time, number in [(early, 0), (early + 100, 1), (late, 2), (late + 100, 3)]:
        (fired,) = held(state.fire(time + 20)).values()
        assert fired == (1, number, (number,))


def test_a_merge_that_fails_has_written_nothing(transaction: Transaction) -> None:
    """The error is the caller's, and the windows are as they were."""

    def fails(values: pa.RecordBatch, starts: Any) -> pa.RecordBatch:
        raise ZeroDivisionError

    state = WindowState(transaction, NAME, Tumbling(10), fails)
    with pytest.raises(ZeroDivisionError):
        add(state, [("a", 1)])
    assert stored(state, transaction) == (set(), set())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (lambda values: values, "gave 2 rows for 1 windows"),
        (lambda values: values[:0], "gave 0 rows for 1 windows"),
        (lambda _: None, "gave None, not an Arrow record batch"),
        (lambda values: values.to_pylist(), "gave a list, not"),
        (lambda values: pa.Table.from_batches([values[:1]]), "gave a Table, not"),
        (lambda values: values[:1].select(["n", "low"]), "gave the columns n, low"),
        (lambda values: values[:1].rename_columns(["n", "low", "x"]), "columns n, low, x"),
        (lambda values: values[:1].rename_columns(["n", "low", "low"]), "columns n, low, low"),
        (lambda values: values[:1].set_column(0, "n", pa.array([0.5])), "'n' is of type double"),
    ],
)
def test_a_merge_must_give_one_row_a_window(
    transaction: Transaction, given: Any, problem: str
) -> None:
    """Anything else is refused, with a hint, before it is stored."""
    state = WindowState(transaction, NAME, Tumbling(10), lambda values, _: given(values))
    with pytest.raises(StateMismatch, match=problem) as refused:
        add(state, [("a", 1), ("a", 2)])
    assert refused.value.hint
    assert stored(state, transaction) == (set(), set())


def test_every_key_needs_one_window_and_one_value(transaction: Transaction) -> None:
    """Columns of different lengths are refused."""
    state = windows(transaction, Tumbling(10))
    owners = state.owners({"who": ["a", "b"]})
    with pytest.raises(StateMismatch, match="2 keys came with 1 starts"):
        state.add(owners, np.array([0]), np.array([10]), partials([1]), 0)


def test_a_due_window_that_is_missing_is_damage(transaction: Transaction) -> None:
    """It is reported, not skipped."""
    state = windows(transaction, Tumbling(10))
    add(state, [("a", 1)])
    table = transaction.table(NAME)
    for rows in list(table.rows()):
        table.delete(rows.as_keys())
    with pytest.raises(StateDamaged, match="1 of 1 windows"):
        list(state.fire(10))


def test_settings_that_make_no_sense_are_refused(transaction: Transaction) -> None:
    """A negative lateness, a memory for nothing, windows that hold nothing."""
    with pytest.raises(StateMismatch, match="stay open for -1 us"):
        windows(transaction, Tumbling(10), lateness_us=-1)
    with pytest.raises(StateMismatch, match="index of 0 windows"):
        WindowMemory(0)
    with pytest.raises(StateMismatch, match="no value column"):
        WindowState.schemas_of(NAME, KEY, pa.schema([]))


def test_one_memory_serves_one_operator(tmp_path: Path) -> None:
    """Two operators with one memory would see each other's windows."""
    other: list[TableSchema] = list(
        WindowState.schemas_of("others", KEY, VALUE, hashes=schemas()[0].hashes)
    )
    memory = WindowMemory()
    with open_store(tmp_path, [*schemas(), *other]) as store:
        transaction = store.begin(0, now_ms=0)
        WindowState(transaction, NAME, Tumbling(10), merge, memory=memory)
        with pytest.raises(StateMismatch, match="cannot serve"):
            WindowState(transaction, "others", Tumbling(10), merge, memory=memory)
