"""Conformance of a ledger: transactions, threads, misuse."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import LedgerError, VersionConflict
from holdfast.ledger import ABSENT, Ledger, Record, Transaction, VersionInfo
from holdfast.testing.ledger_suite import (
    NAMESPACE,
    LedgerSuite,
    delete,
    moment,
    number_of,
    record,
    value,
    write,
)


class TransactionConformance(LedgerSuite):
    """A change is all or nothing, and a view is of one moment."""

    def test_a_transaction_sees_its_own_changes(self, ledger: Ledger) -> None:
        """Within a change every kind of read shows what the change has done so far."""
        write(ledger, "old", b"1")
        with ledger.writing() as change:
            change.put(NAMESPACE, "new", b"1")
            change.delete(NAMESPACE, "old")
            assert change.keys(NAMESPACE) == ["new"]
            assert change.get(NAMESPACE, "old") is None
            assert [item.key for item in change.items(NAMESPACE)] == ["new"]
            assert [info.version for info in change.versions(NAMESPACE, "old")] == [2, 1]

    def test_a_change_is_unseen_until_it_is_committed(self, ledger: Ledger) -> None:
        """A reader beside an open change neither waits nor sees any of it."""
        write(ledger, "orders", b"1")
        with self.open() as other:
            with ledger.writing() as change:
                change.put(NAMESPACE, "orders", b"2")
                change.put(NAMESPACE, "customers", b"1")
                for reader in (ledger, other):
                    assert value(reader, "orders") == b"1"
                    with reader.reading() as view:
                        assert view.keys(NAMESPACE) == ["orders"]
                assert self.stored(NAMESPACE, "orders") == [b"1"]
            assert value(other, "orders") == b"2"
        assert self.stored(NAMESPACE, "orders") == [b"1", b"2"]

    def test_an_error_aborts(self, ledger: Ledger) -> None:
        """Leaving a change by an exception undoes all of it and passes the exception on."""
        write(ledger, "orders", b"1", b"2")

        def fail(change: Transaction) -> None:
            change.put(NAMESPACE, "orders", b"3")
            change.prune(NAMESPACE, "orders", 1)
            change.put(NAMESPACE, "customers", b"1")
            change.delete(NAMESPACE, "orders")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError), ledger.writing() as change:
            fail(change)
        assert self.stored(NAMESPACE, "orders") == [b"1", b"2"]
        assert self.stored(NAMESPACE, "customers") == []
        assert value(ledger, "orders") == b"2"

    def test_aborting_by_hand(self, ledger: Ledger) -> None:
        """An aborted change leaves nothing and lets the next writer in."""
        change = ledger.writing()
        change.put(NAMESPACE, "orders", b"1")
        change.abort()
        assert self.stored(NAMESPACE, "orders") == []
        write(ledger, "orders", b"2")
        assert self.stored(NAMESPACE, "orders") == [b"2"]

    def test_a_view_does_not_move(self, ledger: Ledger) -> None:
        """A reader goes on seeing the moment it began, whatever is committed meanwhile."""
        write(ledger, "orders", b"1", b"2")
        with self.open() as other, ledger.reading() as view, other.reading() as other_view:
            with ledger.writing() as change:
                change.put(NAMESPACE, "orders", b"3")
                change.prune(NAMESPACE, "orders", 1)
                change.put(NAMESPACE, "customers", b"1")
            for seen in (view, other_view):
                assert seen.get(NAMESPACE, "orders") == record("orders", 2, b"2")
                assert seen.read(NAMESPACE, "orders", 1) == record("orders", 1, b"1")
                assert [info.version for info in seen.versions(NAMESPACE, "orders")] == [2, 1]
                assert seen.keys(NAMESPACE) == ["orders"]
        assert value(ledger, "orders") == b"3"

    def test_a_change_sees_the_newest_commit(self, ledger: Ledger) -> None:
        """A change begins from what any handle committed last."""
        with self.open() as other:
            for number in range(3):
                for handle in (ledger, other):
                    with handle.writing() as change:
                        kept = change.get(NAMESPACE, "orders")
                        sofar = b"" if kept is None or kept.value is None else kept.value
                        change.put(NAMESPACE, "orders", sofar + b"%d" % number)
        assert self.stored(NAMESPACE, "orders")[-1] == b"001122"

    def test_committed_records_survive_closing(self, ledger: Ledger) -> None:
        """Everything is there when the ledger is opened again, history included."""
        write(ledger, "orders", b"1", b"2")
        write(ledger, "customers", b"1")
        delete(ledger, "customers")
        ledger.close()
        ledger.close()
        with self.open() as again, again.reading() as view:
            assert view.get(NAMESPACE, "orders") == record("orders", 2, b"2")
            assert view.versions(NAMESPACE, "orders") == [
                VersionInfo(2, moment(1), 1, False),
                VersionInfo(1, moment(0), 1, False),
            ]
            assert view.keys(NAMESPACE) == ["orders"]
            assert view.read(NAMESPACE, "customers") == Record(
                NAMESPACE, "customers", 2, moment(3), None
            )


class ThreadConformance(LedgerSuite):
    """One handle serves many threads."""

    THREADS = 4
    ROUNDS = 10

    def test_no_compare_and_set_is_lost(self, ledger: Ledger) -> None:
        """Threads that retry on a conflict lose no increment."""

        def increment() -> None:
            while True:
                found = ledger.get(NAMESPACE, "counter")
                number, expect = (0, ABSENT) if found is None else (number_of(found), found.version)
                try:
                    ledger.put(NAMESPACE, "counter", b"%d" % (number + 1), expect=expect)
                except VersionConflict:
                    continue
                return

        self.in_threads(increment)
        assert self.stored(NAMESPACE, "counter")[-1] == b"%d" % (self.THREADS * self.ROUNDS)

    def test_no_change_is_lost(self, ledger: Ledger) -> None:
        """Threads that read and write in one change wait for each other."""

        def increment() -> None:
            with ledger.writing() as change:
                found = change.get(NAMESPACE, "counter")
                number = 0 if found is None else number_of(found)
                change.put(NAMESPACE, "counter", b"%d" % (number + 1))

        self.in_threads(increment)
        assert self.stored(NAMESPACE, "counter")[-1] == b"%d" % (self.THREADS * self.ROUNDS)

    def test_a_reader_never_sees_half_a_change(self, ledger: Ledger) -> None:
        """Two records always changed together are always seen together."""
        torn: list[tuple[Record | None, Record | None]] = []
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                with ledger.reading() as view:
                    left, right = view.get(NAMESPACE, "left"), view.get(NAMESPACE, "right")
                if (left and left.value) != (right and right.value):
                    torn.append((left, right))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for number in range(self.ROUNDS):
                with ledger.writing() as change:
                    change.put(NAMESPACE, "left", b"%d" % number)
                    change.put(NAMESPACE, "right", b"%d" % number)
        finally:
            done.set()
            watcher.join()
        assert torn == []

    def in_threads(self, work: Callable[[], None]) -> None:
        """Do the work `ROUNDS` times in each of `THREADS` threads and pass errors on."""

        def repeat() -> None:
            for _ in range(self.ROUNDS):
                work()

        with ThreadPoolExecutor(self.THREADS) as threads:
            for done in [threads.submit(repeat) for _ in range(self.THREADS)]:
                done.result()


class MisuseConformance(LedgerSuite):
    """A mistake is refused with an error, not with damage or a deadlock."""

    def test_a_thread_writes_one_change_at_a_time(self, ledger: Ledger) -> None:
        """A second change in the same thread is refused, and the first goes on."""
        with ledger.writing() as change:
            with pytest.raises(LedgerError):
                ledger.put(NAMESPACE, "orders", b"2")
            change.put(NAMESPACE, "orders", b"1")
        assert self.stored(NAMESPACE, "orders") == [b"1"]

    def test_a_view_cannot_write(self, ledger: Ledger) -> None:
        """Every kind of write is refused in a view."""
        write(ledger, "orders", b"1")
        attempts: list[Callable[[Transaction], object]] = [
            lambda view: view.put(NAMESPACE, "orders", b"2"),
            lambda view: view.delete(NAMESPACE, "orders"),
            lambda view: view.roll_back(NAMESPACE, "orders", 1),
            lambda view: view.prune(NAMESPACE, "orders", 0),
        ]
        for attempt in attempts:
            with ledger.reading() as view, pytest.raises(LedgerError):
                attempt(view)
        assert self.stored(NAMESPACE, "orders") == [b"1"]

    @pytest.mark.parametrize("end", ["commit", "abort"])
    @pytest.mark.parametrize("writing", [True, False])
    def test_a_transaction_ends_once(self, ledger: Ledger, writing: bool, end: str) -> None:
        """Nothing can be done with a transaction that is over."""
        ended = ledger.begin(write=writing)
        getattr(ended, end)()
        attempts: list[Callable[[], object]] = [
            lambda: ended.get(NAMESPACE, "orders"),
            lambda: ended.keys(NAMESPACE),
            lambda: ended.versions(NAMESPACE, "orders"),
            lambda: ended.put(NAMESPACE, "orders", b"1"),
            lambda: ended.prune(NAMESPACE, "orders", 1),
            ended.commit,
        ]
        for attempt in attempts:
            with pytest.raises(LedgerError):
                attempt()
        assert self.stored(NAMESPACE, "orders") == []

    def test_a_closed_ledger_is_refused(self, ledger: Ledger) -> None:
        """A closed ledger begins no transaction."""
        ledger.close()
        for writing in (True, False):
            with pytest.raises(LedgerError):
                ledger.begin(write=writing)

    @pytest.mark.parametrize(
        ("namespace", "key", "content"),
        [
            ("", "orders", b"1"),
            (NAMESPACE, "", b"1"),
            (NAMESPACE, "\ud800", b"1"),
            (None, "orders", b"1"),
            (NAMESPACE, 7, b"1"),
            (NAMESPACE, "orders", "text"),
            (NAMESPACE, "orders", bytearray(b"1")),
        ],
    )
    def test_wrong_arguments_are_refused(
        self, ledger: Ledger, namespace: str, key: str, content: bytes
    ) -> None:
        """Names are non-empty text and values are bytes; anything else is refused."""
        with pytest.raises((LedgerError, TypeError)), ledger.writing() as change:
            change.put(namespace, key, content)
        with ledger.reading() as view:
            assert view.keys(NAMESPACE) == []
