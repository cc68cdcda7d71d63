"""Targets on a file system that only Hadoop's client reaches; its local one stands for it."""

from __future__ import annotations

import pytest

from .workshop import Workshop, at, sorted_rows

MERGE = 'watermark = "ts"\nstrategy = "merge"\nprimary_key = ["id"]'


@pytest.fixture(autouse=True)
def through_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let targets take no path for a local one."""
    monkeypatch.setattr("holdfast.spark.filesystem.is_local", lambda _spark, _path: False)


def test_batches_are_appended_and_rewound(shop: Workshop) -> None:
    """Without links and exchanges in one step a table still ends equal to its source."""
    shop.configure('watermark = "ts"')
    rows = [{"id": n, "ts": at(n)} for n in (1, 2, 3)]
    for row in rows:
        shop.add([row])
        shop.copy()
    with shop.open() as project:
        project.state.rewind("p.t", to=[str(at(1).isoformat())])

    assert shop.copy().reason == "rewound"
    assert shop.copied() == sorted_rows(rows)
    assert shop.run().status == "unchanged"


def test_rows_are_merged(shop: Workshop) -> None:
    """A table is replaced by its next version in two renames, and nothing is left behind."""
    shop.configure(MERGE)
    shop.add([{"id": 1, "ts": at(1)}, {"id": 2, "ts": at(1)}])
    shop.copy()
    shop.add([{"id": 2, "ts": at(2)}])
    shop.copy()

    assert shop.copied() == sorted_rows([{"id": 1, "ts": at(1)}, {"id": 2, "ts": at(2)}])
    assert list(shop.staging.rglob("*.parquet")) == []
