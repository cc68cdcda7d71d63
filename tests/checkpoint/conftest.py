"""A workshop over each kind of ledger and location."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import failpoints
from holdfast.ledger import Ledger, MemoryLedger, SqliteLedger
from holdfast.objects import LocalObjects, MemoryObjects, ObjectStore

from .workshop import Workshop


@pytest.fixture(params=["memory", "disk"])
def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    """A pipeline without checkpoints, whose lease was taken once."""
    ledger: Ledger
    objects: ObjectStore
    if request.param == "memory":
        ledger, objects = MemoryLedger(), MemoryObjects()
    else:
        ledger = SqliteLedger(tmp_path / "ledger.db")
        objects = LocalObjects(tmp_path / "checkpoints")
    with ledger:
        made = Workshop(ledger, objects)
        made.activate()
        yield made
    failpoints.observe(None)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Workshop]:
    """The same on disk, for tests about files."""
    with SqliteLedger(tmp_path / "ledger.db") as ledger:
        made = Workshop(ledger, LocalObjects(tmp_path / "checkpoints"))
        made.activate()
        yield made
    failpoints.observe(None)
