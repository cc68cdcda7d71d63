"""What a checkpoint costs: a stream to one Parquet sink against plain `foreachBatch`.

    python -m bench.stream                 # 100 epochs of 10,000 rows, then 1,000 small epochs
    python -m bench.stream --only overhead
    python -m bench.stream --json result.json

Both sides run in one Spark application, on the same files, in turn; the medians of the rounds are
compared. Plain `foreachBatch` appends with `write.parquet` and uses Spark's own checkpoint: it is
what a user writes by hand, without exactly-once, versions or roll-back.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.model import CheckpointEntry
from holdfast.pipelines.streams.epochs import Epoch
from holdfast.spark.session import start_session, stop_session

SCHEMA = "id long, merchant string, paise long, at timestamp"
MOST_SLOWER = 1.15
MOST_COMMIT = 0.10
MOST_GROWTH = 1.2


@dataclass(frozen=True)
class Overhead:
    """Epochs of Holdfast against epochs of plain `foreachBatch`."""

    epochs: int
    rows_per_epoch: int
    plain_seconds: float
    holdfast_seconds: float
    ratio: float
    commit_share: float
    """Of an epoch, at the median."""
    met: bool


@dataclass(frozen=True)
class Endurance:
    """Many small epochs in a row."""

    epochs: int
    first_ms: float
    last_ms: float
    growth: float
    most_files: int
    """In the checkpoint location, at the end of any hundred epochs."""
    kept: int
    met: bool


class Times:
    """Collects how long each epoch took."""

    def __init__(self, location: Path | None = None) -> None:
        self.between: list[float] = []
        self.epochs: list[Epoch] = []
        self.files: list[int] = []
        self._last = time.perf_counter()
        self._location = location

    def started(self, pipeline: str, head: CheckpointEntry | None, notes: tuple[str, ...]) -> None:
        """The next epoch is timed from here."""
        self._last = time.perf_counter()

    def committed(self, epoch: Epoch) -> None:
        """One more."""
        now = time.perf_counter()
        self.between.append(now - self._last)
        self.epochs.append(epoch)
        if self._location is not None and len(self.epochs) % 100 == 0:
            self.files.append(sum(1 for p in self._location.rglob("*") if p.is_file()))
            now = time.perf_counter()
        self._last = now

    def waiting(self, waiting: Mapping[str, HoldfastError], seconds: float) -> None:
        """Must not happen here."""
        raise AssertionError(f"a benchmark waited: {waiting}")

    def stopping(self) -> None:
        """Nothing to time."""


def make_files(spark: SparkSession, place: Path, epochs: int, rows: int) -> None:
    """Write one Parquet file per epoch."""
    frame = spark.range(0, epochs * rows, numPartitions=epochs).selectExpr(
        "id",
        "concat('merchant-', id % 1000) as merchant",
        "id % 100000 as paise",
        "timestamp_seconds(1700000000 + id) as at",
    )
    frame.write.parquet(str(place))


def run_plain(spark: SparkSession, source: Path, home: Path) -> float:
    """Run a hand-written stream to its end and return how long that took."""

    def write(frame: DataFrame, epoch: int) -> None:
        frame.write.mode("append").parquet(str(home / "out"))

    started = time.perf_counter()
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    query = (
        stream.parquet(str(source))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - started


def run_holdfast(spark: SparkSession, source: Path, home: Path, times: Times) -> float:
    """Run the same stream with Holdfast."""
    started = time.perf_counter()
    stream = (
        hf.stream("bench", format="parquet", path=source, schema=SCHEMA)
        .limit(max_files=1)
        .to(hf.sinks.files(str(home / "out")))
        .checkpoint(home / "checkpoints", min_count=10, min_age="0s")
    )
    query = stream.start(once=True, spark=spark, ledger=home / "ledger.db", progress=times)
    query.wait()
    return time.perf_counter() - started


def overhead(spark: SparkSession, home: Path, epochs: int, rows: int, rounds: int) -> Overhead:
    """Compare wall times, in turn, after a round to warm up."""
    source = home / "source"
    make_files(spark, source, epochs, rows)
    plain: list[float] = []
    ours: list[float] = []
    shares: list[float] = []
    for number in range(rounds + 1):
        place = home / f"round-{number}"
        times = Times()
        pair = [
            lambda place=place: run_plain(spark, source, place / "plain"),
            lambda place=place, times=times: run_holdfast(spark, source, place / "ours", times),
        ]
        # Each goes first every other time.
        order = (0, 1) if number % 2 == 0 else (1, 0)
        took = dict.fromkeys(order, 0.0)
        for which in order:
            took[which] = pair[which]()
        count = [
            spark.read.parquet(str(place / side / "out")).count() for side in ("plain", "ours")
        ]
        assert count == [epochs * rows] * 2, count
        shutil.rmtree(place)
        if number == 0:
            continue
        plain.append(took[0])
        ours.append(took[1])
        shares += [
            epoch.commit_seconds / between
            for epoch, between in zip(times.epochs, times.between, strict=True)
        ]
        print(f"  round {number}: plain {took[0]:.1f} s, holdfast {took[1]:.1f} s", flush=True)
    ratio = statistics.median(ours) / statistics.median(plain)
    share = statistics.median(shares)
    return Overhead(
        epochs,
        rows,
        round(statistics.median(plain), 2),
        round(statistics.median(ours), 2),
        round(ratio, 3),
        round(share, 4),
        ratio <= MOST_SLOWER and share <= MOST_COMMIT,
    )


def endurance(spark: SparkSession, home: Path, epochs: int) -> Endurance:
    """Run many epochs and compare the last with the first after warm-up."""
    source = home / "source"
    make_files(spark, source, epochs, 100)
    place = home / "ours"
    times = Times(place / "checkpoints")
    run_holdfast(spark, source, place, times)
    assert spark.read.parquet(str(place / "out")).count() == epochs * 100
    part = max(1, epochs // 10)
    first = statistics.median(times.between[part : 2 * part])
    last = statistics.median(times.between[-part:])
    kept = sum(1 for _ in (place / "checkpoints" / "bench" / "manifests").iterdir())
    growth = last / first
    most = max(times.files, default=0)
    met = growth <= MOST_GROWTH and most <= 3 * (10 + 20)
    return Endurance(
        epochs, round(first * 1e3, 1), round(last * 1e3, 1), round(growth, 3), most, kept, met
    )


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for and print it; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", choices=("overhead", "endurance"))
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=1000, help="epochs of the endurance run")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    spark = start_session("local[2]", {}, app_name="bench", log_path=None)
    home = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    results: dict[str, Overhead | Endurance] = {}
    try:
        if chosen.only != "endurance":
            found = overhead(spark, home / "overhead", chosen.epochs, chosen.rows, chosen.rounds)
            results["overhead"] = found
            print(
                f"{found.epochs} epochs of {found.rows_per_epoch} rows: "
                f"plain {found.plain_seconds} s, holdfast {found.holdfast_seconds} s, "
                f"{found.ratio} times (at most {MOST_SLOWER}); "
                f"commit {found.commit_share:.1%} of an epoch (at most {MOST_COMMIT:.0%})"
            )
        if chosen.only != "overhead":
            lasted = endurance(spark, home / "endurance", chosen.long)
            results["endurance"] = lasted
            print(
                f"{lasted.epochs} epochs: {lasted.first_ms} ms at first, {lasted.last_ms} ms at "
                f"last, {lasted.growth} times (at most {MOST_GROWTH}); "
                f"at most {lasted.most_files} files, {lasted.kept} checkpoints kept"
            )
    finally:
        stop_session(spark)
        shutil.rmtree(home)
    if chosen.json:
        chosen.json.write_text(json.dumps({k: asdict(v) for k, v in results.items()}, indent=2))
    return 0 if all(result.met for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
