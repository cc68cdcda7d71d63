"""Durations as people write them: `30 days`, `1h30m`, `500 ms`, or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer

from holdfast.config.section import expected
from holdfast.config.spelling import closest
from holdfast.config.values import number

_SECONDS_PER_UNIT: Final = {
    "ms": 0.001,
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 604800,
}
_UNITS: Final = {
    **{unit: unit for unit in _SECONDS_PER_UNIT},
    **dict.fromkeys(("millisecond", "milliseconds", "millis"), "ms"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("week", "weeks"), "w"),
}
_WORDS: Final = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)[\s,]*")
_WHAT: Final = 'a duration such as "30 days", "1h30m", "500 ms" or a number of seconds'


def parse_duration(value: object) -> timedelta | None:
    """Return the duration a value stands for, or nothing when it is not one."""
    if isinstance(value, timedelta):
        return value if value >= timedelta() else None
    seconds = number(value)
    if seconds is None and isinstance(value, str):
        seconds = _seconds_in(value)
    if seconds is None or seconds < 0:
        return None
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return None


def describe_duration(duration: timedelta) -> str:
    """Write a duration so that `parse_duration` reads the same one: `1 hour 30 minutes`."""
    rest = duration // timedelta(microseconds=1)
    parts = []
    for word, seconds in _WORDS:
        count, rest = divmod(rest, seconds * 1_000_000)
        if count:
            parts.append(f"{count} {word}" if count == 1 else f"{count} {word}s")
    if rest:
        parts.append(f"{rest / 1000:g} ms")
    return " ".join(parts) or "0 seconds"


def _seconds_in(text: str) -> float | None:
    text = text.strip()
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    seconds = 0.0
    for part in parts:
        unit = _UNITS.get(part[2].lower())
        if unit is None:
            return None
        seconds += float(part[1]) * _SECONDS_PER_UNIT[unit]
    return seconds


def _misspelt_unit(value: object) -> str:
    """Return the duration again with the units it was probably meant to have, or nothing."""
    if not isinstance(value, str):
        return ""
    meant = _PART.sub(
        lambda part: f"{part[1]} {closest(part[2], _UNITS) or part[2]} ", value.strip()
    ).strip()
    return f'"{meant}"' if _seconds_in(meant) is not None else ""


def _duration(value: Any) -> timedelta:
    duration = parse_duration(value)
    if duration is None:
        raise expected(_WHAT, suggestion=_misspelt_unit(value))
    return duration


Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(describe_duration)]
