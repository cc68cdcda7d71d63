"""The 64-bit code by which the rows of a table are sorted.

    hash    the look-up hash of the whole key
    entry   | 40 upper bits of the key's hash | 24 bits of the entry's hash |
    time    | milliseconds since 1970, 44 bits, signed | 20 upper bits of the key's hash |

A code orders and narrows; it never decides. Two rows are the same only if their key columns
are, so codes may collide freely, and times outside 44 bits (before 1691 or after 2248) may
share the first or the last one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from holdfast.state.columns import Int64s
from holdfast.state.hashing import splitmix64

ENTRY_BITS: Final = 24
TIME_HASH_BITS: Final = 20
FIRST: Final = -(2**63)
LAST: Final = 2**63 - 1

_FIRST_MS: Final = FIRST >> TIME_HASH_BITS
_LAST_MS: Final = LAST >> TIME_HASH_BITS
_ENTRY_MASK: Final = np.int64((1 << ENTRY_BITS) - 1)


def entry_codes(owner_hashes: Int64s, entry_hashes: Int64s) -> Int64s:
    """Return the codes of entries that belong to keys."""
    # Scattered, because the entries of a list are numbered and their numbers' low bits alike.
    low = splitmix64(entry_hashes.view(np.uint64)).view(np.int64) & _ENTRY_MASK
    return np.asarray((owner_hashes & ~_ENTRY_MASK) | low, np.int64)


def entry_range(owner_hashes: Int64s) -> tuple[Int64s, Int64s]:
    """Return the first and the last code that entries of each key can have."""
    return owner_hashes & ~_ENTRY_MASK, owner_hashes | _ENTRY_MASK


def time_codes(times_ms: Int64s, owner_hashes: Int64s) -> Int64s:
    """Return the codes of entries that are due at some time."""
    clamped = np.clip(times_ms, _FIRST_MS, _LAST_MS)
    scattered = owner_hashes.view(np.uint64) >> np.uint64(64 - TIME_HASH_BITS)
    return np.asarray((clamped << TIME_HASH_BITS) | scattered.view(np.int64), np.int64)


def time_range(first_ms: int, last_ms: int) -> tuple[int, int]:
    """Return the first and the last code of times from `first_ms` to `last_ms`, inclusive."""
    low = min(max(first_ms, _FIRST_MS), _LAST_MS)
    high = min(max(last_ms, _FIRST_MS), _LAST_MS)
    return low << TIME_HASH_BITS, (high << TIME_HASH_BITS) | ((1 << TIME_HASH_BITS) - 1)
