"""Crashes inside one process: what a kill leaves behind, without the wait for a new Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast import failpoints

from .workshop import Workshop


class Crash(BaseException):
    """The end of a process; not an `Exception`, so that nothing tidies up after it."""


@contextmanager
def crashing_at(step: str) -> Iterator[None]:
    """Crash whatever reaches a step inside."""

    def observer(reached: str, _subject: str) -> None:
        if reached == step:
            raise Crash(step)

    failpoints.observe(observer)
    try:
        yield
    finally:
        failpoints.observe(None)


def crash(shop: Workshop, step: str) -> None:
    """Run, and crash at a step."""
    with crashing_at(step), pytest.raises(Crash):
        shop.run_all()
