"""The keyed-state engine against what it must not be slower than.

    python -m bench.state [--scale 1.0] [--rounds 60] [--only growth] [--peers PYTHON]

Every comparison is made in one run on the same data, contenders in turns. `--scale` shrinks the
number of keys, to see that the benchmark works; the promises hold at 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench.state.peers import DictStore, RocksLoop
from bench.state.report import Line, ms, show
from bench.state.work import Batch, Contender, Floor, Population, Times
from holdfast.state import Keys, Ranges, Rows, open_store

ROCKSDB_ROUNDS = 3


@dataclass(frozen=True)
class Setting:
    """How large, how often, and where."""

    scale: float
    rounds: int
    directory: Path
    peers: str

    def rows(self, full: int) -> int:
        """Return a number of keys at the scale of this run."""
        return max(int(full * self.scale), 1000)

    def place(self, name: str) -> Path:
        """Return an empty directory."""
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path


def merging(setting: Setting) -> list[Line]:
    """500k keys against 5M: the floor, string keys, rocksdb."""
    population = Population(setting.rows(5_000_000))
    strings = Population(setting.rows(5_000_000), strings=True)
    size = setting.rows(500_000)
    arrow = Contender(setting.place("arrow"), population)
    texts = Contender(setting.place("strings"), strings)
    floor = Floor(setting.directory, population)
    arrow.load()
    texts.load()
    ours, bare, text = Times(), Times(), Times()
    for _ in range(setting.rounds):
        batch = population.draw(size)
        ours.take(arrow.merge, batch)
        bare.take(floor.merge, batch)
        text.take(texts.merge, strings.batch(batch.at))
        arrow.clean()
        texts.clean()
    arrow.store.close()
    texts.store.close()
    rocks = Contender(setting.place("rocksdb"), population, {"backend": "rocksdb"})
    rocks.load()
    slow = Times()
    for _ in range(ROCKSDB_ROUNDS):
        slow.take(rocks.merge, population.draw(size))
    rocks.store.close()
    medians = f"typical batch {ms(ours.median)}: {ours.median / bare.median:.2f} times the floor"
    return [
        Line(
            "arrow: 500k of 5M int64 keys, merges of runs included",
            ms(ours.mean),
            f"bare NumPy {ms(bare.mean)}",
            ours.mean / bare.mean,
            3.0,
            medians,
        ),
        Line(
            "the same",
            ms(ours.mean),
            f"rocksdb {ms(slow.mean)}",
            ours.mean / slow.mean,
            1 / 10,
            f"{slow.mean / ours.mean:.1f} times faster",
        ),
        Line(
            "the same with string keys of 16 bytes",
            ms(text.mean),
            f"int64 keys {ms(ours.mean)}",
            text.mean / ours.mean,
            3.0,
            f"typical batch {ms(text.median)}",
        ),
    ]


def growth(setting: Setting) -> list[Line]:
    """The same batch against 2M and 20M keys."""
    size = setting.rows(500_000)
    times: dict[int, Times] = {}
    contenders = {}
    for count in (2_000_000, 20_000_000):
        population = Population(setting.rows(count))
        contenders[count] = Contender(setting.place(f"growth-{count}"), population)
        contenders[count].load()
        times[count] = Times()
    for _ in range(setting.rounds):
        for count, contender in contenders.items():
            times[count].take(contender.merge, contender.population.draw(size))
            contender.clean()
    small, large = times.values()
    return [
        Line(
            "arrow: 500k keys of 20M, merges of runs included",
            ms(large.mean),
            f"of 2M {ms(small.mean)}",
            large.mean / small.mean,
            1.5,
            f"typical batches {ms(large.median)} and {ms(small.median)}: "
            f"{large.median / small.median:.2f}",
        )
    ]


def checkpoint_bytes(setting: Setting) -> list[Line]:
    """What a checkpoint writes when 1 % of the keys changed."""
    population = Population(setting.rows(5_000_000))
    arrow = Contender(setting.place("bytes"), population)
    arrow.load()
    shares = []
    live = arrow.merge(population.draw(1)).bytes
    for _ in range(setting.rounds):
        snapshot = arrow.merge(population.draw(population.count // 100))
        shares.append(snapshot.new_bytes / live)
        arrow.clean()
    typical = float(np.median(shares))
    return [
        Line(
            "arrow: bytes of a checkpoint, 1 % of 5M keys changed",
            f"{typical:.2%}",
            "the whole state",
            typical,
            0.02,
            f"with merges of runs, on average {np.mean(shares):.2%}",
        )
    ]


def opening(setting: Setting) -> list[Line]:
    """Open a partition of 5M keys lazily, and read it whole."""
    population = Population(setting.rows(5_000_000))
    arrow = Contender(setting.place("opening"), population)
    arrow.load()
    for _ in range(3):
        arrow.merge(population.draw(population.count // 100))
    arrow.store.close()
    assert arrow.snapshot is not None
    snapshots, schema = [arrow.snapshot], population.schema
    lazy, whole = Times(), Times()

    def open_only() -> None:
        open_store(arrow.directory, [schema], snapshots=snapshots).close()

    def read_whole() -> None:
        with open_store(arrow.directory, [schema], snapshots=snapshots) as store:
            for rows in store.backend.scan("totals", Ranges.everything()):
                rows.take(np.arange(len(rows)))

    for _ in range(9):
        lazy.take(open_only)
        whole.take(read_whole)
    return [
        Line(
            "arrow: open 5M keys",
            ms(lazy.median),
            f"read whole {ms(whole.median)}",
            lazy.median / whole.median,
            1 / 20,
        )
    ]


def rocksdb_loop(setting: Setting) -> list[Line]:
    """300k random keys through the rocksdb backend, and through a bare rocksdict loop."""
    population = Population(setting.rows(1_500_000))
    size = setting.rows(300_000)
    ours = Contender(setting.place("rocks"), population, {"backend": "rocksdb"})
    ours.load()
    backend, schema = ours.store.backend, population.schema
    loop = RocksLoop(setting.place("loop"))
    for start in range(0, population.count, size):
        numbers = population.numbers[start : start + size].tolist()
        loop.merge(numbers, [0] * len(numbers))

    def through_backend(batch: Batch) -> None:
        keys = Keys.of(schema, {"key": batch.keys}, batch.hashes)
        hits = backend.get("totals", keys)
        total, n = (np.asarray(column) for column in hits.values)
        values = (pa.array(total + batch.amounts.take(hits.at)), pa.array(n + 1))
        backend.write({"totals": Rows.of(keys.take(hits.at), values)})

    backend_times, loop_times, sorted_times = Times(), Times(), Times()
    for _ in range(7):
        batch = population.draw(size)
        numbers = population.numbers.take(batch.at)
        loop_times.take(loop.merge, numbers.tolist(), batch.amounts.tolist())
        backend_times.take(through_backend, batch)
        sorted_times.take(loop.merge, np.sort(numbers).tolist(), batch.amounts.tolist())
    loop.close()
    ours.store.close()
    return [
        Line(
            "rocksdb: 300k random keys of 1.5M read and written",
            ms(backend_times.median),
            f"bare rocksdict loop {ms(loop_times.median)}",
            backend_times.median / loop_times.median,
            1.2,
            f"{backend_times.median / sorted_times.median:.2f} of a loop over sorted keys",
        )
    ]


def changelog(setting: Setting) -> list[Line]:
    """Commit 10k changed keys of 5M on the heap, with a changelog and without."""
    population = Population(setting.rows(5_000_000))
    options = {"backend": "heap"}
    logged = Contender(
        setting.place("logged"),
        population,
        options | {"changelog": True, "materialize_every": 1_000},
    )
    plain = Contender(setting.place("plain"), population, options)
    for contender in (logged, plain):
        contender.load()
    log, full = Times(), Times()
    for _ in range(9):
        batch = population.draw(setting.rows(10_000))
        _commit_only(logged, batch, log)
        _commit_only(plain, batch, full)
    return [
        Line(
            "changelog on heap: commit of 10k changed keys of 5M",
            ms(log.median),
            f"full snapshot {ms(full.median)}",
            log.median / full.median,
            1 / 20,
        )
    ]


def _commit_only(contender: Contender, batch: Batch, times: Times) -> None:
    with contender.store.begin(contender.epoch, now_ms=0) as transaction:
        table = transaction.table("totals")
        keys = table.keys({"key": batch.keys}, batch.hashes)
        table.put(keys, {"total": batch.amounts, "n": batch.amounts})
        contender.snapshot = times.take(transaction.commit)
    contender.epoch += 1


def memory(setting: Setting) -> list[Line]:
    """The resident set, mapped files apart, of 100k-key batches against 20M keys."""
    command = [sys.executable, "-m", "bench.state", "--only", "memory-child"]
    command += ["--scale", str(setting.scale), "--directory", str(setting.place("memory"))]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, base, merges = json.loads(output.splitlines()[-1])
    return [
        Line(
            "arrow: 20M keys, batches of 100k, peak resident set beyond mapped files",
            f"{peak / 1e9:.2f} GB",
            "1 GB",
            peak / 1e9,
            1.0,
            f"{base / 1e9:.2f} GB of it before the first batch; {merges} merges into the base",
        )
    ]


def memory_child(setting: Setting) -> list[Line]:
    """Process the batches and print the peak; in a process of its own."""
    population = Population(setting.rows(20_000_000))
    arrow = Contender(setting.directory, population)
    arrow.load()
    gc.collect()
    base = _resident()
    peak, done = base, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    merges = 0
    rounds = 0
    # Until everything was merged into the base once: the most memory-hungry thing it does.
    while merges < 1 and rounds < 1000:
        snapshot = arrow.merge(population.draw(setting.rows(100_000)))
        arrow.clean()
        merges += len(snapshot.files) == 1
        rounds += 1
    done.set()
    watcher.join()
    # The keys and hashes of the whole population are the benchmark's, not the engine's.
    own = population.count * (8 + 8 + 4)
    print(json.dumps([peak - own, base - own, merges]))
    return []


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory is resident")


def peers(setting: Setting) -> list[Line]:
    """100k keys of 1M: every backend, a dictionary with gzip and JSON, and quixstreams."""
    population = Population(setting.rows(1_000_000))
    size, rounds = setting.rows(100_000), 5
    batches = [population.draw(size) for _ in range(rounds)]
    found: dict[str, Times] = {}
    for backend in ("arrow", "heap", "rocksdb"):
        contender = Contender(setting.place(f"peer-{backend}"), population, {"backend": backend})
        contender.load()
        found[backend] = Times()
        for batch in batches:
            found[backend].take(contender.merge, batch)
        contender.store.close()
    found["dict + gzip + JSON"] = _dict_store(setting, population, batches)
    quix = _quix(setting, population, batches)
    if quix is not None:
        found["quixstreams RocksDB"] = quix
    arrow = found["arrow"]
    return [
        Line(
            f"100k of 1M keys read, merged, written, checkpointed: {name}",
            ms(times.mean),
            f"arrow {ms(arrow.mean)}",
            times.mean / arrow.mean,
            None,
        )
        for name, times in found.items()
    ]


def _dict_store(setting: Setting, population: Population, batches: list[Batch]) -> Times:
    store, times = DictStore(), Times()
    store.merge(population.numbers.tolist(), [0] * population.count)
    path = setting.directory / "dict.gz"

    def work(numbers: list[int], amounts: list[int]) -> None:
        store.merge(numbers, amounts)
        store.checkpoint(path)

    for batch in batches[:2]:
        times.take(work, population.numbers.take(batch.at).tolist(), batch.amounts.tolist())
    return times


def _quix(setting: Setting, population: Population, batches: list[Batch]) -> Times | None:
    if not setting.peers:
        Console().print("quixstreams: left out, no --peers environment was given")
        return None
    place = setting.place("quix")
    np.save(place / "keys.npy", population.numbers)
    for number, batch in enumerate(batches[:3]):
        np.save(place / f"batch-{number}.npy", [population.numbers.take(batch.at), batch.amounts])
    done = subprocess.run(
        [setting.peers, "-m", "bench.state.peers", str(place)],
        check=True,
        capture_output=True,
        text=True,
    )
    return Times(json.loads(done.stdout.splitlines()[-1]))


SECTIONS: dict[str, Callable[[Setting], list[Line]]] = {
    "merging": merging,
    "growth": growth,
    "bytes": checkpoint_bytes,
    "opening": opening,
    "rocksdb": rocksdb_loop,
    "changelog": changelog,
    "memory": memory,
    "peers": peers,
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", choices=[*SECTIONS, "memory-child"])
    parser.add_argument("--peers", default="", help="the python of an environment with quixstreams")
    parser.add_argument("--directory", help="where to work; a temporary directory by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        setting = Setting(given.scale, given.rounds, Path(directory), given.peers)
        if given.only == "memory-child":
            memory_child(setting)
            return
        lines = []
        for name, section in SECTIONS.items():
            if given.only in (None, name):
                begin = time.perf_counter()
                lines += section(setting)
                Console().print(f"{name}: {time.perf_counter() - begin:.0f} s")
                gc.collect()
        show(f"Keyed state, scale {given.scale:g}, {os.cpu_count()} cores", lines)


if __name__ == "__main__":
    main()
