"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from config_files import COMPLETE, Load, Problems

from holdfast.config import describe_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ('"30 days"', 30 * 86400),
        ('"1 hour"', 3600),
        ('"90s"', 90),
        ('"1h30m"', 5400),
        ('"1h 30 min"', 5400),
        ('"1 hour, 30 minutes"', 5400),
        ('"500 ms"', 0.5),
        ('"1.5 Hours"', 5400),
        ('"2w"', 14 * 86400),
        ("0", 0),
    ],
)
def test_a_duration_is_read(load: Load, written: str, seconds: float) -> None:
    """Numbers are seconds; texts carry their units."""
    bronze = load(COMPLETE + f"max_future_skew = {written}\n").replications["bronze"]
    assert bronze.max_future_skew == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ['"soon"', '"90"', '"-1 day"', "-1", "true", '"1 h x"', '"h"', "nan", "1e300", "[]"]
)
def test_what_is_not_a_duration_is_refused(problems: Problems, written: str) -> None:
    """Nothing is guessed: neither a unit nor a sign."""
    [problem] = problems(COMPLETE + f"max_future_skew = {written}\n")
    assert problem.startswith("pipeline.bronze.max_future_skew: found ")
    assert 'expected a duration such as "30 days", "1h30m", "500 ms" or a number' in problem


def test_a_misspelt_unit_is_recognised(problems: Problems) -> None:
    """The whole duration is suggested."""
    [problem] = problems(COMPLETE + 'max_future_skew = "2 huors 5m"\n')
    assert problem.endswith('(did you mean "2 hours 5 m"?)')


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0 seconds"),
        (timedelta(hours=1, minutes=30), "1 hour 30 minutes"),
        (timedelta(days=30), "30 days"),
        (timedelta(milliseconds=500), "500 ms"),
        (timedelta(seconds=1, microseconds=1500), "1 second 1.5 ms"),
    ],
)
def test_a_duration_is_written_so_that_it_reads_back(duration: timedelta, text: str) -> None:
    """What is shown can be put into the file."""
    assert describe_duration(duration) == text
    assert parse_duration(text) == duration
