"""Incremental replication against a hand-written PySpark loop.

Twenty tables, two million rows in all. In every round each table gets 1 % new rows, and both
contenders copy them to Parquet with the same Spark session, one after the other, in turns. The
loop keeps no books at all: it is handed the watermark it should start from, reads no bound,
counts nothing, and leaves half a batch behind if it is killed.

    python -m bench.replicate [--tables 20] [--rows 100000] [--rounds 7] [--int96]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from holdfast import Project, open_project
from holdfast.spark.session import start_session

_START = datetime(2025, 1, 1, tzinfo=UTC)
_START_MICROS = int(_START.timestamp()) * 10**6


@dataclass
class Shop:
    """The source: directories of Parquet files that grow."""

    directory: Path
    tables: list[str]
    int96: bool = False
    next_id: int = 0

    def grow(self, rows: int) -> dict[str, datetime]:
        """Add rows to every table and return the watermarks from before, no two alike."""
        before = {
            table: _START + timedelta(days=number, milliseconds=self.next_id)
            for number, table in enumerate(self.tables)
        }
        for number, table in enumerate(self.tables):
            place = self.directory / table
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                self._rows(rows, number),
                place / f"part-{self.next_id:012}.parquet",
                use_deprecated_int96_timestamps=self.int96,
            )
        self.next_id += rows
        return before

    def _rows(self, rows: int, seed: int) -> pa.Table:
        ids = pa.array(range(self.next_id + 1, self.next_id + rows + 1), pa.int64())
        micros = pc.add(_START_MICROS + seed * 86_400 * 10**6, pc.multiply(ids, 1000))
        chance = pc.random(rows, initializer=seed + self.next_id)
        return pa.table(
            {
                "id": ids,
                "updated_at": micros.cast(pa.timestamp("us", "UTC")),
                "customer": pc.multiply(chance, 50_000).cast(pa.int64(), safe=False),
                "amount": pc.round(pc.multiply(chance, 500), 2),
                "status": pa.array(["new", "paid", "shipped"]).take(
                    pc.multiply(chance, 3).cast(pa.int64(), safe=False)
                ),
                "note": pc.binary_join_element_wise("note", ids.cast(pa.string()), " "),
            }
        )


def hand_written(
    spark: SparkSession,
    source: Path,
    target: Path,
    tables: list[str],
    low: dict[str, datetime],
    threads: int,
) -> None:
    """What people write today: filter by the last watermark, append."""

    def copy(table: str) -> None:
        rows = spark.read.parquet(str(source / table)).where(
            F.col("updated_at") > F.lit(low[table])
        )
        rows.write.mode("append").parquet(str(target / table))

    if threads == 1:
        for table in tables:
            copy(table)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, tables))


def write_config(directory: Path, tables: list[str], concurrency: int) -> Path:
    """Write the pipeline's file; every check that is on by default stays on."""
    path = directory / f"holdfast-{concurrency}.toml"
    path.write_text(
        f"""
        [state]
        path = "ledger-{concurrency}.db"
        [pipeline.shop]
        type = "replicate"
        source = {{ format = "parquet", path = "source" }}
        target = {{ format = "parquet", path = "holdfast-{concurrency}" }}
        tables = {tables}
        watermark = "updated_at"
        concurrency = {concurrency}
        """.replace("'", '"')
    )
    return path


def main() -> None:
    """Run the rounds and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000, help="rows a table to begin with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--int96",
        action="store_true",
        help="timestamps as Spark writes them by default, which have no statistics",
    )
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        shop = Shop(
            directory / "source",
            [f"table_{number:02}" for number in range(arguments.tables)],
            arguments.int96,
        )
        _measure(directory, shop, arguments.rows, arguments.rounds)
    finally:
        shutil.rmtree(directory)


def _measure(directory: Path, shop: Shop, rows: int, rounds: int) -> None:
    out = Console()
    tables, count = shop.tables, len(shop.tables)
    out.print(f"{count} tables, {count * rows:,} rows, {rounds} rounds of 1 % new rows")
    spark = start_session("local[*]", {}, app_name="bench", log_path=directory / "spark.log")
    shop.grow(rows)
    projects = {
        threads: open_project(write_config(directory, tables, threads), spark=spark)
        for threads in (1, 4)
    }
    contenders: dict[str, Callable[[dict[str, datetime]], None]] = {
        "loop, one by one": _loop(spark, directory, tables, 1),
        "holdfast, one by one": _holdfast(projects[1]),
        "loop, 4 threads": _loop(spark, directory, tables, 4),
        "holdfast, 4 side by side": _holdfast(projects[4]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    low = dict.fromkeys(tables, _START)
    for number in range(rounds + 1):
        if number:
            low = shop.grow(rows // 100)
        # In turns, and every second time backwards: whoever comes later finds warmer caches.
        order = list(contenders) if number % 2 else list(reversed(contenders))
        for name in order:
            began = time.perf_counter()
            contenders[name](low)
            if number:  # The first copy warms Spark up and is not measured.
                seconds[name].append(time.perf_counter() - began)
        out.print(f"  round {number} of {rounds} done")
    expected = shop.next_id * count
    _print(out, {name: median(times) for name, times in seconds.items()})
    _verify(spark, directory, tables, expected)
    out.print(f"Every contender copied the same {expected:,} rows.")
    _no_change(out, spark, projects[1], tables)


def _loop(
    spark: SparkSession, directory: Path, tables: list[str], threads: int
) -> Callable[[dict[str, datetime]], None]:
    target = directory / f"loop-{threads}"
    return lambda low: hand_written(spark, directory / "source", target, tables, low, threads)


def _holdfast(project: Project) -> Callable[[dict[str, datetime]], None]:
    def run(low: dict[str, datetime]) -> None:
        result = project.run("shop")
        assert result.run.status == "success", result

    return run


def _print(out: Console, medians: dict[str, float]) -> None:
    table = Table(box=None)
    table.add_column("median of a round")
    table.add_column("seconds", justify="right")
    table.add_column("against the loop", justify="right")
    bases = {"one by one": medians["loop, one by one"], "4": medians["loop, 4 threads"]}
    for name, value in medians.items():
        base = bases["one by one" if "one by one" in name else "4"]
        table.add_row(name, f"{value:.2f}", f"{value / base:.2f}")
    out.print(table)


def _verify(spark: SparkSession, directory: Path, tables: list[str], expected: int) -> None:
    for name in ("loop-1", "loop-4", "holdfast-1", "holdfast-4"):
        found = sum(spark.read.parquet(str(directory / name / t)).count() for t in tables)
        assert found == expected, f"{name}: {found:,} rows, expected {expected:,}"


def _no_change(out: Console, spark: SparkSession, project: Project, tables: list[str]) -> None:
    """Count the Spark jobs of a run that finds nothing new."""
    began = time.perf_counter()
    first = _next_job(spark)
    result = project.run("shop")
    jobs = _next_job(spark) - first - 1
    assert all(outcome.status == "unchanged" for outcome in result.outcomes)
    out.print(
        f"No change: {time.perf_counter() - began:.2f} s, "
        f"{jobs / len(tables):.2f} Spark jobs a table (at most 2)"
    )


def _next_job(spark: SparkSession) -> int:
    context = spark.sparkContext
    context.setJobGroup("count", "count")
    context.parallelize([1], 1).count()
    found = max(context.statusTracker().getJobIdsForGroup("count"))
    context.setLocalProperty("spark.jobGroup.id", "")
    return int(found)


if __name__ == "__main__":
    main()
