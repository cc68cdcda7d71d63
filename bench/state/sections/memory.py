"""The memory that a large state takes, measured in a process of its own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from pathlib import Path

from bench.state.report import Line
from bench.state.setting import Setting
from bench.state.work import MAX_ROUNDS, Contender, Population

CHILD = "memory-child"


def memory(setting: Setting) -> list[Line]:
    """The resident set, mapped files apart, of 100k-key batches against 20M keys."""
    command = [sys.executable, "-m", "bench.state", "--only", CHILD]
    command += ["--scale", str(setting.scale), "--directory", str(setting.place("memory"))]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, base, merges, rounds = json.loads(output.splitlines()[-1])
    return [
        Line(
            "arrow: 20M keys, batches of 100k, peak resident set beyond mapped files",
            f"{peak / 1e9:.2f} GB",
            "1 GB",
            peak / 1e9,
            1.0,
            f"{base / 1e9:.2f} GB of it before the first batch; {rounds} rounds; "
            f"merges into the base: {merges}",
        )
    ]


def memory_child(setting: Setting) -> None:
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
    rounds = 0
    # Until everything was merged into the base once: the most memory-hungry thing it does.
    while not arrow.base_merges and rounds < MAX_ROUNDS:
        arrow.merge(population.draw(setting.rows(100_000)))
        arrow.clean()
        rounds += 1
    done.set()
    watcher.join()
    # The keys and hashes of the whole population are the benchmark's, not the engine's.
    own = population.count * (8 + 8 + 4)
    print(json.dumps([peak - own, base - own, arrow.base_merges, rounds]))


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory is resident")
