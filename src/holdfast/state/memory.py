"""Giving memory back to the operating system after a large piece of work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa


def release_memory() -> None:
    """Return what allocators keep for later: after a large merge that is most of what it used.

    A process that has merged a base once would otherwise look several times its size for ever.
    """
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[..., Any] | None:
    """Return the C library's own way to do it, where there is one."""
    try:
        library = ctypes.CDLL(None)
    except OSError:
        return None
    return getattr(library, "malloc_trim", None)
