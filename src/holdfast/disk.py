"""Files and directories of a local disk, made to survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make what was created, renamed or removed in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path) -> None:
    """Create a directory and those above it, all of them durable.

    A directory that a power cut takes away takes everything in it along. The nearest one that
    was there already is made durable too: whoever made it may have died before doing so.
    """
    missing = []
    place = directory
    while not place.exists() and place != place.parent:
        missing.append(place)
        place = place.parent
    directory.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_directory(made.parent)
    if not missing:
        sync_directory(directory.parent)
