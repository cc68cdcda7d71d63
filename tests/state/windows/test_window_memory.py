"""The pending index in memory is bounded, lazy, and never wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from holdfast.state import Hashes, Snapshot, Store, open_store
from holdfast.state.codes import FIRST
from holdfast.state.windows import Tumbling, WindowMemory, WindowState

from .world import NAME, Row, add, held, merge, partials, schemas, windows_on

SECOND = 1_000_000
EVERY_SECOND = Tumbling(SECOND)
MANY = 1000


def rows(first: int, last: int) -> list[Row]:
    """Return one row a second."""
    return [(f"key {second}", second * SECOND) for second in range(first, last)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> tuple[Path, list[Snapshot]]:
    """A checkpoint with many pending windows, one a second."""
    with open_store(tmp_path, schemas()) as store, store.begin(0, now_ms=0) as transaction:
        add(WindowState(transaction, NAME, EVERY_SECOND, merge), rows(0, MANY))
        return tmp_path, [transaction.commit()]


@pytest.fixture
def store(checkpoint: tuple[Path, list[Snapshot]]) -> Iterator[Store]:
    """The checkpoint, opened again."""
    directory, snapshots = checkpoint
    with open_store(directory, schemas(), snapshots=snapshots) as opened:
        yield opened


def test_nothing_is_read_until_something_fires(store: Store) -> None:
    """Opening a store, and adding to it, costs the index nothing."""
    memory = WindowMemory()
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        add(state, rows(5, 10))
        assert memory.counts.scans == 0
        assert memory.counts.held == 0
        assert len(held(state.fire(SECOND))) == 1


def test_no_more_entries_are_held_than_allowed(store: Store) -> None:
    """Whatever is added in front or behind, and whatever fires."""
    memory = WindowMemory(10)
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        for step in range(1, 40):
            add(state, [*rows(step, step + 30), *rows(MANY + step, MANY + step + 3)])
            assert memory.counts.held <= 10
            assert len(held(state.fire(step * SECOND))) == 1
            assert memory.counts.held <= 10
        assert memory.counts.spilled


def test_firing_reads_what_is_due_and_little_more(store: Store) -> None:
    """One window in a hundred is due: not many more are read."""
    memory = WindowMemory(20)
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        assert len(held(state.fire(10 * SECOND))) == 10
        assert memory.counts.rows_due == 10
        assert memory.counts.rows_ahead < 100


def test_while_nothing_is_due_the_backend_is_left_alone(store: Store) -> None:
    """The memory knows when the next window is due, also if others have spilled."""
    memory = WindowMemory(20)
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        list(state.fire(10 * SECOND))
        scans = memory.counts.scans
        for step in range(100):
            assert held(state.fire(10 * SECOND + step)) == {}
        assert memory.counts.scans == scans


def test_what_is_held_fires_without_reading_the_index(store: Store) -> None:
    """Also in the next epoch: the memory lives as long as the store."""
    memory = WindowMemory()
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        list(state.fire(0))
    assert memory.counts.held == MANY
    assert not memory.counts.spilled
    scans = memory.counts.scans
    for epoch in range(2, 5):
        with windows_on(store, epoch, EVERY_SECOND, memory) as state:
            add(state, rows(MANY + epoch, MANY + epoch + 1))
            assert len(held(state.fire((epoch - 1) * SECOND))) == 1
    assert memory.counts.scans == scans
    assert memory.counts.held == MANY


def test_windows_that_spilled_fire_when_the_watermark_gets_there(store: Store) -> None:
    """A leap over everything that is held fires everything behind it too."""
    memory = WindowMemory(7)
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        assert len(held(state.fire(500 * SECOND))) == 500
        assert len(held(state.fire(501 * SECOND))) == 1
        assert len(held(state.fire(MANY * SECOND))) == 499


def test_firing_that_was_broken_off_goes_on_later(store: Store) -> None:
    """Every piece is settled by itself: what was given out does not come again."""
    memory = WindowMemory(7)
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        list(state.fire(0))
        first = held(next(state.fire(500 * SECOND)))
        assert 0 < len(first) <= 7
    with windows_on(store, 2, EVERY_SECOND, memory) as state:
        rest = held(state.fire(500 * SECOND))
    assert len(rest) == 500 - len(first)
    assert not first.keys() & rest.keys()


def test_more_windows_at_one_time_than_fit_in_memory_fire_together(tmp_path: Path) -> None:
    """Every key has a window that ends at the same time."""
    memory = WindowMemory(5)
    opened = open_store(tmp_path, schemas())
    with opened as store, windows_on(store, 0, EVERY_SECOND, memory) as state:
        list(state.fire(0))
        add(state, [(f"key {number}", 1) for number in range(100)])
        assert memory.counts.held <= 5
        assert held(state.fire(SECOND - 1)) == {}
        assert len(held(state.fire(SECOND))) == 100


def test_the_first_window_that_spilled_may_be_the_last_of_its_millisecond(tmp_path: Path) -> None:
    """A hash of all ones puts it at the very end of the range that is due."""
    memory = WindowMemory(1)
    opened = open_store(tmp_path, schemas())
    with opened as store, windows_on(store, 0, EVERY_SECOND, memory) as state:
        list(state.fire(0))
        last = Hashes(np.array([-1, -1]), np.array([0, 0], np.int32))
        start = np.array([0, SECOND])
        owners = state.owners({"who": ["a", "a"]}, last)
        state.add(owners, start, start + SECOND, partials([0, 1]), 0)
        assert memory.counts.held == 1
        assert len(held(state.fire(2 * SECOND))) == 2


def test_an_aborted_epoch_leaves_the_memory_as_the_state_is(store: Store) -> None:
    """What fired in it fires again, what was added in it is gone, and so is its watermark."""
    memory = WindowMemory()
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        assert len(held(state.fire(SECOND))) == 1
    with store.begin(2, now_ms=0) as transaction:
        state = WindowState(transaction, NAME, EVERY_SECOND, merge, memory=memory)
        add(state, rows(MANY, MANY + 5))
        assert len(held(state.fire(20 * SECOND))) == 19
    with windows_on(store, 3, EVERY_SECOND, memory) as state:
        assert memory.watermark_us == SECOND
        assert len(held(state.fire(3 * SECOND))) == 2
        assert len(held(state.flush())) == MANY - 3


def test_a_memory_that_meets_another_store_begins_anew(
    checkpoint: tuple[Path, list[Snapshot]],
) -> None:
    """State opened again at an older checkpoint has windows that the memory had seen fire."""
    directory, snapshots = checkpoint
    memory = WindowMemory()
    for _ in range(2):
        opened = open_store(directory, schemas(), snapshots=snapshots)
        with opened as store, windows_on(store, 1, EVERY_SECOND, memory) as state:
            assert len(held(state.flush())) == MANY


def test_a_memory_that_missed_an_epoch_begins_anew(store: Store) -> None:
    """What was added without it fires all the same, and the watermark stays."""
    memory = WindowMemory()
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        assert len(held(state.fire(SECOND))) == 1
    assert not memory.counts.spilled
    with windows_on(store, 2, EVERY_SECOND, WindowMemory()) as state:
        add(state, [("past it", 5 * SECOND)])
    with windows_on(store, 3, EVERY_SECOND, memory) as state:
        assert memory.watermark_us == SECOND
        assert ("past it", 5 * SECOND, 6 * SECOND) in held(state.fire(10 * SECOND))


def test_two_memories_in_one_epoch_notice_each_other(store: Store) -> None:
    """Also if the other wrote last, and only the next epoch asks."""
    memory, other = WindowMemory(), WindowMemory()
    with store.begin(1, now_ms=0) as transaction:
        one = WindowState(transaction, NAME, EVERY_SECOND, merge, memory=memory)
        list(one.fire(0))
        two = WindowState(transaction, NAME, EVERY_SECOND, merge, memory=other)
        add(two, [("first", 0)])
        assert ("first", 0, SECOND) in held(one.fire(SECOND))
        list(one.fire(SECOND))
        add(two, [("second", 5 * SECOND)])
        transaction.commit()
    with windows_on(store, 2, EVERY_SECOND, memory) as state:
        assert ("second", 5 * SECOND, 6 * SECOND) in held(state.fire(10 * SECOND))


def test_the_watermark_of_the_checkpoint_is_where_a_memory_begins(store: Store) -> None:
    """After a restart a lower watermark still counts as the highest one."""
    memory = WindowMemory(watermark_us=30 * SECOND)
    with windows_on(store, 1, EVERY_SECOND, memory) as state:
        assert add(state, rows(0, 40), FIRST).late.sum() == 30
        assert len(held(state.fire(0))) == 30
