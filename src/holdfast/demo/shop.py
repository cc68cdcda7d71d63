"""The shop's tables: realistic enough to have ties, late rows and accidents."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from holdfast.clock import isoformat

Row = dict[str, str]

CONFIG = """\
[spark]
master = "local[*]"

[pipeline.shop]
type = "replicate"
source = { format = "csv", path = "shop", options = { header = "true", inferSchema = "true" } }
target = { format = "parquet", path = "lake" }
tables = ["orders", "payments", "customers", "products"]
watermark = "updated_at"

[pipeline.shop.checks]
anomaly_threshold_pct = 50
freshness = { threshold_seconds = 604800 }
null_rate = { customer_id = 0.01 }

[pipeline.shop.table.orders]        # rows change, and some are written late
strategy = "merge"
primary_key = ["id"]
overlap = "3 hours"

[pipeline.shop.table.payments]      # rows are only added, several in the same instant
cursor = ["updated_at", "id"]

[pipeline.shop.table.customers]
strategy = "merge"
primary_key = ["id"]

[pipeline.shop.table.products]      # small: copied whole
strategy = "full_refresh"
"""

_STATUSES = ("new", "paid", "shipped", "delivered")
_CITIES = ("Lisbon", "Lagos", "Lima", "Lyon", "Leeds", "Lahore")
_THINGS = ("lamp", "kettle", "chair", "rug", "clock", "mirror", "shelf", "basket")


@dataclass
class Shop:
    """Tables in memory, written as one CSV file each, as a nightly dump would be."""

    directory: Path
    today: datetime
    tables: dict[str, list[Row]] = field(default_factory=dict)
    _random: random.Random = field(default_factory=lambda: random.Random(20))

    def open_doors(self) -> None:
        """The first day: customers, products, and some orders."""
        self.tables = {"orders": [], "payments": [], "customers": [], "products": []}
        for number in range(1, 201):
            self._add(
                "customers",
                name=f"Customer {number}",
                city=self._random.choice(_CITIES),
                updated_at=self._moment(),
            )
        for number in range(1, 121):
            self._add(
                "products",
                name=f"{self._random.choice(_THINGS)} no. {number}",
                price=f"{self._random.uniform(3, 300):.2f}",
                updated_at=self._moment(),
            )
        self.sell(900)

    def sell(self, orders: int) -> None:
        """New orders and their payments, spread over the day."""
        for moment in sorted(self._moment() for _ in range(orders)):
            self._add(
                "orders",
                customer_id=str(self._random.randint(1, len(self.tables["customers"]))),
                status="new",
                total=f"{self._random.uniform(5, 500):.2f}",
                updated_at=moment,
            )
            self._add("payments", order_id=self.tables["orders"][-1]["id"], updated_at=moment)

    def progress(self, orders: int) -> None:
        """Some earlier orders move on to their next status."""
        for row in self._random.sample(self.tables["orders"], orders):
            row["status"] = _STATUSES[min(3, _STATUSES.index(row["status"]) + 1)]
            row["updated_at"] = isoformat(self._moment())

    def sell_late(self, orders: int) -> None:
        """Orders a till had kept to itself: their time is before the newest one copied."""
        newest = max(datetime.fromisoformat(row["updated_at"]) for row in self.tables["orders"])
        for _ in range(orders):
            moment = newest - timedelta(minutes=self._random.randint(5, 150))
            self._add("orders", customer_id="1", status="new", total="20.00", updated_at=moment)

    def pay_in_the_same_instant(self, payments: int) -> None:
        """Payments with exactly the time of the newest one that was copied."""
        newest = max(row["updated_at"] for row in self.tables["payments"])
        for _ in range(payments):
            order = self._random.choice(self.tables["orders"])["id"]
            self._add("payments", order_id=order, updated_at=datetime.fromisoformat(newest))

    def add_loyalty(self) -> None:
        """Customers get a new column; some of them change on the same day."""
        for row in self.tables["customers"]:
            row["loyalty"] = ""
        for row in self._random.sample(self.tables["customers"], 25):
            row["loyalty"] = self._random.choice(("silver", "gold"))
            row["updated_at"] = isoformat(self._moment())

    def lose_products(self) -> None:
        """An accident: all but a few products are gone."""
        del self.tables["products"][3:]

    def close_for_the_night(self) -> None:
        """Go on to the next day."""
        self.today += timedelta(days=1)

    def dump(self) -> None:
        """Write every table to its file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            with (self.directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)

    def _add(self, table: str, *, updated_at: datetime, **columns: str) -> None:
        rows = self.tables[table]
        rows.append({"id": str(len(rows) + 1), **columns, "updated_at": isoformat(updated_at)})

    def _moment(self) -> datetime:
        return self.today + timedelta(microseconds=self._random.randrange(20 * 3600 * 10**6))
