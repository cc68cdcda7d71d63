"""The four days, told as they happen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.clock import utc_now
from holdfast.demo.shop import CONFIG, Shop
from holdfast.errors import UsageError
from holdfast.pipelines.project import Project

if TYPE_CHECKING:
    from holdfast.pipelines.running import RunResult

_MARKER = ".made-by-holdfast-demo"


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the story and the run that ended it."""

    title: str
    changes: tuple[str, ...]
    result: RunResult


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table in the source against its copy, as multisets of rows."""

    table: str
    source_rows: int
    target_rows: int
    missing: int
    unexpected: int


def prepare(directory: Path) -> Path:
    """Make an empty directory for the demonstration, replacing only an earlier one."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / _MARKER).exists():
            raise UsageError(
                f"{directory} exists and is not empty.",
                hint="Name another one: holdfast demo --directory DIR",
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _MARKER).touch()
    config = directory / "holdfast.toml"
    config.write_text(CONFIG, encoding="utf-8")
    return config


def tell(project: Project, directory: Path) -> Iterator[Day]:
    """Live through the four days; each is given as soon as its run is over."""
    midnight = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    shop = Shop(directory / "shop", midnight - timedelta(days=4))
    for title, changes in _days(shop):
        said = tuple(text for text, change in changes if change() is None)
        shop.dump()
        yield Day(title, said, project.run("shop"))
        shop.close_for_the_night()


def compare(project: Project, directory: Path) -> list[Comparison]:
    """Hold every copy against its source, row by row."""
    from holdfast.spark.comparing import compare_rows

    tables = project.config.replicate_named("shop").tables or ()
    found = []
    for table in tables:
        source, target, missing, unexpected = compare_rows(
            project.spark,
            source=(directory / "shop" / f"{table}.csv"),
            target=(directory / "lake" / table),
        )
        found.append(Comparison(table, source, target, missing, unexpected))
    return found


Change = tuple[str, Callable[[], None]]


def _days(shop: Shop) -> list[tuple[str, list[Change]]]:
    return [
        (
            "Day 1: the shop opens; everything is copied for the first time",
            [("900 orders with payments, 200 customers, 120 products", shop.open_doors)],
        ),
        (
            "Day 2: business as usual",
            [
                ("150 new orders with payments", lambda: shop.sell(150)),
                ("80 orders change status", lambda: shop.progress(80)),
            ],
        ),
        (
            "Day 3: business as usual",
            [
                ("170 new orders with payments", lambda: shop.sell(170)),
                ("90 orders change status", lambda: shop.progress(90)),
            ],
        ),
        (
            "Day 4: things happen",
            [
                (
                    "12 orders arrive late, dated before the newest one copied",
                    lambda: shop.sell_late(12),
                ),
                (
                    "5 payments have exactly the time of the newest one copied",
                    lambda: shop.pay_in_the_same_instant(5),
                ),
                ("160 new orders with payments", lambda: shop.sell(160)),
                ("customers get a column: loyalty; 25 of them change", shop.add_loyalty),
                ("products is truncated at the source: 3 of 120 rows are left", shop.lose_products),
            ],
        ),
    ]
