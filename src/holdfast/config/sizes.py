"""Sizes as people write them: `"500 MB"`, `"1 GiB"`, or a number of bytes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from holdfast.config.section import expected
from holdfast.config.values import number

_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(value: Any) -> int | None:
    """Return a number of bytes, or nothing when the value is not a size."""
    read = number(value)
    if read is not None:
        return int(read) if read > 0 else None
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2].lower()]) or None


def _size(value: Any) -> int:
    read = parse_size(value)
    if read is None:
        raise expected('a size such as "500 MB", "1 GiB" or a number of bytes')
    return read


Size = Annotated[int, BeforeValidator(_size)]
