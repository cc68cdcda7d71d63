"""Named steps at which a test can end the process.

Durability is shown by killing a real process at each of these steps. In production the
environment variable is unset and `reach` costs one dictionary look-up.

    HOLDFAST_KILL_AT="staged:bronze.orders"     SIGKILL on reaching that step for that table
    HOLDFAST_KILL_AT="staged"                   SIGKILL on reaching that step for any table
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

KILL_AT = "HOLDFAST_KILL_AT"

Observer = Callable[[str, str], None]
_observer: Observer | None = None


def reach(step: str, subject: str = "") -> None:
    """Say that `subject` has reached `step`; dies here if a test asked for it."""
    if _observer is not None:
        _observer(step, subject)
    armed = os.environ.get(KILL_AT)
    if armed and armed in (step, f"{step}:{subject}"):
        os.kill(os.getpid(), signal.SIGKILL)


def observe(observer: Observer | None) -> None:
    """Call `observer(step, subject)` at every step; `None` stops it.

    An observer that raises simulates a crash inside one process, which is how
    model-based tests crash a run thousands of times cheaply.
    """
    global _observer  # noqa: PLW0603 - one process has one set of failpoints
    _observer = observer
