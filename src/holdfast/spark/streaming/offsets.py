"""What Spark writes down about an epoch before it runs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.errors import CheckpointError
from holdfast.model import SourcePosition

_ABSENT = "-"


def read_offsets(text: str, *, place: str) -> tuple[Any, ...]:
    """The offset of each source after an epoch, as the source itself writes it in JSON.

    The first line is the version of the format, the second one belongs to Spark, and each of the
    others is the offset of one source, or a dash.
    """
    version, *lines = text.splitlines()
    if version != "v1" or not lines:
        raise CheckpointError(
            f"{place} is of a format that Holdfast does not know ({version!r}).",
            hint="This version of Holdfast works with the offset log v1 of Spark 4.",
        )
    return tuple(None if line == _ABSENT else _decoded(line) for line in lines[1:])


def positions(
    sources: Sequence[str], before: tuple[Any, ...], after: tuple[Any, ...]
) -> tuple[SourcePosition, ...]:
    """What each source moves over in an epoch."""
    found = []
    for index, end in enumerate(after):
        name = sources[index] if index < len(sources) else f"source {index + 1}"
        start = before[index] if index < len(before) else None
        found.append(SourcePosition(name, start, end))
    return tuple(found)


def log_offset(offset: Any) -> int | None:
    """The entry of its own log up to which a source was read; only file sources keep one."""
    found = offset.get("logOffset") if isinstance(offset, dict) else None
    return found if isinstance(found, int) else None


def _decoded(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        # A source may write what it likes; it only has to understand it itself.
        return line
