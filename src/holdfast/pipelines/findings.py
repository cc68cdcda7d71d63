"""What the doctor says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    status: Literal["ok", "warn", "critical"]
    message: str
    fix: str = ""
