"""Times are assigned to the windows that Spark SQL would assign them to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import StateMismatch
from holdfast.state.windows import Session, Sliding, Tumbling, WindowSpec

from .world import brute_force_windows

MINUTE = 60_000_000


def windows(spec: WindowSpec, *times: int) -> list[tuple[int, int, int]]:
    """Return (row, start, end) of all windows of some times."""
    assigned = spec.assign(np.array(times, np.int64))
    return list(zip(*(column.tolist() for column in assigned), strict=True))


def test_a_tumbling_window_holds_its_start_and_not_its_end() -> None:
    """Of two windows that meet, the time between them is in the later one."""
    assert windows(Tumbling(10 * MINUTE), 0, 10 * MINUTE - 1, 10 * MINUTE) == [
        (0, 0, 10 * MINUTE),
        (1, 0, 10 * MINUTE),
        (2, 10 * MINUTE, 20 * MINUTE),
    ]


def test_times_before_1970_round_down() -> None:
    """A time one microsecond before 1970 is in the window that ends in 1970."""
    assert windows(Tumbling(5 * MINUTE), -1, -5 * MINUTE) == [
        (0, -5 * MINUTE, 0),
        (1, -5 * MINUTE, 0),
    ]


def test_an_offset_shifts_every_window() -> None:
    """Hourly windows offset by 15 minutes begin at 12:15, 13:15 and so on."""
    hourly = Tumbling(60 * MINUTE, 15 * MINUTE)
    assert windows(hourly, 12 * 60 * MINUTE + 14 * MINUTE) == [
        (0, 11 * 60 * MINUTE + 15 * MINUTE, 12 * 60 * MINUTE + 15 * MINUTE)
    ]


def test_sliding_windows_of_ten_minutes_every_five_overlap_twice() -> None:
    """12:07 is in 12:00 to 12:10 and in 12:05 to 12:15, as in Spark's programming guide."""
    noon = 12 * 60 * MINUTE
    assert windows(Sliding(10 * MINUTE, 5 * MINUTE), noon + 7 * MINUTE) == [
        (0, noon, noon + 10 * MINUTE),
        (0, noon + 5 * MINUTE, noon + 15 * MINUTE),
    ]


def test_a_slide_that_does_not_divide_the_size_gives_some_times_fewer_windows() -> None:
    """Windows of 10 every 4: time 0 is in 3 of them, time 2 in 2."""
    assert windows(Sliding(10, 4), 0, 2) == [
        (0, -8, 2),
        (0, -4, 6),
        (0, 0, 10),
        (1, -4, 6),
        (1, 0, 10),
    ]


def test_a_time_alone_is_a_session_of_one_gap() -> None:
    """A session begins at its event and ends a gap after it."""
    assert windows(Session(30), 5, -7) == [(0, 5, 35), (1, -7, 23)]


def test_no_times_have_no_windows() -> None:
    """An empty batch is fine."""
    for spec in (Tumbling(3), Sliding(3, 2), Session(3)):
        assert windows(spec) == []


@settings(max_examples=300, deadline=None)
@given(data=st.data(), size=st.integers(1, 40))
def test_every_time_is_in_exactly_the_windows_around_it(data: st.DataObject, size: int) -> None:
    """Assignment equals trying every window near the time."""
    slide = data.draw(st.integers(1, size))
    offset = data.draw(st.integers(1 - slide, slide - 1))
    near = st.integers(-100, 100)
    far = st.integers(-(2**60), 2**60)
    times = data.draw(st.lists(near | far, max_size=8))
    specs: list[Tumbling | Sliding] = [Sliding(size, slide, offset)]
    if slide == size:
        specs.append(Tumbling(size, offset))
    for spec in specs:
        assert windows(spec, *times) == [
            (row, *window)
            for row, time in enumerate(times)
            for window in brute_force_windows(spec, time)
        ]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Tumbling, (0,)),
        (Tumbling, (-5,)),
        (Tumbling, (10, 10)),
        (Sliding, (10, 0)),
        (Sliding, (10, 11)),
        (Sliding, (10, 5, -5)),
        (Session, (0,)),
        (Tumbling, (2**62,)),
        (Sliding, (2**62, 5)),
        (Session, (2**70,)),
    ],
)
def test_windows_that_make_no_sense_are_refused(
    kind: type[WindowSpec], arguments: tuple[int, ...]
) -> None:
    """What Spark refuses is refused, with a hint."""
    with pytest.raises(StateMismatch) as refused:
        kind(*arguments)
    assert refused.value.hint


def test_times_that_are_not_whole_microseconds_are_refused() -> None:
    """Floating-point times are not rounded in silence."""
    with pytest.raises(StateMismatch, match="float64"):
        Tumbling(10).assign(np.array([1.5]))


@pytest.mark.parametrize(
    "spec", [Tumbling(1000), Tumbling(1000, -7), Sliding(1000, 300, 299), Session(1000)]
)
def test_times_whose_windows_would_not_fit_in_64_bits_are_refused(spec: WindowSpec) -> None:
    """They would wrap around to the other end of time; a little further in, all is well."""
    for extreme, inwards in ((2**63 - 5, -1), (-(2**63) + 5, 1)):
        with pytest.raises(StateMismatch, match=f"time {extreme} us") as refused:
            spec.assign(np.array([0, extreme]))
        assert refused.value.hint
        inside = extreme + inwards * 2000
        assert windows(spec, inside)
        assert all(start <= inside < end for _, start, end in windows(spec, inside))
