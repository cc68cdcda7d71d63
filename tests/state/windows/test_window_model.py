"""Windows do what a dictionary would do, through crashes, aborts and rescales."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.state.store import DEFAULT_CACHE_BYTES
from holdfast.state.windows import Session, Sliding, Tumbling, WindowSpec

from .world import Model, Operator, brute_force_windows

# Several steps fall into one millisecond, which is all that the order of the index knows.
UNIT_US = 300

# Everything happens near the watermark, where it makes a difference.
offsets = st.integers(-14, 14).map(lambda step: step * UNIT_US)
advances = st.integers(-4, 9).map(lambda step: step * UNIT_US)
rows = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d", None]), offsets), max_size=12)
adding = st.tuples(st.just("add"), rows, advances | st.just(0))
firing = st.tuples(st.just("fire"), advances)
steps = st.one_of(
    adding,
    adding,
    adding,
    firing,
    firing,
    st.tuples(st.just("commit")),
    st.tuples(st.just("abort")),
    st.tuples(st.just("open"), st.integers(1, 3)),
)
# A stream that goes on after its end is rare, and hides some of what is checked at the end.
todos = st.lists(steps, min_size=4, max_size=25)
todos |= st.lists(steps | st.tuples(st.just("flush")), min_size=4, max_size=25)
specs: st.SearchStrategy[WindowSpec] = st.sampled_from(
    [
        Tumbling(7 * UNIT_US),
        Tumbling(10 * UNIT_US, -3 * UNIT_US),
        Sliding(10 * UNIT_US, 4 * UNIT_US, UNIT_US),
        Session(3 * UNIT_US),
        Session(6 * UNIT_US),
    ]
)


class Both:
    """The operator and the model, side by side."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.model = Model(operator.spec, operator.lateness_us)
        self.committed = self.model.copy()
        self.ids = 0
        operator.open(1)

    def step(self, action: str, *arguments: Any) -> None:
        getattr(self, action)(*arguments)
        windows, entries = self.operator.tables()
        assert windows == entries, "an orphan"
        assert windows == self.model.stored()

    @property
    def now_us(self) -> int:
        """The watermark; some time before 1970 until there is one."""
        return max(self.model.watermark_us, -20 * UNIT_US)

    def add(self, offsets: list[tuple[Any, int]], advance_us: int) -> None:
        watermark_us = self.now_us + advance_us
        rows = [(who, watermark_us + offset) for who, offset in offsets]
        ids = range(self.ids, self.ids + len(rows))
        self.ids += len(rows)
        expected = self.model.add(rows, ids, watermark_us)
        assert self.operator.add(rows, ids, watermark_us) == expected

    def fire(self, advance_us: int) -> None:
        watermark_us = self.now_us + advance_us
        assert self.operator.fire(watermark_us) == self.model.fire(watermark_us)

    def flush(self) -> None:
        assert self.operator.fire(None) == self.model.fire(None)
        assert self.operator.tables() == (set(), set())

    def commit(self) -> None:
        self.operator.commit()
        self.committed = self.model.copy()

    def abort(self) -> None:
        self.operator.abort()
        self.model = self.committed.copy()

    def open(self, count: int) -> None:
        self.operator.open(count)
        self.model = self.committed.copy()


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=specs,
    lateness=st.sampled_from([0, 5 * UNIT_US, 15 * UNIT_US]),
    max_pending=st.sampled_from([1, 3, 100_000]),
    backend=st.sampled_from(["arrow", "heap"]),
    collide=st.booleans(),
    cache_bytes=st.sampled_from([200, DEFAULT_CACHE_BYTES]),
    todo=todos,
)
def test_windows_hold_and_fire_what_a_dictionary_would(
    spec: WindowSpec,
    lateness: int,
    max_pending: int,
    backend: str,
    collide: bool,
    cache_bytes: int,
    todo: list[tuple[Any, ...]],
) -> None:
    """Whatever is added, fired, committed, aborted, reopened or rescaled, nothing is lost."""
    with TemporaryDirectory() as directory:
        operator = Operator(
            Path(directory), backend, spec, lateness, max_pending, collide, cache_bytes
        )
        both = Both(operator)
        for step in todo:
            both.step(*step)
        flushed_before = ("flush",) in todo
        both.step("flush")
        operator.close()
    if not flushed_before:
        _check_everything_fired(both.model)


def _check_everything_fired(model: Model) -> None:
    """Compare what fired with all accepted rows, without following the steps in between."""
    fired = Counter(window for window, _ in model.emitted)
    if not model.lateness_us:
        assert not fired or max(fired.values()) == 1
    assert len(set(model.emitted)) == len(model.emitted)
    final = dict(model.emitted)
    if isinstance(model.spec, Session):
        last = [ids for window, ids in final.items() if window not in model.retracted]
        assert sorted(one for ids in last for one in ids) == sorted(
            number for number, _ in model.accepted
        )
        return
    expected: dict[Any, set[int]] = {}
    accepted = set(model.accepted)
    for number, (who, time) in accepted:
        for start, end in brute_force_windows(model.spec, time):
            expected.setdefault((who, start, end), set()).add(number)
    for window, ids in final.items():
        assert ids <= expected[window]
    assert sum(map(len, final.values())) == len(model.accepted)
