"""What to do with an error nobody foresaw."""

from __future__ import annotations

import traceback
from datetime import datetime
from pathlib import Path

from holdfast.clock import isoformat
from holdfast.errors import HoldfastError


def unexpected(
    subject: str, error: Exception, *, log_path: Path | None, now: datetime
) -> HoldfastError:
    """Keep the trace of a mistake of ours where it can be reported from."""
    hint = "This is a mistake in Holdfast."
    if log_path is not None:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("a", encoding="utf-8") as log:
            log.write(f"{isoformat(now)} {subject}\n")
            log.write("".join(traceback.format_exception(error)))
        hint += f" Please report it with the trace in {log_path}"
    return HoldfastError(f"{subject}: {type(error).__name__}: {error}", hint=hint)
