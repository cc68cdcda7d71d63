"""Guessing what a misspelt key or value was meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

_SHORTEST_BEGINNING: Final = 3


def closest(word: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return the known word that looks most like this one, or the only one it begins."""
    by_lowercase = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(word.lower(), by_lowercase, n=1, cutoff=likeness)
    if not matches and len(word) >= _SHORTEST_BEGINNING:
        matches = [name for name in by_lowercase if name.startswith(word.lower())]
    return by_lowercase[matches[0]] if len(matches) == 1 else ""


def meant_keys(data: Mapping[str, Any], known: Iterable[str]) -> dict[str, str]:
    """Map each unknown key of a table to the key it was probably meant to be, or to nothing.

    A key that is already there, rightly spelt, is suggested but never stood in for, so the
    caller can tell the two apart with `in data`.
    """
    known = tuple(known)
    return {key: closest(key, known) for key in data if key not in known}


def with_meant_keys(data: Mapping[str, Any], meant: Mapping[str, str]) -> dict[str, Any]:
    """Return the table as if its misspelt keys had been spelt right.

    Validation goes on over this table: without it `watermrk = "ts"` would be reported twice,
    once as an unknown key and once as a missing `watermark`.
    """
    right = {key: value for key, value in data.items() if key not in meant}
    for written, intended in meant.items():
        if intended and intended not in right:
            right[intended] = data[written]
    return right
