"""A source, a target, a configuration and a clock in a temporary directory.

Sources are written with pyarrow and targets read with it: neither passes through the code under
test.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

import holdfast
from holdfast.model import Plan, TableOutcome
from holdfast.pipelines.running import RunResult
from holdfast.pipelines.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

OWN = ("_loaded_by", "_loaded_at", "_batch_id")
MOMENT = pa.timestamp("us", tz="UTC")
"""What Spark calls a timestamp."""

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
"""The time on the workshop's clock until a test moves it."""


def at(minutes: float = 0, *, micros: int = 0) -> datetime:
    """A moment, in minutes after ten o'clock: well before the clock's noon."""
    return NOON - timedelta(hours=2) + timedelta(minutes=minutes, microseconds=micros)


@dataclass
class HandClock:
    """A clock that moves when a test moves it."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span: float) -> None:
        """Move on by a `timedelta` given by its keywords."""
        self.now += timedelta(**span)


@dataclass
class Workshop:
    """One project directory: `source/`, `lake/`, `holdfast.toml`."""

    directory: Path
    spark: SparkSession
    clock: HandClock = field(default_factory=HandClock)
    _files: int = 0

    def configure(
        self,
        settings: str = "",
        *,
        tables: Sequence[str] | None = ("t",),
        source: str = 'format = "parquet", path = "source"',
        target: str = 'format = "parquet", path = "lake"',
    ) -> None:
        """Write the configuration; `settings` are the lines below `[pipeline.p]`."""
        listed = "" if tables is None else f"tables = {list(tables)!r}\n".replace("'", '"')
        self.toml.write_text(
            '[pipeline.p]\ntype = "replicate"\n'
            f"source = {{ {source} }}\ntarget = {{ {target} }}\n{listed}{settings}\n",
            encoding="utf-8",
        )

    @property
    def toml(self) -> Path:
        """The configuration file."""
        return self.directory / "holdfast.toml"

    def open(self) -> holdfast.Project:
        """Open the project, as every command does."""
        return holdfast.open_project(self.toml, spark=self.spark, clock=self.clock)

    def add(
        self, rows: Sequence[Row], table: str = "t", *, types: dict[str, pa.DataType] | None = None
    ) -> None:
        """Add a file of rows to a source table."""
        directory = self.source(table)
        directory.mkdir(parents=True, exist_ok=True)
        self._files += 1
        found = arrow_table(rows, types)
        parquet.write_table(found, directory / f"{self._files:04}.parquet")

    def rewrite(
        self, rows: Sequence[Row], table: str = "t", *, types: dict[str, pa.DataType] | None = None
    ) -> None:
        """Replace the rows of a source table."""
        shutil.rmtree(self.source(table), ignore_errors=True)
        self.add(rows, table, types=types)

    def source(self, table: str = "t") -> Path:
        """Where a source table is."""
        return self.directory / "source" / table

    def target(self, table: str = "t") -> Path:
        """Where a table is copied to."""
        return self.directory / "lake" / table

    @property
    def staging(self) -> Path:
        """Where batches are written before anyone sees them."""
        return self.directory / "lake" / ".holdfast" / "staging"

    def run(self, **options: Any) -> TableOutcome:
        """Run the pipeline, which has one table, and say how that fared."""
        (outcome,) = self.run_all(**options).outcomes
        return outcome

    def run_all(self, **options: Any) -> RunResult:
        """Run the pipeline."""
        with self.open() as project:
            return project.run("p", **options)

    def copy(self, **options: Any) -> TableOutcome:
        """Run the pipeline, whose one table must be copied."""
        outcome = self.run(**options)
        assert outcome.status == "copied", outcome
        return outcome

    def plan(self, **options: Any) -> Plan:
        """Make a plan."""
        with self.open() as project:
            return project.plan("p", **options)

    def apply(self, plan: Plan, **options: Any) -> RunResult:
        """Apply a plan."""
        with self.open() as project:
            return project.apply(plan.plan_id, **options)

    def state(self, table: str = "p.t") -> TableState:
        """What the ledger remembers of a table."""
        with self.open() as project:
            return project.state.get(table)

    def watermark(self, table: str = "p.t") -> tuple[str, ...] | None:
        """Where a table's watermark stands."""
        watermark = self.state(table).watermark
        assert watermark is not None
        return watermark.position.values if watermark.position else None

    def rows(self, table: str = "t") -> list[Row]:
        """The rows of a Parquet target with all their columns, batch by batch."""
        found: list[Row] = []
        for path in sorted(self.target(table).glob("holdfast_batch=*/part-*.parquet")):
            found += read_parquet(path).to_pylist()
        return found

    def copied(self, table: str = "t") -> list[Row]:
        """The rows of a Parquet target with the source's columns alone, in a fixed order."""
        return sorted_rows(without_own(self.rows(table)))

    def ids(self, table: str = "t") -> list[Any]:
        """The ids in a Parquet target, sorted."""
        return sorted(row["id"] for row in self.rows(table))

    def batches(self, table: str = "t") -> list[str]:
        """The batch ids a reader sees, oldest first."""
        found = self.target(table).glob("holdfast_batch=*")
        return sorted(path.name.partition("=")[2] for path in found)


def arrow_table(rows: Sequence[Row], types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """Rows as Arrow sees them; times without a type are moments."""
    names = list(dict.fromkeys([name for row in rows for name in row] + list(types or {})))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        wanted = (types or {}).get(name)
        if wanted is None and any(isinstance(value, datetime) for value in values):
            wanted = MOMENT
        columns[name] = pa.array(values, wanted)
    return pa.table(columns)


def read_parquet(path: Path) -> pa.Table:
    """One file as Spark means it: its older kind of timestamp is a moment."""
    file = parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")
    found = file.read()
    for i, field_ in enumerate(file.schema_arrow):
        moment = file.metadata.num_columns == len(file.schema_arrow) and (
            file.schema.column(i).physical_type == "INT96"
        )
        if moment:
            column = found.column(i).cast(MOMENT)
            found = found.set_column(i, field_.name, column)
    return found


def without_own(rows: Iterable[Row]) -> list[Row]:
    """Rows without the columns Holdfast adds."""
    return [{k: v for k, v in row.items() if k not in OWN} for row in rows]


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order that depends on nothing but themselves."""
    return sorted(rows, key=lambda row: repr(sorted(row.items())))
