"""Which windows a time belongs to, exactly as Spark SQL's `window` and `session_window` say.

Times are whole microseconds since 1970. A window holds its start and not its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from holdfast.errors import StateMismatch
from holdfast.state.codes import FIRST, LAST
from holdfast.state.columns import Int64s

_LONGEST_US: Final = 2**61
"""Some 73,000 years: with windows of this length there are times whose windows fit in 64 bits."""


class Assigned(NamedTuple):
    """Windows of a batch of times: one row for every window that a time is in."""

    row: Int64s
    """The position of the time in the batch; positions ascend."""
    start_us: Int64s
    """Inclusive."""
    end_us: Int64s
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of one size that begin every `slide_us`, shifted by `offset_us` from 1970.

    A time is in `size_us / slide_us` of them; if that is not whole, in one more or one less.
    """

    merges: ClassVar[bool] = False

    size_us: int
    slide_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        _require(self.size_us > 0, f"A window of {self.size_us} us is empty.", "1 us or more")
        _require_short(self.size_us, "A window")
        _require(
            0 < self.slide_us <= self.size_us,
            f"Windows of {self.size_us} us cannot slide by {self.slide_us} us.",
            "a slide from 1 us up to the size, so that no time is without a window",
        )
        _require(
            abs(self.offset_us) < self.slide_us,
            f"An offset of {self.offset_us} us is not shorter than the slide, {self.slide_us} us.",
            "what is left of it after a division by the slide",
        )

    def assign(self, times_us: Int64s) -> Assigned:
        """Return the windows of every time, the earliest of a time first."""
        times = _within(checked_times(times_us), self.size_us + self.slide_us)
        latest = times - np.mod(times - self.offset_us, self.slide_us)
        most = -(-self.size_us // self.slide_us)
        back = np.arange(most - 1, -1, -1, dtype=np.int64) * self.slide_us
        starts = latest[:, None] - back
        row, place = np.nonzero(starts + self.size_us > times[:, None])
        start = starts[row, place]
        return Assigned(row, start, start + self.size_us)


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size behind one another, shifted by `offset_us` from 1970."""

    merges: ClassVar[bool] = False

    size_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        Sliding(self.size_us, self.size_us, self.offset_us)

    def assign(self, times_us: Int64s) -> Assigned:
        """Return the window of every time."""
        times = _within(checked_times(times_us), 2 * self.size_us)
        start = times - np.mod(times - self.offset_us, self.size_us)
        return Assigned(np.arange(len(times)), start, start + self.size_us)


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that last until nothing has happened for `gap_us`.

    A time alone is the session `[time, time + gap)`. Sessions of a key that overlap or touch
    are one: Spark's `MergingSessionsIterator` joins a row if its start is not after the end of
    the session before it, so an event exactly `gap_us` after the last one still belongs.
    """

    merges: ClassVar[bool] = True

    gap_us: int

    def __post_init__(self) -> None:
        _require(self.gap_us > 0, f"A gap of {self.gap_us} us joins nothing.", "1 us or more")
        _require_short(self.gap_us, "A gap")

    def assign(self, times_us: Int64s) -> Assigned:
        """Return the session that every time would be alone; adding them merges them."""
        times = _within(checked_times(times_us), self.gap_us)
        return Assigned(np.arange(len(times)), times, times + self.gap_us)


WindowSpec: TypeAlias = Tumbling | Sliding | Session


def checked_times(times_us: Any) -> Int64s:
    """Return times as an array of 64-bit integers; other types are refused, not rounded."""
    times = np.asarray(times_us)
    if times.dtype != np.int64 or times.ndim != 1:
        raise StateMismatch(
            f"Times are of type {times.dtype} in {times.ndim} dimensions, not one of int64.",
            hint="Give whole microseconds since 1970, without nulls.",
        )
    return np.ascontiguousarray(times)


def _within(times: Int64s, reach_us: int) -> Int64s:
    """Return times, none of them so near to the ends of 64 bits that a window would not fit."""
    if len(times):
        for extreme in (int(times.min()), int(times.max())):
            if not FIRST + reach_us <= extreme <= LAST - reach_us:
                raise StateMismatch(
                    f"The time {extreme} us is so extreme that its windows are beyond 64 bits.",
                    hint="Give microseconds since 1970; filter out times that stand for none.",
                )
    return times


def _require(holds: bool, problem: str, instead: str) -> None:
    if not holds:
        raise StateMismatch(problem, hint=f"Give {instead}.")


def _require_short(length_us: int, what: str) -> None:
    problem = f"{what} of {length_us} us leaves hardly any time that it could be around."
    _require(length_us <= _LONGEST_US, problem, f"{_LONGEST_US} us or less")
