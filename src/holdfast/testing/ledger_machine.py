"""Random histories that must look the same in any ledger as in the memory one."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.errors import LedgerError
from holdfast.ledger import Ledger, MemoryLedger, Record, Transaction, VersionInfo

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of `Transaction` and its arguments."""

NAMESPACES = ("positions", "runs")
KEYS = ("a", "a_", "a%", "é", "😀")

_namespaces = st.sampled_from(NAMESPACES)
_keys = st.sampled_from(KEYS)
_values = st.one_of(st.binary(max_size=8), st.text(max_size=8).map(str.encode))
_numbers = st.integers(min_value=0, max_value=6)
_expectations = st.fixed_dictionaries({}, optional={"expect": _numbers})
_nothing = st.just(dict[str, Any]())

_steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("put"), st.tuples(_namespaces, _keys, _values), _expectations),
    st.tuples(st.just("put"), st.tuples(_namespaces, _keys, _values), _nothing),
    st.tuples(st.just("delete"), st.tuples(_namespaces, _keys), _expectations),
    st.tuples(st.just("roll_back"), st.tuples(_namespaces, _keys, _numbers), _nothing),
    st.tuples(st.just("prune"), st.tuples(_namespaces, _keys, _numbers), _nothing),
    st.tuples(st.just("keys"), st.tuples(_namespaces, _keys), _nothing),
)


class _Abort(Exception):
    pass


class LedgerMachine(RuleBasedStateMachine):
    """Does the same to a ledger and to a memory one and compares everything they say.

    A subclass fills in `open`; the store must be empty when a machine is made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = datetime(2025, 3, 15, 14, 30, tzinfo=UTC)
        self._model: Ledger = MemoryLedger(clock=self._clock)
        self._subject = self._opened()
        self._views: tuple[Transaction, Transaction] | None = None

    @abstractmethod
    def open(self) -> Ledger:
        """Return a new handle on the store of this machine."""

    @rule(steps=st.lists(_steps, min_size=1, max_size=6))
    def commit(self, steps: list[Step]) -> None:
        """Change both in a transaction that commits."""
        self._now += timedelta(milliseconds=1)
        assert _transact(self._subject, steps) == _transact(self._model, steps)

    @rule(steps=st.lists(_steps, min_size=1, max_size=6))
    def abort(self, steps: list[Step]) -> None:
        """Change both in a transaction that an exception ends."""
        assert _transact(self._subject, steps, abort=True) == _transact(
            self._model, steps, abort=True
        )

    @precondition(lambda self: self._views is None)
    @rule()
    def look(self) -> None:
        """Open a view of both that is kept while they change."""
        self._views = (self._subject.reading(), self._model.reading())

    @precondition(lambda self: self._views is not None)
    @rule()
    def look_away(self) -> None:
        """Compare the views, which must not have moved, and end them."""
        assert self._views is not None
        (subject, model), self._views = self._views, None
        with subject, model:
            assert _everything(subject) == _everything(model)

    @precondition(lambda self: self._views is None)
    @rule()
    def reopen(self) -> None:
        """Close the ledger and open it again."""
        self._subject.close()
        self._subject = self._opened()

    @invariant()
    def equal(self) -> None:
        """Compare every version of every record."""
        with self._subject.reading() as subject, self._model.reading() as model:
            assert _everything(subject) == _everything(model)

    def teardown(self) -> None:
        """Let go of the ledger."""
        for view in self._views or ():
            view.abort()
        self._subject.close()

    def _opened(self) -> Ledger:
        ledger = self.open()
        ledger.clock = self._clock
        return ledger

    def _clock(self) -> datetime:
        return self._now


def _transact(ledger: Ledger, steps: list[Step], *, abort: bool = False) -> list[object]:
    outcomes: list[object] = []
    try:
        with ledger.writing() as change:
            outcomes.extend(_outcome(change, step) for step in steps)
            if abort:
                raise _Abort
    except _Abort:
        pass
    return outcomes


def _outcome(change: Transaction, step: Step) -> object:
    method, arguments, options = step
    try:
        return getattr(change, method)(*arguments, **options)
    except LedgerError as error:
        return type(error), error.message, error.hint


def _everything(view: Transaction) -> list[tuple[list[str], list[_History]]]:
    return [
        (view.keys(namespace), [_history(view, namespace, key) for key in KEYS])
        for namespace in NAMESPACES
    ]


_History = tuple[list[VersionInfo], list[Record | None]]


def _history(view: Transaction, namespace: str, key: str) -> _History:
    versions = view.versions(namespace, key)
    numbers = [info.version for info in versions]
    return versions, [view.read(namespace, key, number) for number in numbers]
