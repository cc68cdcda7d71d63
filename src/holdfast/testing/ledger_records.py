"""Conformance of a ledger: versions, deletions, compare-and-set, names and values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import LedgerError, VersionConflict
from holdfast.ledger import ABSENT, Ledger, Record, Transaction, VersionInfo
from holdfast.testing.ledger_suite import (
    NAMESPACE,
    LedgerSuite,
    delete,
    moment,
    prune,
    record,
    value,
    write,
    zone,
)

BINARY = bytes(range(256)) + b"\xff\xfe\x00" + "ключ".encode("utf-16")


class VersionConformance(LedgerSuite):
    """Every write is a version, and versions are kept."""

    def test_an_unknown_record_is_none(self, ledger: Ledger) -> None:
        """A record nobody wrote has no value, no versions and no key."""
        with ledger.reading() as view:
            assert view.get(NAMESPACE, "orders") is None
            assert view.read(NAMESPACE, "orders") is None
            assert view.read(NAMESPACE, "orders", 1) is None
            assert view.versions(NAMESPACE, "orders") == []
            assert view.keys(NAMESPACE) == []
        assert self.stored(NAMESPACE, "orders") == []

    def test_a_value_is_stored_as_it_is(self, ledger: Ledger) -> None:
        """A written value comes back as a record, and lies in the store byte for byte."""
        written = ledger.put(NAMESPACE, "orders", b"1")
        assert written == Record(NAMESPACE, "orders", 1, moment(0), b"1")
        assert ledger.get(NAMESPACE, "orders") == written
        assert self.stored(NAMESPACE, "orders") == [b"1"]

    def test_each_write_is_the_next_version(self, ledger: Ledger) -> None:
        """Versions count from 1, also within one transaction, and the newest is current."""
        with ledger.writing() as change:
            numbers = [change.put(NAMESPACE, "orders", b"%d" % n).version for n in range(3)]
        numbers.append(ledger.put(NAMESPACE, "orders", b"3").version)
        assert numbers == [1, 2, 3, 4]
        assert value(ledger, "orders") == b"3"
        assert self.stored(NAMESPACE, "orders") == [b"0", b"1", b"2", b"3"]

    def test_an_old_version_can_be_read(self, ledger: Ledger) -> None:
        """Every kept version can be read by its number, and any other number is `None`."""
        write(ledger, "orders", b"first", b"second")
        with ledger.reading() as view:
            assert view.read(NAMESPACE, "orders", 1) == record("orders", 1, b"first")
            assert view.read(NAMESPACE, "orders", 2) == record("orders", 2, b"second")
            assert [view.read(NAMESPACE, "orders", n) for n in (-1, 0, 3, 2**80)] == [None] * 4

    def test_versions_are_listed_without_their_values(self, ledger: Ledger) -> None:
        """The list of versions is newest first and has times, sizes and deletions."""
        write(ledger, "orders", b"four", b"")
        delete(ledger, "orders")
        with ledger.reading() as view:
            assert view.versions(NAMESPACE, "orders") == [
                VersionInfo(3, moment(2), 0, True),
                VersionInfo(2, moment(1), 0, False),
                VersionInfo(1, moment(0), 4, False),
            ]

    def test_times_are_utc_to_the_microsecond(self, ledger: Ledger) -> None:
        """A time given in any zone comes back as the same moment in UTC."""
        precise = datetime(2025, 3, 15, 14, 30, 0, 123456, UTC)
        ledger.clock = lambda: precise.astimezone(zone(5))
        ledger.put(NAMESPACE, "orders", b"1")
        found = ledger.get(NAMESPACE, "orders")
        assert found is not None
        assert found.created_at == precise
        assert found.created_at.utcoffset() == timedelta(0)

    def test_rolling_back_makes_a_new_version(self, ledger: Ledger) -> None:
        """Rolling back brings an old value back on top and keeps what came between."""
        write(ledger, "orders", b"good", b"bad")
        with ledger.writing() as change:
            assert change.roll_back(NAMESPACE, "orders", 1).version == 3
        assert value(ledger, "orders") == b"good"
        assert self.stored(NAMESPACE, "orders") == [b"good", b"bad", b"good"]

    def test_rolling_back_to_a_deletion_deletes(self, ledger: Ledger) -> None:
        """Rolling back to a version that was a deletion deletes the record again."""
        write(ledger, "orders", b"1")
        delete(ledger, "orders")
        write(ledger, "orders", b"2")
        with ledger.writing() as change:
            change.roll_back(NAMESPACE, "orders", 2)
        assert ledger.get(NAMESPACE, "orders") is None

    def test_rolling_back_to_nothing_is_refused(self, ledger: Ledger) -> None:
        """Rolling back to a version that is not kept says which ones are."""
        write(ledger, "orders", b"1", b"2")
        with pytest.raises(LedgerError, match="no version 7") as refused, ledger.writing() as tx:
            tx.roll_back(NAMESPACE, "orders", 7)
        assert "2, 1" in refused.value.hint
        assert self.stored(NAMESPACE, "orders") == [b"1", b"2"]


class DeletionConformance(LedgerSuite):
    """A deletion is a version; only pruning forgets."""

    def test_a_deletion_is_a_version(self, ledger: Ledger) -> None:
        """A deleted record has no value, keeps its history and goes on counting."""
        write(ledger, "orders", b"1")
        assert delete(ledger, "orders") is True
        assert ledger.get(NAMESPACE, "orders") is None
        with ledger.reading() as view:
            assert view.keys(NAMESPACE) == []
            assert list(view.items(NAMESPACE)) == []
            assert view.read(NAMESPACE, "orders") == record("orders", 2, None)
            assert view.read(NAMESPACE, "orders", 1) == record("orders", 1, b"1")
        assert ledger.put(NAMESPACE, "orders", b"2").version == 3
        assert self.stored(NAMESPACE, "orders") == [b"1", None, b"2"]

    def test_an_empty_value_is_not_a_deletion(self, ledger: Ledger) -> None:
        """No bytes are a value like any other."""
        write(ledger, "orders", b"")
        assert value(ledger, "orders") == b""
        with ledger.reading() as view:
            assert view.keys(NAMESPACE) == ["orders"]
        assert self.stored(NAMESPACE, "orders") == [b""]

    def test_deleting_nothing_changes_nothing(self, ledger: Ledger) -> None:
        """Deleting an absent or deleted record says so and makes no version."""
        assert delete(ledger, "orders") is False
        assert self.stored(NAMESPACE, "orders") == []
        write(ledger, "orders", b"1")
        delete(ledger, "orders")
        assert delete(ledger, "orders") is False
        assert self.stored(NAMESPACE, "orders") == [b"1", None]

    def test_pruning_keeps_the_newest(self, ledger: Ledger) -> None:
        """Pruning forgets the oldest versions, and numbering goes on."""
        write(ledger, "orders", b"1", b"2", b"3", b"4")
        assert prune(ledger, "orders", keep=2) == 2
        with ledger.reading() as view:
            assert [info.version for info in view.versions(NAMESPACE, "orders")] == [4, 3]
            assert view.read(NAMESPACE, "orders", 2) is None
            assert view.read(NAMESPACE, "orders", 3) == record("orders", 3, b"3")
        assert ledger.put(NAMESPACE, "orders", b"5").version == 5
        assert self.stored(NAMESPACE, "orders") == [b"3", b"4", b"5"]

    def test_pruning_less_than_there_is(self, ledger: Ledger) -> None:
        """Keeping more versions than there are forgets none."""
        write(ledger, "orders", b"1", b"2")
        assert prune(ledger, "orders", keep=2) == 0
        assert prune(ledger, "orders", keep=100) == 0
        assert prune(ledger, "unknown", keep=0) == 0
        assert self.stored(NAMESPACE, "orders") == [b"1", b"2"]

    def test_pruning_to_nothing_forgets_the_record(self, ledger: Ledger) -> None:
        """Keeping no version leaves no trace of the record, and of no other one."""
        write(ledger, "orders", b"1", b"2")
        write(ledger, "orders2", b"1")
        assert prune(ledger, "orders", keep=0) == 2
        with ledger.reading() as view:
            assert view.versions(NAMESPACE, "orders") == []
            assert view.keys(NAMESPACE) == ["orders2"]
        assert self.stored(NAMESPACE, "orders") == []
        assert ledger.put(NAMESPACE, "orders", b"3").version == 1

    def test_pruning_a_negative_number_is_refused(self, ledger: Ledger) -> None:
        """Fewer than no versions cannot be kept."""
        write(ledger, "orders", b"1")
        with pytest.raises(LedgerError):
            prune(ledger, "orders", keep=-1)
        assert self.stored(NAMESPACE, "orders") == [b"1"]


class CompareAndSetConformance(LedgerSuite):
    """A write that expects a version happens only on that version."""

    def test_the_expected_version_is_replaced(self, ledger: Ledger) -> None:
        """A write that expects the newest version succeeds."""
        first = ledger.put(NAMESPACE, "orders", b"1", expect=ABSENT)
        second = ledger.put(NAMESPACE, "orders", b"2", expect=first.version)
        with ledger.writing() as change:
            assert change.delete(NAMESPACE, "orders", expect=second.version) is True
        assert ledger.get(NAMESPACE, "orders") is None

    def test_another_version_is_refused(self, ledger: Ledger) -> None:
        """A write that expects an older version, or none, is refused and changes nothing."""
        write(ledger, "orders", b"1", b"2")
        for expect in (ABSENT, 1, 3):
            with pytest.raises(VersionConflict, match=f"{NAMESPACE}/orders"):
                ledger.put(NAMESPACE, "orders", b"3", expect=expect)
            with pytest.raises(VersionConflict), ledger.writing() as change:
                change.delete(NAMESPACE, "orders", expect=expect)
        assert self.stored(NAMESPACE, "orders") == [b"1", b"2"]

    def test_a_deleted_record_counts_as_absent(self, ledger: Ledger) -> None:
        """`ABSENT` means a deletion too, and the deletion's own number does not."""
        write(ledger, "orders", b"1")
        delete(ledger, "orders")
        with pytest.raises(VersionConflict):
            ledger.put(NAMESPACE, "orders", b"2", expect=2)
        ledger.put(NAMESPACE, "orders", b"2", expect=ABSENT)
        assert self.stored(NAMESPACE, "orders") == [b"1", None, b"2"]

    def test_a_conflict_aborts_the_transaction(self, ledger: Ledger) -> None:
        """What a transaction wrote before its conflict is not kept."""

        def conflict(change: Transaction) -> None:
            change.put(NAMESPACE, "customers", b"1")
            change.put(NAMESPACE, "orders", b"1", expect=9)

        with pytest.raises(VersionConflict), ledger.writing() as change:
            conflict(change)
        assert self.stored(NAMESPACE, "customers") == []


class KeyConformance(LedgerSuite):
    """Names and values may be anything."""

    def test_namespaces_are_apart(self, ledger: Ledger) -> None:
        """The same key in two namespaces is two records."""
        ledger.put("a", "orders", b"1")
        ledger.put("b", "orders", b"2")
        with ledger.writing() as change:
            change.delete("a", "orders")
        with ledger.reading() as view:
            assert (view.keys("a"), view.keys("b"), view.keys("ab")) == ([], ["orders"], [])
        assert self.stored("a", "orders") == [b"1", None]
        assert self.stored("b", "orders") == [b"2"]

    def test_keys_are_in_code_point_order(self, ledger: Ledger) -> None:
        """Keys are ordered by code point, not by any language's or UTF-16's rules."""
        keys = ["B", "Z", "a", "a b", "a/b", "aa", "b", "é", "ключ", "\uffee", "😀", "\U0010ffff"]
        with ledger.writing() as change:
            for key in reversed(keys):
                change.put(NAMESPACE, key, key.encode())
        with ledger.reading() as view:
            assert view.keys(NAMESPACE) == keys
            assert [item.value for item in view.items(NAMESPACE)] == [k.encode() for k in keys]
        assert self.stored(NAMESPACE, "😀") == ["😀".encode()]

    @pytest.mark.parametrize(
        ("prefix", "matching"),
        [
            ("", ["%", "%1", "A_b", "_", "a", "a%b", "a*b", "a_b", "aab", "é1", "😀1"]),
            ("A", ["A_b"]),
            ("a", ["a", "a%b", "a*b", "a_b", "aab"]),
            ("a_", ["a_b"]),
            ("a%", ["a%b"]),
            ("a*", ["a*b"]),
            ("%", ["%", "%1"]),
            ("_", ["_"]),
            ("é", ["é1"]),
            ("😀", ["😀1"]),
            ("\U0010ffff", []),
        ],
    )
    def test_a_prefix_is_taken_literally(
        self, ledger: Ledger, prefix: str, matching: list[str]
    ) -> None:
        """A prefix selects by its characters, case and wildcards of any language included."""
        with ledger.writing() as change:
            for key in ["%", "%1", "A_b", "_", "a", "a%b", "a*b", "a_b", "aab", "é1", "😀1"]:
                change.put(NAMESPACE, key, b"1")
        with ledger.reading() as view:
            assert view.keys(NAMESPACE, prefix) == matching
            assert [item.key for item in view.items(NAMESPACE, prefix)] == matching

    @pytest.mark.parametrize("key", ["a\0b", "line\nbreak", " ", '"quoted\\', "x" * 2000])
    def test_a_key_may_hold_any_character(self, ledger: Ledger, key: str) -> None:
        """Control characters, quotes and long keys are keys like any other."""
        write(ledger, key, b"1", b"2")
        assert value(ledger, key) == b"2"
        with ledger.reading() as view:
            assert view.keys(NAMESPACE) == view.keys(NAMESPACE, key) == [key]
        assert self.stored(NAMESPACE, key) == [b"1", b"2"]

    def test_a_value_may_hold_any_bytes(self, ledger: Ledger) -> None:
        """Bytes that are not text come back unchanged, and text byte for byte."""
        values = [BINARY, b"\x00", "naïve\r\n\u2028".encode(), b'{"a": 1}', b"\xef\xbb\xbfbom"]
        write(ledger, "orders", *values)
        assert self.stored(NAMESPACE, "orders") == values
        with self.open() as again, again.reading() as view:
            read = [view.read(NAMESPACE, "orders", n + 1) for n in range(len(values))]
        assert [found.value for found in read if found] == values

    def test_a_value_may_be_large(self, ledger: Ledger) -> None:
        """A value of 5 MB is stored, measured and read like a small one."""
        large = BINARY * (5_000_000 // len(BINARY) + 1)
        write(ledger, "orders", large)
        with self.open() as again, again.reading() as view:
            found = view.get(NAMESPACE, "orders")
            assert found is not None
            assert found.value == large
            assert [info.size for info in view.versions(NAMESPACE, "orders")] == [len(large)]
