"""From what a user writes to the place it means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from holdfast.errors import UsageError
from holdfast.objects.contract import ObjectStore
from holdfast.objects.local import LocalObjects

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):", re.IGNORECASE)


def open_objects(location: str | Path) -> ObjectStore:
    """Return the checkpoint location that a path or a `file:` URI names."""
    text = str(location)
    if not text or "\0" in text:
        raise UsageError(
            f"{text!r} is not a checkpoint location.",
            hint="Name a directory, for example .holdfast/checkpoints.",
        )
    found = _SCHEME.match(text)
    if found is None:
        return LocalObjects(text)
    scheme = (found[1] or found[2]).lower()
    if scheme != "file":
        raise UsageError(
            f"The checkpoint location {scheme}://… cannot be used: only local directories are "
            "available in this version.",
            hint="Name a directory that survives this machine's restarts, local or mounted.",
        )
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise UsageError(
            f"The checkpoint location {text} does not name a directory of this machine.",
            hint="Write file:///path/to/directory, or just the path.",
        )
    return LocalObjects(unquote(parts.path))
