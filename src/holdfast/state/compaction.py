"""When layers are merged: a pure function of their sizes.

Small layers are merged when there are eight of about one size, which keeps their number
logarithmic, unless the result would be so large that the base is due soon anyway. Everything is
merged into the oldest layer, the base, when the others together have grown to its size. Both
make the work of a batch, averaged over many, proportional to the batch and not to the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final

FAN_IN: Final = 8
"""How many layers of about one size are merged into one."""

BASE_SHARE: Final = 1.0
"""The base is rewritten when the layers above it together reach this part of its rows.

More of it: fewer rewrites, a larger state on disk, more layers to look through.
"""

TIER_SHARE: Final = 1 / 8
"""Layers are merged with one another only up to this part of the base.

Larger ones would be written twice in short order: now, and with the base.
"""

_SMALL: Final = 4096
"""Layers up to this size count as one size."""


def merge_from(sizes: Sequence[int]) -> int | None:
    """Say from which layer on all newer ones should be merged; `None` to leave them.

    `sizes` are the rows of the layers, oldest first.

    >>> merge_from([1_000_000, *[10_000] * 7])
    >>> merge_from([1_000_000, *[10_000] * 8])
    1
    >>> merge_from([1_000_000, *[20_000] * 8])
    >>> merge_from([1_000_000, 990_000, 10_000])
    0
    """
    if len(sizes) < 2:
        return None
    if sum(sizes[1:]) >= BASE_SHARE * sizes[0]:
        return 0
    merged = list(sizes)
    start: int | None = None
    while len(merged) > 1:
        tier = _newest_tier(merged)
        if len(merged) - tier < FAN_IN:
            return start
        if sum(merged[tier:]) > TIER_SHARE * sizes[0]:
            return start
        start = tier
        merged = [*merged[:tier], sum(merged[tier:])]
    return start


def _newest_tier(sizes: Sequence[int]) -> int:
    """Return where the newest layers that are no larger in kind than the last one begin."""
    kind = _kind(sizes[-1])
    start = len(sizes) - 1
    while start > 1 and _kind(sizes[start - 1]) <= kind:
        start -= 1
    return start


def _kind(size: int) -> int:
    return int(log(max(size, _SMALL) / _SMALL, FAN_IN) + 0.5)
