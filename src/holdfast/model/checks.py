"""The verdict of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckName = Literal["row_count", "column_match", "anomaly", "freshness", "growth", "null_rate"]
Severity = Literal["warn", "fail"]
CheckStatus = Literal["ok", "warn", "fail", "not_enough_history", "not_applicable"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found; `status` is `ok` or the severity it was given."""

    check: CheckName
    status: CheckStatus
    message: str
    observed: float | None = None
    expected: float | None = None
    column: str | None = None

    @property
    def bad(self) -> bool:
        """Whether someone should look."""
        return self.status in ("warn", "fail")
