"""Conformance of keyed state: keys of one hash are told apart, and scans are in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from holdfast.state import Hashes, Ranges
from holdfast.testing.state_suite import (
    ITEMS,
    Hasher,
    Plain,
    StateSuite,
    colliding,
    commit,
    delete,
    get,
    look,
    put,
    rows_of,
    scan,
    single,
)


class CollisionConformance(StateSuite):
    """Keys whose hashes are equal are different keys."""

    @pytest.mark.parametrize("groups", [1, 2, 30])
    def test_colliding_keys_are_told_apart(self, groups: int) -> None:
        """Keys of one hash are put, replaced, deleted and put again without touching others."""
        hashes = colliding(groups=groups)
        expected: dict[int, str] = {}
        store = self.open([ITEMS])
        for epoch in range(2 * self.epochs_to_compaction):
            puts = {key: f"{epoch}.{key}" for key in range(epoch % 5, 60, 1 + epoch % 4)}
            deletes = list(range(epoch % 7, 60, 5))
            snapshot = commit(store, epoch, puts, deletes, hashes=hashes)
            expected = {k: v for k, v in expected.items() if k not in deletes} | puts
            assert look(store) == rows_of(expected)
            if epoch % 5 == 4:
                assert self.values(snapshot) == rows_of(expected)
                store = self.open([ITEMS], snapshots=[snapshot])
            with store.begin(epoch + 1, now_ms=0) as transaction:
                found = get(transaction, range(70), hashes=hashes)
            wanted = [(expected[key],) if key in expected else None for key in range(70)]
            assert found == wanted

    def test_colliding_keys_in_one_batch(self) -> None:
        """Of keys of one hash that alternate in a batch, each keeps its own last value."""
        hashes = colliding()
        store = self.open([ITEMS])
        with store.begin(0, now_ms=0) as transaction:
            put(transaction, [(n % 7, f"{n}") for n in range(50)], hashes=hashes)
            delete(transaction, [3, 3, 5], hashes=hashes)
            put(transaction, [(5, "back")], hashes=hashes)
            snapshot = transaction.commit()
        expected = {0: "49", 1: "43", 2: "44", 4: "46", 5: "back", 6: "48"}
        assert self.values(snapshot) == rows_of(expected)
        assert look(self.open([ITEMS], snapshots=[snapshot])) == rows_of(expected)

    @pytest.mark.parametrize("spread", ["even", "crowded", "clustered", "ends"])
    def test_what_is_searched_often_is_found(self, spread: str) -> None:
        """Keys are found however often they are looked for and however their codes lie."""
        rows = 9_000
        numbers, ends = np.arange(rows), np.iinfo(np.int64)
        codes = {
            "even": (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64),
            "crowded": numbers // 100,
            "clustered": np.where(numbers < rows // 2, ends.min + numbers, 2**62 + numbers * 2**40),
            "ends": np.where(numbers % 2, ends.min + numbers // 4, ends.max - numbers // 4),
        }[spread]
        schema = single(value=pa.int64())
        store = self.open([schema])
        here = numbers % 3 != 0
        with store.begin(0, now_ms=0) as transaction:
            table = transaction.table("items")
            hashes = Hashes(codes, np.zeros(rows, np.int32))
            some = Hashes(codes[here], np.zeros(int(here.sum()), np.int32))
            table.put(table.keys({"k": numbers[here]}, some), {"v": numbers[here] * 7})
            snapshot = transaction.commit()
        chance = np.random.default_rng(1)
        for opened in (store, self.open([schema], snapshots=[snapshot])):
            with opened.begin(1, now_ms=0) as transaction:
                table = transaction.table("items")
                for size in (10, rows, rows, 500, rows):
                    asked = chance.choice(numbers, size)
                    part = Hashes(hashes.lookup[asked], hashes.partition[asked])
                    lookup = table.get(table.keys({"k": asked}, part))
                    assert lookup.found.tolist() == here[asked].tolist()
                    values = lookup.values.column(0).drop_null().to_numpy()
                    assert values.tolist() == (asked[here[asked]] * 7).tolist()

    def test_codes_at_the_ends(self) -> None:
        """The lowest and the highest hash there are belong to keys like any other."""
        ends = {1: -(2**63), 2: -(2**63), 3: 2**63 - 1, 4: 2**63 - 1, 5: 0, 6: -1}
        hashes = _fixed(ends)
        items = {key: str(key) for key in ends}
        store = self.open([ITEMS])
        snapshot = commit(store, 0, items, hashes=hashes)
        for opened in (store, self.open([ITEMS], snapshots=[snapshot])):
            with opened.begin(1, now_ms=0) as transaction:
                assert get(transaction, ends, hashes=hashes) == [(str(key),) for key in ends]
                assert scan(transaction) == rows_of(items)


class ScanConformance(StateSuite):
    """A scan goes through a table in the order of the codes."""

    CODES = tuple(range(-1000, 1000, 10))

    def test_a_scan_is_in_order(self) -> None:
        """Rows come by ascending code, whatever was written when, own writes included."""
        hashes = _fixed({code: code for code in range(-2000, 2000)})
        store = self.open([ITEMS])
        for epoch in range(3):
            puts = dict.fromkeys(self.CODES[epoch::3], f"{epoch}")
            snapshot = commit(store, epoch, puts, hashes=hashes)
        for opened in (store, self.open([ITEMS], snapshots=[snapshot])):
            with opened.begin(3, now_ms=0) as transaction:
                delete(transaction, self.CODES[::7], hashes=hashes)
                put(transaction, {code + 1: "own" for code in self.CODES[::5]}, hashes=hashes)
                pieces = list(transaction.table(ITEMS.name).rows())
                codes = np.concatenate([rows.codes for rows in pieces]).tolist()
            removed = set(self.CODES[::7])
            wanted = {c for c in self.CODES if c not in removed} | {c + 1 for c in self.CODES[::5]}
            assert codes == sorted(wanted)

    def test_a_long_scan_shows_every_key_once(self) -> None:
        """However a scan is cut into pieces, keys of one code are not, and own writes count."""
        rows = 70_000
        schema = single(value=pa.int64())
        keys = np.arange(rows)
        store = self.open([schema])
        for shift in (0, 1):
            # Pairs of one code, and wherever a piece ends, it may end within a pair.
            hashes = Hashes((keys + shift) // 2, np.zeros(rows, np.int32))
            with store.begin(2 * shift, now_ms=0) as transaction:
                table = transaction.table("items")
                for old in list(table.rows()):
                    table.delete(old.as_keys())
                table.put(table.keys({"k": keys}, hashes), {"v": keys})
                transaction.commit()
            with store.begin(2 * shift + 1, now_ms=0) as transaction:
                table = transaction.table("items")
                table.put(table.keys({"k": keys}, hashes), {"v": -keys})
                found = [batch.to_pydict() for batch in table.scan()]
                assert sorted(key for batch in found for key in batch["k"]) == keys.tolist()
                assert all(-key == v for b in found for key, v in zip(b["k"], b["v"], strict=True))
                transaction.commit()

    def test_a_scan_of_ranges(self) -> None:
        """Only rows of the asked-for codes come, both ends of a range included, in order."""
        hashes = _fixed({code: code for code in range(-2000, 2000)})
        store = self.open([ITEMS])
        commit(store, 0, dict.fromkeys(self.CODES, "old"), hashes=hashes)
        commit(store, 1, dict.fromkeys(self.CODES[::2], "new"), hashes=hashes)
        ranges = [(-1000, -1000), (-999, -991), (-500, -400), (7, 13), (990, 5000)]
        many = [(code, code + 3) for code in range(-990, 900, 40)]
        with store.begin(2, now_ms=0) as transaction:
            put(transaction, {8: "own", 9: "own"}, hashes=hashes)
            delete(transaction, [-450], hashes=hashes)
            present = sorted({*self.CODES, 8, 9} - {-450})
            for asked in (ranges, many, ranges[:1], ranges[1:2], [(10, 9)]):
                first, last = (np.array(ends, np.int64) for ends in zip(*asked, strict=True))
                found = [
                    code
                    for rows in transaction.table(ITEMS.name).rows(Ranges.of(first, last))
                    for code in rows.codes.tolist()
                ]
                wanted = [c for c in present if any(low <= c <= high for low, high in asked)]
                assert found == wanted

    def test_a_transaction_scans_its_own_writes(self) -> None:
        """A scan shows what the transaction put and hides what it deleted."""
        store = self.open([ITEMS])
        commit(store, 0, {1: "a", 2: "b", 3: "c"})
        with store.begin(1, now_ms=0) as transaction:
            delete(transaction, [1])
            put(transaction, {2: "changed", 4: "new"})
            delete(transaction, [4, 5])
            put(transaction, {5: "again"})
            assert scan(transaction) == rows_of({2: "changed", 3: "c", 5: "again"})

    def test_writes_during_a_scan(self) -> None:
        """A scan whose reader deletes every row it sees still sees every row once."""
        store = self.open([ITEMS], cache_bytes=200)
        items = dict.fromkeys(range(300), "x" * 50)
        commit(store, 0, items)
        seen: list[int] = []
        with store.begin(1, now_ms=0) as transaction:
            table = transaction.table(ITEMS.name)
            for rows in table.rows():
                seen += rows.keys[0].to_pylist()
                table.delete(rows.as_keys())
            assert scan(transaction) == {}
            snapshot = transaction.commit()
        assert sorted(seen) == list(items)
        assert self.values(snapshot) == {}


def _fixed(codes: dict[int, int]) -> Hasher:
    def hashes(keys: Sequence[Plain]) -> Hashes:
        lookup = np.array([codes[key] for (key,) in keys], np.int64)
        return Hashes(lookup, np.array([key % 1000 for (key,) in keys], np.int32))

    return hashes
