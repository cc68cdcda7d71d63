"""The rocksdb backend against a bare rocksdict loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.state.peers import RocksLoop
from bench.state.report import Line, ms
from bench.state.setting import Setting
from bench.state.work import Batch, Contender, Population, Times
from holdfast.state import Keys, Rows

ROUNDS = 7


def rocksdb_loop(setting: Setting) -> list[Line]:
    """300k random keys through the rocksdb backend, and through a bare rocksdict loop."""
    population = Population(setting.rows(1_500_000))
    size = setting.rows(300_000)
    ours = Contender(setting.place("rocks"), population, {"backend": "rocksdb"})
    loop = RocksLoop(setting.place("loop"))
    # In a database of its own: the same keys would still be at hand from the round before.
    ordered = RocksLoop(setting.place("ordered"))
    load = list(population.all())
    ours.load(load)
    for one in (loop, ordered):
        for batch in load:
            one.merge(batch.keys.to_pylist(), [0] * len(batch.at))
            one.flush()
    backend, schema = ours.store.backend, population.schema

    def through_backend(batch: Batch) -> None:
        keys = Keys.of(schema, {"key": batch.keys}, batch.hashes)
        hits = backend.get("totals", keys)
        total, n = (np.asarray(column) for column in hits.values)
        values = (pa.array(total + batch.amounts.take(hits.at)), pa.array(n + 1))
        backend.write({"totals": Rows.of(keys.take(hits.at), values)})

    backend_times, loop_times, sorted_times = Times(), Times(), Times()
    for _ in range(ROUNDS):
        batch = population.draw(size)
        numbers = batch.keys.to_numpy()
        order = np.argsort(numbers)
        loop_times.take(loop.merge, numbers.tolist(), batch.amounts.tolist())
        backend_times.take(through_backend, batch)
        sorted_times.take(
            ordered.merge, numbers.take(order).tolist(), batch.amounts.take(order).tolist()
        )
    loop.close()
    ordered.close()
    ours.store.close()
    work = "rocksdb backend alone, no commit: 300k random keys of 1.5M read and written"
    return [
        Line(
            work,
            ms(backend_times.median),
            f"bare rocksdict loop {ms(loop_times.median)}",
            backend_times.median / loop_times.median,
            1.2,
            f"{ROUNDS} rounds each; loaded in the same order and flushed",
        ),
        Line(
            work,
            ms(backend_times.median),
            f"the loop over keys sorted beforehand {ms(sorted_times.median)}",
            backend_times.median / sorted_times.median,
            None,
            f"{ROUNDS} rounds each; sorting is in the backend's time only",
        ),
    ]
