"""Every backend and what others use, on the same batches."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

import numpy as np
from rich.console import Console

from bench.state.peers import DictStore
from bench.state.report import Line, ms
from bench.state.setting import Setting
from bench.state.work import Batch, Contender, Population, Times

ROUNDS = 3
BACKENDS = ("arrow", "heap", "rocksdb")


def peers(setting: Setting) -> list[Line]:
    """100k keys of 1M: every backend, a dictionary with gzip and JSON, and quixstreams."""
    population = Population(setting.rows(1_000_000))
    load = list(population.all())
    batches = [population.draw(setting.rows(100_000)) for _ in range(ROUNDS)]
    ours = _backends(setting, population, load, batches)
    arrow = ours["arrow"]
    found = [
        (f"{name} (checkpointed)", times, "the backends in turns") for name, times in ours.items()
    ]
    found.append(
        (
            "dict + gzip + JSON (checkpointed, gzip at its default level 9)",
            _dict_store(setting, load, batches),
            "not in turns: after the backends",
        )
    )
    quix = _quix(setting, load, batches)
    if quix is not None:
        alone = "not in turns: in a process of its own, after the others"
        found.append(("quixstreams RocksDB (flushed, no checkpoint)", quix, alone))
    return [
        Line(
            f"100k of 1M keys read, merged and written: {name}",
            ms(times.mean),
            f"arrow {ms(arrow.mean)}",
            times.mean / arrow.mean,
            None,
            f"{len(times.seconds)} rounds, {how}",
        )
        for name, times, how in found
    ]


def _backends(
    setting: Setting, population: Population, load: Sequence[Batch], batches: Sequence[Batch]
) -> dict[str, Times]:
    contenders = {
        name: Contender(setting.place(f"peer-{name}"), population, {"backend": name})
        for name in BACKENDS
    }
    times = {name: Times() for name in BACKENDS}
    for contender in contenders.values():
        contender.load(load)
    for batch in batches:
        for name, contender in contenders.items():
            times[name].take(contender.merge, batch)
            contender.clean()
    for contender in contenders.values():
        contender.store.close()
    return times


def _dict_store(setting: Setting, load: Sequence[Batch], batches: Sequence[Batch]) -> Times:
    store, times = DictStore(), Times()
    for batch in load:
        store.merge(batch.keys.to_pylist(), [0] * len(batch.at))
    path = setting.directory / "dict.gz"

    def work(numbers: list[int], amounts: list[int]) -> None:
        store.merge(numbers, amounts)
        store.checkpoint(path)

    for batch in batches:
        times.take(work, batch.keys.to_pylist(), batch.amounts.tolist())
    return times


def _quix(setting: Setting, load: Sequence[Batch], batches: Sequence[Batch]) -> Times | None:
    if not setting.peers:
        Console().print("quixstreams: left out, no --peers environment was given")
        return None
    place = setting.place("quix")
    np.save(place / "keys.npy", np.concatenate([batch.keys.to_numpy() for batch in load]))
    for number, batch in enumerate(batches):
        np.save(place / f"batch-{number}.npy", [batch.keys.to_numpy(), batch.amounts])
    done = subprocess.run(
        [setting.peers, "-m", "bench.state.peers", str(place)],
        check=True,
        capture_output=True,
        text=True,
    )
    return Times(json.loads(done.stdout.splitlines()[-1]))
