"""Windows do what a dictionary would do, through crashes, aborts and rescales."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.state.store import DEFAULT_CACHE_BYTES
from holdfast.state.windows import Session, Sliding, Tumbling, WindowSpec

from .world import Held, Model, Operator, held, holding

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
    st.tuples(
        st.just("interleave"),
        st.lists(advances, min_size=1, max_size=2),
        st.lists(rows, max_size=4),
        st.integers(1, 3) | st.just(1000),
    ),
    st.tuples(st.just("switch"), st.booleans()),
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
        self.downstream: Held = {}
        """What somebody knows who takes what fires and takes back what is retracted."""
        self.downstream_committed: Held = {}
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
        added = self.operator.add(rows, ids, watermark_us)
        assert added == expected
        for window in added[-1]:
            del self.downstream[window]

    def fire(self, advance_us: int) -> None:
        watermark_us = self.now_us + advance_us
        fired = self.operator.fire(watermark_us)
        assert fired == self.model.fire(watermark_us)
        self.downstream |= fired

    def interleave(self, advances: list[int], batches: list[Any], pieces: int) -> None:
        """Fire several times at once, add rows in between, and stop after some pieces."""
        running = []
        for advance_us in advances:
            self.model.watermark_us = self.now_us + max(advance_us, 0)
            running += [(one, self.now_us) for one in self.operator.firing(self.now_us)]
        alone = len(running) == 1
        batches = list(batches)
        while running and pieces:
            firing, until_us = running.pop(0)
            piece = next(firing, None)
            if piece is None:
                assert not (alone and self.model.due(until_us)), "not everything fired"
                continue
            running.append((firing, until_us))
            self._give(held(piece), until_us)
            pieces -= 1
            if batches:
                self.add(batches.pop(), 0)
        self.model.sweep({window[:3] for window in self.operator.tables()[0]})

    def _give(self, piece: Held, until_us: int) -> None:
        due = holding(self.model.due(until_us))
        assert piece == {window: due.get(window) for window in piece}
        self.model.give(piece)
        self.downstream |= piece

    def switch(self, back: bool) -> None:
        self.operator.switch(back=back)

    def flush(self) -> None:
        fired = self.operator.fire(None)
        assert fired == self.model.fire(None)
        self.downstream |= fired
        assert self.operator.tables() == (set(), set())

    def commit(self) -> None:
        self.operator.commit()
        self.committed = self.model.copy()
        self.downstream_committed = dict(self.downstream)

    def abort(self) -> None:
        self.operator.abort()
        self._restore()

    def open(self, count: int) -> None:
        self.operator.open(count)
        self._restore()

    def _restore(self) -> None:
        self.model = self.committed.copy()
        self.downstream = dict(self.downstream_committed)


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
        _check_downstream(both.downstream, both.model)


def _check_downstream(downstream: Held, model: Model) -> None:
    """Compare what was fired and not retracted with all accepted rows, whatever the steps were."""
    if not isinstance(model.spec, Session):
        expected: dict[Any, set[int]] = {}
        for number, window in model.accepted:
            expected.setdefault(window, set()).add(number)
        assert downstream == holding(expected)
        return
    alone = dict(model.accepted)
    assert sorted(one for *_, ids in downstream.values() for one in ids) == sorted(alone)
    for (who, start, end), (*_, ids) in downstream.items():
        rows = sorted((alone[one] for one in ids), key=lambda row: row[1])
        assert {row[0] for row in rows} == {who}
        assert (rows[0][1], rows[-1][2]) == (start, end)
        assert all(after[1] <= before[2] for before, after in pairwise(rows))
