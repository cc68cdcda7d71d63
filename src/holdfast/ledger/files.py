"""Directories, handled the way a durable file needs them."""

from __future__ import annotations

import os
from pathlib import Path


def make_parents(path: Path) -> None:
    """Create the directory a file is to live in."""
    path.parent.mkdir(parents=True, exist_ok=True)


def sync_directory(directory: Path) -> None:
    """Make what was created or renamed in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
