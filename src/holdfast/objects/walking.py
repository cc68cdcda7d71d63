"""The files below a directory, in the order of their keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def walk(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Walk the files whose path below `root` starts with `prefix`, hidden files too.

    Hidden directories are not ours. Files that go away in the meantime are passed over.
    """
    folder, _, _ = prefix.rpartition("/")
    if any(part in ("", ".", "..") for part in folder.split("/")) and folder:
        return
    yield from _walk(root / folder, f"{folder}/" if folder else "", prefix)


def _walk(directory: Path, base: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(directory) as found:
            # With its slash, a directory stands where the keys below it belong.
            entries = sorted(
                (f"{entry.name}/" if entry.is_dir() else entry.name, entry) for entry in found
            )
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in entries:
        key = base + name
        if name.endswith("/"):
            if not name.startswith(".") and (key.startswith(prefix) or prefix.startswith(key)):
                yield from _walk(Path(entry.path), key, prefix)
        elif key.startswith(prefix):
            try:
                yield key, entry.stat()
            except FileNotFoundError:
                continue
