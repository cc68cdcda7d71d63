"""The checks of a pipeline."""

from __future__ import annotations

import pytest
from config_files import COMPLETE, Load, Problems

from holdfast.config import ChecksConfig
from holdfast.model import CheckName, Severity, Strategy

CHECKS = COMPLETE + "[pipeline.bronze.checks]\n"


def test_checks_have_defaults(load: Load) -> None:
    """What needs no threshold is on; the rest waits for one."""
    checks = load(COMPLETE).replications["bronze"].checks
    assert checks == ChecksConfig()
    assert checks.enabled
    assert checks.row_count
    assert checks.column_match
    assert checks.anomaly
    assert (checks.anomaly_threshold_pct, checks.anomaly_window) == (50, 10)
    assert (checks.freshness, checks.growth, checks.null_rate) == (None, None, {})


def test_thresholds_are_read(load: Load) -> None:
    """Each check has its own keys."""
    text = (
        CHECKS
        + """
anomaly = false
freshness = { threshold_seconds = 86400 }
growth = { max_flat_runs = 5 }
null_rate = { email = 0.05, name = 1 }
"""
    )
    checks = load(text).replications["bronze"].checks
    assert not checks.anomaly
    assert checks.freshness is not None
    assert checks.freshness.threshold_seconds == 86400
    assert checks.growth is not None
    assert checks.growth.max_flat_runs == 5
    assert checks.null_rate == {"email": 0.05, "name": 1.0}


@pytest.mark.parametrize(
    ("check", "strategy", "severity"),
    [
        ("row_count", "incremental", "fail"),
        ("anomaly", "incremental", "warn"),
        ("anomaly", "merge", "warn"),
        ("anomaly", "full_refresh", "fail"),
        ("column_match", "full_refresh", "warn"),
        ("freshness", "incremental", "warn"),
        ("growth", "incremental", "warn"),
        ("null_rate", "incremental", "warn"),
    ],
)
def test_severities_have_defaults(check: CheckName, strategy: Strategy, severity: Severity) -> None:
    """What would lose rows fails; the rest warns."""
    assert ChecksConfig().severity_of(check, strategy) == severity


def test_severities_can_be_set(load: Load) -> None:
    """A severity that is written down goes before the default."""
    checks = load(CHECKS + 'severity = { row_count = "warn", anomaly = "fail" }\n')
    configured = checks.replications["bronze"].checks
    assert configured.severity_of("row_count", "incremental") == "warn"
    assert configured.severity_of("anomaly", "incremental") == "fail"


def test_wrong_checks_are_explained(problems: Problems) -> None:
    """Each threshold says what it takes."""
    text = (
        CHECKS
        + """
anomaly_treshold_pct = 0
anomaly_window = 1001
freshness = { threshold_seconds = "1 day" }
growth = {}
null_rate = { email = 5 }
severity = { row_cont = "fail", anomaly = "wran" }
enabled = 1
"""
    )
    at = "pipeline.bronze.checks"
    assert problems(text) == [
        f"{at}.anomaly_treshold_pct: unknown key (did you mean anomaly_threshold_pct?)",
        f"{at}.anomaly_treshold_pct: found 0, expected a number greater than 0",
        f"{at}.anomaly_window: found 1001, expected a whole number from 3 to 1000",
        f'{at}.freshness.threshold_seconds: found "1 day", expected a number greater than 0',
        f"{at}.growth.max_flat_runs: this key is missing; expected the number of runs in a row"
        " that may bring no new rows",
        f"{at}.null_rate.email: found 5, expected a fraction from 0 to 1 (0.05 is 5 %)",
        f"{at}.severity.row_cont: unknown key (did you mean row_count?)",
        f'{at}.severity.anomaly: found "wran", expected "warn" or "fail" (did you mean "warn"?)',
        f"{at}.enabled: found 1, expected true or false",
    ]


def test_a_check_with_a_threshold_is_not_switched_on_by_true(problems: Problems) -> None:
    """There is no threshold to assume."""
    assert problems(CHECKS + "freshness = true\n") == [
        "pipeline.bronze.checks.freshness: found true, expected a table"
    ]
