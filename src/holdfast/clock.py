"""Time, as a value that can be passed in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Anything that returns the current time as an aware UTC datetime."""


def utc_now() -> datetime:
    """Return the current time in UTC, to the microsecond."""
    return datetime.now(UTC)


def isoformat(moment: datetime) -> str:
    """Write a moment the one way Holdfast writes moments: `2025-03-15T14:30:00.000000Z`."""
    # Not strftime: it writes the year 1 as "1" on some systems.
    plain = moment.astimezone(UTC).replace(tzinfo=None)
    return plain.isoformat(timespec="microseconds") + "Z"


def describe_age(age: timedelta) -> str:
    """Say a duration the way a person would: `42s`, `7m`, `3h 10m`, `12d`."""
    seconds = int(age.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 60:
        return f"{sign}{seconds}s"
    if seconds < 3600:
        return f"{sign}{seconds // 60}m"
    if seconds < 86400:
        hours, rest = divmod(seconds, 3600)
        return f"{sign}{hours}h {rest // 60}m" if rest >= 60 else f"{sign}{hours}h"
    return f"{sign}{seconds // 86400}d"
