"""Retention never takes what is needed, and leaves nothing that is not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import failpoints
from holdfast.errors import CheckpointMissing, LeaseLost
from holdfast.ledger import MemoryLedger
from holdfast.objects import LocalObjects, MemoryObjects, ObjectInfo

from .workshop import Workshop, named

HOUR = timedelta(hours=1)


def versions(workshop: Workshop) -> list[int]:
    """The kept versions, oldest first."""
    return [entry.version for entry in workshop.checkpoints.entries()][::-1]


def test_both_limits_must_be_exceeded(workshop: Workshop) -> None:
    """A checkpoint goes only when it is neither among the newest nor young."""
    for _ in range(6):
        workshop.commit()
        workshop.sleep(minutes=20)
    retain = workshop.checkpoints.retain
    assert retain(min_count=6, min_age=timedelta()).versions == ()
    assert retain(min_count=1, min_age=timedelta(hours=2)).versions == ()
    removed = retain(min_count=2, min_age=HOUR)
    assert removed.versions == (1, 2, 3)
    assert versions(workshop) == [4, 5, 6]
    removed = retain(min_count=2, min_age=timedelta())
    assert removed.versions == (4,)


def test_what_is_removed(workshop: Workshop) -> None:
    """Ledger records, manifests and files go; what was freed is said."""
    entries = workshop.commits(3)
    workshop.sleep(hours=2)
    removed = workshop.checkpoints.retain(min_count=1, min_age=HOUR, generation=1)
    assert set(removed.files) == named(entries[0]) | named(entries[1])
    assert removed.bytes == entries[0].bytes + entries[1].bytes
    assert workshop.files() == named(entries[2])
    with workshop.ledger.reading() as view:
        for collection in (workshop.records.checkpoints, workshop.records.manifests):
            assert view.keys(collection.namespace) == ["payments/000000000003"]
            assert view.versions(collection.namespace, "payments/000000000001") == []


def test_shared_files(workshop: Workshop) -> None:
    """A file goes with the last checkpoint that names it."""
    base = workshop.objects.store("payments/files/base.run", b"base")
    workshop.commits(3, carried=(base,))
    workshop.sleep(hours=2)
    workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    assert base.key in workshop.files()
    workshop.commit()
    workshop.sleep(hours=2)
    removed = workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    assert base.key in removed.files
    assert base.key not in workshop.files()


def test_pins(workshop: Workshop) -> None:
    """A pinned checkpoint stays, on the line too, until it is unpinned."""
    entries = workshop.commits(5)
    pin = workshop.checkpoints.pin(entries[1], note="before the migration", actor="asha")
    assert workshop.checkpoints.pins() == [pin]
    workshop.sleep(hours=2)
    workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    assert versions(workshop) == [2, 5]
    assert [entry.version for entry in workshop.checkpoints.line()] == [5, 2]
    workshop.commits(2)
    workshop.sleep(hours=2)
    workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    assert [entry.version for entry in workshop.reopen().line()] == [7, 2]
    workshop.roll_back(entries[1])
    workshop.commits(2)
    assert [entry.version for entry in workshop.checkpoints.line()] == [9, 8, 2]
    assert workshop.checkpoints.unpin(2)
    assert not workshop.checkpoints.unpin(2)
    workshop.sleep(hours=2)
    workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    assert versions(workshop) == [9]
    with workshop.ledger.reading() as view:
        assert view.keys(workshop.records.ancestors.namespace) == []


def test_a_pin_on_what_is_gone(workshop: Workshop) -> None:
    """What was removed cannot be pinned."""
    one = workshop.commits(2)[0]
    workshop.sleep(hours=2)
    workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    with pytest.raises(CheckpointMissing):
        workshop.checkpoints.pin(one, note="", actor="")


def test_a_pin_by_another_process(workshop: Workshop) -> None:
    """A pin that a running pipeline did not set counts all the same."""
    entries = workshop.commits(2)
    running = workshop.checkpoints
    running.retain(min_count=1, min_age=HOUR)
    workshop.reopen().pin(entries[0], note="", actor="")
    workshop.sleep(hours=2)
    assert running.retain(min_count=1, min_age=HOUR).versions == ()


def test_an_open_intent(workshop: Workshop) -> None:
    """What an open epoch started from and reads is protected."""
    entries = workshop.commits(2)
    intent = workshop.intent(entries[0].files[:1])
    workshop.checkpoints.intend(intent, generation=1)
    workshop.sleep(hours=2)
    removed = workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    assert removed.versions == (1,)
    assert entries[0].files[0].key in workshop.files()
    assert entries[0].files[1].key not in workshop.files()


def test_an_abandoned_line(workshop: Workshop) -> None:
    """Abandoned checkpoints go by age alone, however few there are."""
    entries = workshop.commits(4)
    workshop.roll_back(entries[0])
    assert workshop.checkpoints.retain(min_count=100, min_age=HOUR).versions == ()
    workshop.sleep(hours=2)
    assert workshop.checkpoints.retain(min_count=100, min_age=HOUR).versions == (2, 3, 4)
    assert workshop.checkpoints.line() == [entries[0]]


def test_a_clock_that_goes_backwards(workshop: Workshop) -> None:
    """Checkpoints of the future count as young, and do not keep the others from going."""
    workshop.sleep(days=365)
    workshop.commits(3)
    workshop.now -= timedelta(days=365)
    workshop.commits(5)
    assert workshop.checkpoints.retain(min_count=1, min_age=HOUR).versions == ()
    workshop.sleep(hours=2)
    assert workshop.checkpoints.retain(min_count=1, min_age=HOUR).versions == (4, 5, 6, 7)
    assert [entry.version for entry in workshop.checkpoints.line()] == [8, 3, 2, 1]


def test_an_overtaken_process(workshop: Workshop) -> None:
    """A process that lost its pipeline removes nothing."""
    workshop.commits(3)
    workshop.sleep(hours=2)
    workshop.activate()
    before = workshop.files()
    with pytest.raises(LeaseLost):
        workshop.checkpoints.retain(min_count=1, min_age=HOUR, generation=1)
    assert workshop.files() == before


def test_a_head_that_somebody_else_moved(workshop: Workshop) -> None:
    """What another process committed since is seen before anything is removed."""
    entries = workshop.commits(3)
    old = workshop.checkpoints
    old.retain(min_count=1, min_age=HOUR)
    base = entries[0].files[-1]
    workshop.reopen()
    workshop.commit(carried=(base,))
    workshop.sleep(hours=2)
    assert old.retain(min_count=1, min_age=HOUR).versions == (1, 2, 3)
    assert base.key in workshop.files()


def test_two_processes_retain(workshop: Workshop) -> None:
    """What another process removed is not tried again, and its files are accounted for."""
    base = workshop.objects.store("payments/files/base.run", b"base")
    workshop.commits(2, carried=(base,))
    entries = workshop.commits(2)
    running = workshop.checkpoints
    running.retain(min_count=1, min_age=HOUR)
    workshop.sleep(hours=2)
    assert workshop.reopen().retain(min_count=3, min_age=HOUR).versions == (1,)
    assert running.retain(min_count=1, min_age=HOUR).versions == (2, 3)
    assert workshop.files() == named(entries[1])
    assert running.retain(min_count=1, min_age=HOUR).versions == ()


def test_at_most_so_many(workshop: Workshop) -> None:
    """A backlog is worked off in pieces."""
    workshop.commits(8)
    workshop.sleep(hours=2)
    removed = workshop.checkpoints.retain(min_count=1, min_age=HOUR, limit=3)
    assert removed.versions == (1, 2, 3)
    assert len(workshop.checkpoints.retain(min_count=1, min_age=HOUR).versions) == 4


class _UnlistedObjects(MemoryObjects):
    """Refuses to be listed."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        raise AssertionError("retention must not list the location")


def test_it_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of checkpoints and nothing to remove, only the head is read."""
    workshop = Workshop(MemoryLedger(), _UnlistedObjects())
    workshop.activate()
    workshop.commits(300)
    workshop.checkpoints.retain(min_count=1, min_age=HOUR)
    reads: list[str] = []
    ledger = workshop.ledger
    begin = ledger.begin

    def counting(*, write: bool):  # type: ignore[no-untyped-def]
        assert not write
        view = begin(write=write)
        read = view.read

        def counted(namespace: str, key: str, version: int | None = None):  # type: ignore[no-untyped-def]
            reads.append(namespace)
            return read(namespace, key, version)

        view.read = counted  # type: ignore[method-assign]
        return view

    monkeypatch.setattr(ledger, "begin", counting)
    assert workshop.checkpoints.retain(min_count=1, min_age=HOUR).versions == ()
    assert reads == ["heads"]


class Crash(BaseException):
    """A process that ends here."""


def test_a_crash_between_ledger_and_files(disk: Workshop) -> None:
    """The ledger forgets first: a crash leaves files too many, never one too few."""
    disk.commits(4)
    disk.sleep(hours=2)

    def observe(step: str, key: str) -> None:
        if step == "objects.remove":
            raise Crash

    failpoints.observe(observe)
    with pytest.raises(Crash):
        disk.checkpoints.retain(min_count=2, min_age=HOUR)
    failpoints.observe(None)
    book = disk.reopen()
    assert versions(disk) == [3, 4]
    assert all(named(entry) <= disk.files() for entry in book.entries())
    restored = book.restore()
    assert restored is not None
    assert restored.entry.version == 4
    assert isinstance(disk.objects, LocalObjects)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("sleep"), st.integers(-40, 90)),
        st.tuples(st.just("roll_back"), st.integers(0, 20)),
        st.tuples(st.just("pin"), st.integers(0, 20)),
        st.tuples(st.just("unpin"), st.integers(0, 20)),
        st.tuples(st.just("intend"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0)),
        st.tuples(st.just("retain"), st.integers(1, 4)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(actions)
def test_whatever_happens(steps: list[tuple[str, int]]) -> None:
    """No protected file is ever removed, no kept checkpoint lacks one, no file is left over."""
    workshop = Workshop(MemoryLedger(), MemoryObjects())
    workshop.activate()
    for action, number in steps:
        entries = workshop.checkpoints.entries()
        line = workshop.checkpoints.line()
        if action == "commit":
            # Carries on some of the head's state files, as a merge of runs does.
            carried = line[0].files[-number:] if line and number else ()
            workshop.commit(carried=carried)
        elif action == "sleep":
            workshop.sleep(minutes=number)
        elif action == "roll_back" and line:
            workshop.roll_back(line[number % len(line)])
        elif action == "pin" and entries:
            workshop.checkpoints.pin(entries[number % len(entries)], note="", actor="")
        elif action == "unpin" and entries:
            workshop.checkpoints.unpin(entries[number % len(entries)].version)
        elif action == "intend":
            workshop.checkpoints.intend(workshop.intent(), generation=workshop.generation)
        elif action == "reopen":
            workshop.reopen()
        elif action == "retain":
            check_retention(workshop, min_count=number)


def check_retention(workshop: Workshop, min_count: int) -> None:
    """Retain, and compare with what the rules say, worked out the slow way."""
    book = workshop.checkpoints
    before, line = book.entries(), book.line()
    pinned = {pin.version for pin in book.pins()}
    protected = {entry.version for entry in line[:min_count]} | pinned
    protected |= {e.version for e in before if workshop.now - e.created_at <= HOUR}
    removed = set(book.retain(min_count=min_count, min_age=HOUR).versions)
    after = book.entries()
    assert not removed & protected
    assert {e.version for e in after} == {e.version for e in before} - removed
    assert [e.version for e in book.line()] == [e.version for e in line if e in after]
    assert workshop.files() == set().union(*(named(entry) for entry in after))
    ages = [workshop.now - entry.created_at for entry in before]
    if all(older >= newer for newer, older in pairwise(ages)):
        # Where the clock never went backwards, everything that may go goes.
        assert removed == {entry.version for entry in before} - protected
