"""Conformance of keyed state: transactions, the bounded cache, time to live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from holdfast.errors import StateClosed, StateError, StateMismatch
from holdfast.state import TTL, Restart, Snapshot, Transaction, TransactionState
from holdfast.testing.state_suite import (
    ITEMS,
    StateSuite,
    commit,
    delete,
    get,
    look,
    put,
    rows_of,
    scan,
    single,
)


class TransactionConformance(StateSuite):
    """A transaction is all or nothing, and is over once."""

    def test_reads_see_own_writes(self) -> None:
        """Within a transaction every read shows what it has done so far."""
        store = self.open([ITEMS])
        commit(store, 0, {1: "old", 2: "old"})
        with store.begin(1, now_ms=0) as transaction:
            assert get(transaction, [1, 2, 3]) == [("old",), ("old",), None]
            put(transaction, {1: "new", 3: "new"})
            delete(transaction, [2])
            assert get(transaction, [1, 2, 3]) == [("new",), None, ("new",)]
            put(transaction, {2: "back"})
            delete(transaction, [3])
            assert get(transaction, [3, 2, 1]) == [None, ("back",), ("new",)]
            assert scan(transaction) == rows_of({1: "new", 2: "back"})

    def test_abort_forgets(self) -> None:
        """Nothing of an aborted transaction is left, and the epoch can be done again."""
        store = self.open([ITEMS])
        commit(store, 0, {1: "old", 2: "old"})
        with store.begin(1, now_ms=0) as transaction:
            get(transaction, [1, 2, 3])
            put(transaction, {1: "lost", 3: "lost"})
            delete(transaction, [2])
            transaction.abort()
            transaction.abort()
        assert transaction.state is TransactionState.ABORTED
        assert look(store) == rows_of({1: "old", 2: "old"})
        expected = rows_of({1: "old", 2: "old", 4: "kept"})
        assert self.values(commit(store, 1, {4: "kept"})) == expected

    def test_leaving_the_block_aborts(self) -> None:
        """A transaction that is left without a commit, by an error too, counts for nothing."""
        store = self.open([ITEMS])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, {1: "lost"})

        def fail() -> None:
            with store.begin(0, now_ms=0) as transaction:
                put(transaction, {2: "lost"})
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert self.values(commit(store, 0)) == {}

    @pytest.mark.parametrize("end", ["commit", "abort", "close"])
    def test_a_transaction_ends_once(self, end: str) -> None:
        """Nothing can be done with a transaction that is over."""
        store = self.open([ITEMS])
        transaction = store.begin(0, now_ms=0)
        table = transaction.table(ITEMS.name)
        (store.close if end == "close" else getattr(transaction, end))()
        attempts: list[Callable[[Transaction], object]] = [
            lambda ended: get(ended, [1]),
            lambda ended: put(ended, {1: "x"}),
            lambda ended: delete(ended, [1]),
            scan,
            lambda ended: list(table.rows()),
            lambda ended: ended.commit(),
        ]
        for attempt in attempts:
            with pytest.raises(StateClosed, match=r"epoch 0 is (committed|aborted)"):
                attempt(transaction)

    def test_one_transaction_at_a_time(self) -> None:
        """A second transaction is refused while the first is open, and the first goes on."""
        store = self.open([ITEMS])
        with store.begin(0, now_ms=0) as transaction:
            with pytest.raises(StateClosed, match="epoch 0 is still open"):
                store.begin(1, now_ms=0)
            put(transaction, {1: "a"})
            transaction.commit()
        assert look(store) == rows_of({1: "a"})

    def test_epochs_grow(self) -> None:
        """An epoch that is not after the last one is refused; gaps are fine."""
        store = self.open([ITEMS])
        snapshot = commit(store, 5, {1: "a"})
        for opened in (store, self.open([ITEMS], snapshots=[snapshot])):
            for epoch in (5, 4, 0):
                with pytest.raises(StateMismatch, match=f"Epoch {epoch} cannot follow epoch 5"):
                    opened.begin(epoch, now_ms=0)
        assert commit(store, 9).epoch == 9

    def test_a_closed_store_is_refused(self) -> None:
        """A closed store begins nothing; closing it twice is fine."""
        store = self.open([ITEMS])
        commit(store, 0, {1: "a"})
        store.close()
        store.close()
        with pytest.raises(StateClosed, match="was closed"):
            store.begin(1, now_ms=0)

    def test_a_failed_commit_closes_the_store(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a commit that failed the store must be reopened, and nothing of it counts."""
        store = self.open([ITEMS])
        last = commit(store, 0, {1: "a"})

        def fail(*_: object, **__: object) -> Snapshot:
            raise StateError("The disk is on fire.")

        monkeypatch.setattr(store.backend, "checkpoint", fail)
        transaction = store.begin(1, now_ms=0)
        put(transaction, {1: "lost", 2: "lost"})
        with pytest.raises(StateError, match="on fire"):
            transaction.commit()
        assert transaction.state is TransactionState.FAILED
        with pytest.raises(StateClosed, match="is failed"):
            get(transaction, [1])
        with pytest.raises(StateClosed, match="epoch 1, which failed"):
            store.begin(1, now_ms=0)
        again = self.open([ITEMS], snapshots=[last])
        assert self.values(commit(again, 1, {3: "b"})) == rows_of({1: "a", 3: "b"})


class CacheConformance(StateSuite):
    """The cache is bounded, and nobody notices."""

    TINY = 2_000

    def test_writes_beyond_the_limit(self) -> None:
        """More writes than the cache holds are read, scanned and committed like few ones."""
        store = self.open([ITEMS], cache_bytes=self.TINY)
        expected: dict[int, str] = {}
        for epoch in range(3):
            with store.begin(epoch, now_ms=0) as transaction:
                for part in range(12):
                    puts = dict.fromkeys(range(part * 3, part * 3 + 9), f"{epoch}.{part}" * 20)
                    put(transaction, puts)
                    delete(transaction, [part])
                    expected = {k: v for k, v in (expected | puts).items() if k != part}
                    assert get(transaction, [part, part * 3 + 8]) == [
                        (expected[key],) if key in expected else None
                        for key in (part, part * 3 + 8)
                    ]
                assert scan(transaction) == rows_of(expected)
                snapshot = transaction.commit()
            assert self.values(snapshot) == rows_of(expected)
        assert look(self.open([ITEMS], snapshots=[snapshot])) == rows_of(expected)

    def test_the_backend_gets_writes_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Writes beyond the limit are handed over before the commit, few ones with it."""
        for limit, early in ((self.TINY, True), (2**30, False)):
            store = self.open([ITEMS], cache_bytes=limit)
            handed: list[int] = []
            original = store.backend.write

            def write(changes: Any, original: Any = original, handed: Any = handed) -> None:
                handed.append(len(changes))
                original(changes)

            monkeypatch.setattr(store.backend, "write", write)
            with store.begin(0, now_ms=0) as transaction:
                for key in range(20):
                    put(transaction, {key: "x" * 500})
                assert bool(handed) is early
                transaction.commit()
            assert len(handed) == 1 or early

    def test_abort_after_a_hand_over(self) -> None:
        """An abort after an early hand-over closes the store; its last snapshot is intact."""
        store = self.open([ITEMS], cache_bytes=self.TINY)
        last = commit(store, 0, {1: "a"})
        with store.begin(1, now_ms=0) as transaction:
            for key in range(20):
                put(transaction, {key: "lost" * 100})
        assert transaction.must_reopen
        with pytest.raises(StateClosed, match="epoch 1, which aborted"):
            store.begin(1, now_ms=0)
        again = self.open([ITEMS], snapshots=[last])
        assert look(again) == rows_of({1: "a"})
        assert self.values(commit(again, 1, {2: "b"})) == rows_of({1: "a", 2: "b"})

    def test_a_failed_hand_over_fails_the_transaction(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """When writes cannot be handed over early, the epoch cannot be committed without them."""
        store = self.open([ITEMS], cache_bytes=self.TINY)
        last = commit(store, 0, {1: "a"})

        def fail(_: object) -> None:
            raise StateError("The disk is on fire.")

        transaction = store.begin(1, now_ms=0)
        with monkeypatch.context() as patch:
            patch.setattr(store.backend, "write", fail)
            with pytest.raises(StateError, match="on fire"):
                put(transaction, dict.fromkeys(range(20), "lost" * 100))
        with pytest.raises(StateClosed):
            transaction.commit()
        assert transaction.state is TransactionState.FAILED
        assert look(self.open([ITEMS], snapshots=[last])) == rows_of({1: "a"})


class LifeConformance(StateSuite):
    """Entries with a time to live."""

    OLD = tuple(range(40))

    def expiring(self, restart: Restart = Restart.ON_WRITE, sweep: int = 0) -> Mapping[str, TTL]:
        """Return a life of 100 ms for the table of the suite."""
        return {ITEMS.name: TTL(100, restart, sweep_epochs=sweep)}

    def test_an_entry_lives_for_its_time(self) -> None:
        """An entry is there until its time is over, to the millisecond, for every read."""
        ttl = self.expiring()
        store = self.open([ITEMS], ttl=ttl)
        snapshot = commit(store, 0, {1: "a"}, now_ms=1000)
        for opened in (store, self.open([ITEMS], snapshots=[snapshot], ttl=ttl)):
            for now_ms, expected in ((1000, ("a",)), (1099, ("a",)), (1100, None), (9999, None)):
                with opened.begin(1, now_ms=now_ms) as transaction:
                    assert scan(transaction) == ({} if expected is None else {(1,): expected})
                    assert get(transaction, [1, 1]) == [expected, expected]
                    assert scan(transaction) == ({} if expected is None else {(1,): expected})

    def test_a_write_restarts_the_clock(self) -> None:
        """Writing an entry again gives it its whole time; reading it does not."""
        store = self.open([ITEMS], ttl=self.expiring())
        commit(store, 0, {1: "a", 2: "a"}, now_ms=0)
        with store.begin(1, now_ms=60) as transaction:
            put(transaction, {1: "b"})
            assert get(transaction, [1, 2]) == [("b",), ("a",)]
            snapshot = transaction.commit()
        assert {key: row.stamp_ms for key, row in self.stored(snapshot).items()} == {
            (1,): 60,
            (2,): 0,
        }
        assert look(store, now_ms=120) == rows_of({1: "b"})

    def test_a_read_may_restart_the_clock(self) -> None:
        """With `on_read_write` what is read lives on, and what is not read does not."""
        ttl = self.expiring(Restart.ON_READ_WRITE)
        store = self.open([ITEMS], ttl=ttl)
        commit(store, 0, {1: "a", 2: "a"}, now_ms=0)
        with store.begin(1, now_ms=60) as transaction:
            assert get(transaction, [1, 3, 1]) == [("a",), None, ("a",)]
            snapshot = transaction.commit()
        for opened in (store, self.open([ITEMS], snapshots=[snapshot], ttl=ttl)):
            assert look(opened, now_ms=120) == rows_of({1: "a"})
            assert look(opened, now_ms=160) == {}

    def test_an_expired_entry_is_removed_when_it_is_read(self) -> None:
        """Reading an expired entry removes it from the files; others stay until they are read."""
        store = self.open([ITEMS], ttl=self.expiring())
        commit(store, 0, dict.fromkeys(self.OLD, "a"), now_ms=0)
        commit(store, 1, {99: "b"}, now_ms=50)
        with store.begin(2, now_ms=120) as transaction:
            assert get(transaction, [1, 2, 99]) == [None, None, ("b",)]
            snapshot = transaction.commit()
        stored = self.values(snapshot)
        assert (99,) in stored
        assert (1,) not in stored
        assert (2,) not in stored

    def test_an_expired_entry_may_return(self) -> None:
        """An entry that is put again after its time is a new one."""
        store = self.open([ITEMS], ttl=self.expiring())
        commit(store, 0, {1: "a", 2: "a"}, now_ms=0)
        with store.begin(1, now_ms=500) as transaction:
            put(transaction, {2: "b"})
            assert get(transaction, [1, 2]) == [None, ("b",)]
            put(transaction, {1: "c"})
            snapshot = transaction.commit()
        assert self.values(snapshot) == rows_of({1: "c", 2: "b"})
        assert look(store, now_ms=599) == rows_of({1: "c", 2: "b"})

    def test_a_sweep_visits_everything(self) -> None:
        """Within `sweep_epochs` epochs every expired entry is removed, read or not."""
        sweep = 5
        store = self.open([ITEMS], ttl=self.expiring(sweep=sweep))
        commit(store, 0, dict.fromkeys(self.OLD, "old"), now_ms=0)
        commit(store, 1, {5: "young", 100: "young"}, now_ms=400)
        for epoch in range(2, 2 + sweep):
            snapshot = commit(store, epoch, {200 + epoch: "more"}, now_ms=450)
        more = {200 + epoch: "more" for epoch in range(2, 2 + sweep)}
        assert self.values(snapshot) == rows_of({5: "young", 100: "young", **more})

    def test_a_sweep_spares_what_was_just_touched(self) -> None:
        """An expired entry that the same transaction writes again is not swept."""
        store = self.open([ITEMS], ttl=self.expiring(sweep=1))
        commit(store, 0, {1: "old", 2: "old"}, now_ms=0)
        snapshot = commit(store, 1, {1: "new"}, now_ms=500)
        assert self.values(snapshot) == rows_of({1: "new"})

    def test_a_sweep_removes_what_was_read_before(self) -> None:
        """An entry that was read while it lived is swept when its time is over."""
        store = self.open([ITEMS], ttl=self.expiring(sweep=1))
        commit(store, 0, {1: "old", 2: "old"}, now_ms=0)
        with store.begin(1, now_ms=50) as transaction:
            assert get(transaction, [1, 2]) == [("old",), ("old",)]
            transaction.commit()
        assert self.values(commit(store, 2, {3: "new"}, now_ms=500)) == rows_of({3: "new"})

    def test_a_merge_leaves_expired_entries_out(self) -> None:
        """Without a read or a sweep, expired entries go when their file is rewritten."""
        ttl = self.expiring()
        store = self.open([ITEMS], ttl=ttl)
        commit(store, 0, dict.fromkeys(self.OLD, "old"), now_ms=0)
        for epoch in range(1, 4 * self.epochs_to_compaction):
            puts = dict.fromkeys(range(1000, 1100), "new")
            snapshot = commit(store, epoch, puts, now_ms=1000)
        stored = self.values(snapshot)
        assert {key for (key,) in stored} >= set(range(1000, 1100))
        if self.removes_expired_at_compaction:
            assert len(stored) == 100
        assert look(store, now_ms=1000) == rows_of(dict.fromkeys(range(1000, 1100), "new"))

    def test_a_life_may_begin_and_end_later(self) -> None:
        """A TTL can be given to a table that was stored without one, and taken away again."""
        snapshot = commit(self.open([ITEMS]), 0, {1: "before", 2: "before"}, now_ms=0)
        ttl = self.expiring()
        store = self.open([ITEMS], snapshots=[snapshot], ttl=ttl)
        snapshot = commit(store, 1, {2: "with", 3: "with"}, now_ms=1000)
        assert look(store, now_ms=1050) == rows_of({1: "before", 2: "with", 3: "with"})
        store = self.open([ITEMS], snapshots=[snapshot], ttl=ttl)
        assert look(store, now_ms=5000) == rows_of({1: "before"})
        store = self.open([ITEMS], snapshots=[snapshot])
        snapshot = commit(store, 2, {4: "after"})
        everything = rows_of({1: "before", 2: "with", 3: "with", 4: "after"})
        assert look(store) == everything
        assert self.values(snapshot) == everything

    def test_a_life_may_come_and_go(self) -> None:
        """Whether a table has a TTL may change between any two epochs; its rows stay right."""
        lives = [None] * 4 + [self.expiring()] * 4 + [None] * 4 + [self.expiring()] * 4
        expected: dict[int, str] = {}
        snapshots: list[Snapshot] = []
        for epoch, ttl in enumerate(lives):
            store = self.open([ITEMS], snapshots=snapshots, ttl=ttl)
            assert look(store) == rows_of(expected)
            puts = {epoch: f"{epoch}", epoch // 2: f"{epoch} again"}
            snapshots = [commit(store, epoch, puts, now_ms=epoch)]
            expected |= puts
            assert look(store) == rows_of(expected)
            store.close()

    def test_tables_have_lives_of_their_own(self) -> None:
        """A TTL is of one table; another one keeps its entries for ever."""
        other = single("other")
        store = self.open([ITEMS, other], ttl=self.expiring(sweep=1))
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, {1: "a"})
            put(transaction, {1: "b"}, other)
            transaction.commit()
        snapshot = commit(store, 1, now_ms=10**12)
        assert self.values(snapshot) == {}
        assert self.values(snapshot, "other") == rows_of({1: "b"})

    def test_a_life_that_makes_no_sense(self) -> None:
        """A TTL below a millisecond, or for a table that is not declared, is refused."""
        for ttl_ms, sweep_epochs in ((0, 1), (-1, 1), (1, -1)):
            with pytest.raises(StateMismatch, match="makes no sense"):
                TTL(ttl_ms, sweep_epochs=sweep_epochs)
        with pytest.raises(StateMismatch, match="'nothing', which is not declared"):
            self.open([ITEMS], ttl={"nothing": TTL(1)})
