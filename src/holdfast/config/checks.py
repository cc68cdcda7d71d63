"""`[pipeline.<name>.checks]`: what is verified about every batch."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from holdfast.config.section import Section
from holdfast.config.values import Flag, Fraction, PositiveNumber, one_of, whole_number
from holdfast.model import CheckName, Severity, Strategy

_OptionalSeverity = Annotated[Severity | None, one_of(Severity, optional=True)]
# `freshness = false` switches off for one table what the pipeline switched on.
_off_when_false = BeforeValidator(lambda value: None if value is False else value)


class FreshnessConfig(Section):
    """How old the newest row may be."""

    threshold_seconds: PositiveNumber = Field(
        description="the age in seconds above which the newest row is too old"
    )


class GrowthConfig(Section):
    """How long a table may stay without new rows."""

    max_flat_runs: Annotated[int, whole_number(1)] = Field(
        description="the number of runs in a row that may bring no new rows"
    )


class SeverityConfig(Section):
    """What a check that does not pass does to its batch."""

    row_count: _OptionalSeverity = None
    column_match: _OptionalSeverity = None
    anomaly: _OptionalSeverity = None
    freshness: _OptionalSeverity = None
    growth: _OptionalSeverity = None
    null_rate: _OptionalSeverity = None


class ChecksConfig(Section):
    """The checks of a pipeline or, merged key by key over those, of one table."""

    enabled: Flag = True
    row_count: Flag = True
    column_match: Flag = True
    anomaly: Flag = True
    anomaly_threshold_pct: PositiveNumber = 50.0
    anomaly_window: Annotated[int, whole_number(3, 1000)] = 10
    freshness: Annotated[FreshnessConfig | None, _off_when_false] = None
    growth: Annotated[GrowthConfig | None, _off_when_false] = None
    null_rate: dict[str, Fraction] = Field(default_factory=dict)
    severity: SeverityConfig = Field(default_factory=SeverityConfig)

    def severity_of(self, check: CheckName, strategy: Strategy) -> Severity:
        """Return what a failing check does: `fail` keeps the batch back, `warn` reports it."""
        configured: Severity | None = getattr(self.severity, check)
        if configured is not None:
            return configured
        # A full refresh replaces the target: publishing a truncated source would lose rows.
        replaces_target = check == "anomaly" and strategy == "full_refresh"
        return "fail" if check == "row_count" or replaces_target else "warn"

    def merged_with(self, override: ChecksConfig) -> ChecksConfig:
        """Return these checks with every key that the override sets put in place."""
        changes: dict[str, Any] = {key: getattr(override, key) for key in override.model_fields_set}
        changes["null_rate"] = {**self.null_rate, **override.null_rate}
        changes["severity"] = self.severity.model_copy(
            update={
                check: getattr(override.severity, check)
                for check in override.severity.model_fields_set
            }
        )
        return self.model_copy(update=changes)
