"""The arrow backend: merging batches, growing, what a checkpoint writes, opening."""

from __future__ import annotations

import numpy as np

from bench.state.report import Line, ms
from bench.state.setting import Setting
from bench.state.work import MAX_ROUNDS, Contender, Floor, Population, Times
from holdfast.state import Ranges, open_store

ROCKSDB_ROUNDS = 3
LOOKED_UP = 1000


def merging(setting: Setting) -> list[Line]:
    """500k keys against 5M: the floor, string keys, rocksdb."""
    population = Population(setting.rows(5_000_000))
    strings = Population(setting.rows(5_000_000), strings=True)
    size = setting.rows(500_000)
    arrow = Contender(setting.place("arrow"), population)
    texts = Contender(setting.place("strings"), strings)
    rocks = Contender(
        setting.place("rocksdb"), population, {"backend": "rocksdb", "cache_bytes": 0}
    )
    cached = Contender(setting.place("cached"), population, {"backend": "rocksdb"})
    floor = Floor(setting.directory, population)
    arrow.load()
    texts.load()
    ours, bare, text, slow, held = Times(), Times(), Times(), Times(), Times()
    shared = min(ROCKSDB_ROUNDS, setting.rounds)
    for left in range(setting.rounds, 0, -1):
        if left == shared:
            # Not before: its compactions go on beside whatever comes next.
            rocks.load()
            cached.load()
        batch = population.draw(size)
        ours.take(arrow.merge, batch)
        bare.take(floor.merge, batch)
        text.take(texts.merge, strings.batch(batch.at))
        arrow.clean()
        texts.clean()
        if left <= shared:
            slow.take(rocks.merge, batch)
            held.take(cached.merge, batch)
            rocks.clean()
            cached.clean()
    for contender in (arrow, texts, rocks, cached):
        contender.store.close()
    last = Times(ours.seconds[-shared:])
    return [
        Line(
            "arrow: 500k of 5M int64 keys, merges of runs included",
            ms(ours.mean),
            f"bare NumPy {ms(bare.mean)}",
            ours.mean / bare.mean,
            3.0,
            f"typical batch {ms(ours.median)}: {ours.median / bare.median:.2f} times the floor; "
            f"{setting.rounds} rounds each; merges into the base: {arrow.base_merges}",
        ),
        Line(
            "arrow: 500k of 5M int64 keys against rocksdb, both checkpointed",
            ms(ours.mean),
            f"rocksdb, reading from RocksDB {ms(slow.mean)}",
            ours.mean / slow.mean,
            1 / 10,
            f"{slow.mean / ours.mean:.1f} times faster; rocksdb took turns in the last {shared} "
            f"of {setting.rounds} rounds only, arrow in those {ms(last.mean)}",
        ),
        Line(
            "arrow: 500k of 5M int64 keys against rocksdb, both checkpointed",
            ms(ours.mean),
            f"rocksdb with all keys in Holdfast's own cache {ms(held.mean)}",
            ours.mean / held.mean,
            None,
            f"{held.mean / ours.mean:.1f} times faster; turns as above",
        ),
        Line(
            "arrow: 500k of 5M string keys of 16 bytes",
            ms(text.mean),
            f"int64 keys {ms(ours.mean)}",
            text.mean / ours.mean,
            3.0,
            f"typical batch {ms(text.median)}; {setting.rounds} rounds each; "
            f"merges into the base: {texts.base_merges} and {arrow.base_merges}",
        ),
    ]


def growth(setting: Setting) -> list[Line]:
    """The same batch against 2M and 20M keys."""
    size = setting.rows(500_000)
    contenders = [
        Contender(setting.place(f"growth-{count}"), Population(setting.rows(count)))
        for count in (2_000_000, 20_000_000)
    ]
    times = [Times(), Times()]
    for contender in contenders:
        contender.load()
    for _ in range(setting.rounds):
        for contender, taken in zip(contenders, times, strict=True):
            taken.take(contender.merge, contender.population.draw(size))
            contender.clean()
    for contender in contenders:
        contender.store.close()
    small, large = times
    few, many = (contender.base_merges for contender in contenders)
    return [
        Line(
            "arrow: 500k keys of 20M, merges of runs included",
            ms(large.mean),
            f"of 2M {ms(small.mean)}",
            large.mean / small.mean,
            1.5,
            f"typical batches {ms(large.median)} and {ms(small.median)}: "
            f"{large.median / small.median:.2f}; {setting.rounds} rounds each; "
            f"merges into the base: {many} and {few}",
        )
    ]


def checkpoint_bytes(setting: Setting) -> list[Line]:
    """What a checkpoint writes when 1 % of the keys changed."""
    population = Population(setting.rows(5_000_000))
    arrow = Contender(setting.place("bytes"), population)
    arrow.load()
    live = arrow.merge(population.draw(1)).bytes
    arrow.base_merges = 0
    shares: list[float] = []
    # At least one merge into the base: it writes the most, and the average is to include it.
    while len(shares) < setting.rounds or (not arrow.base_merges and len(shares) < MAX_ROUNDS):
        snapshot = arrow.merge(population.draw(population.count // 100))
        shares.append(snapshot.new_bytes / live)
        arrow.clean()
    arrow.store.close()
    typical = float(np.median(shares))
    return [
        Line(
            "arrow: bytes of a typical checkpoint, 1 % of 5M keys changed",
            f"{typical:.2%}",
            "the whole state",
            typical,
            0.02,
            f"average of {len(shares)} rounds, all merges of runs included, {np.mean(shares):.2%}; "
            f"the largest {max(shares):.2%}; merges into the base: {arrow.base_merges}",
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
    few = population.draw(LOOKED_UP)
    lazy, looked, whole = Times(), Times(), Times()

    def open_only() -> None:
        open_store(arrow.directory, [schema], snapshots=snapshots).close()

    def look_up() -> None:
        with (
            open_store(arrow.directory, [schema], snapshots=snapshots) as store,
            store.begin(arrow.epoch, now_ms=0) as transaction,
        ):
            table = transaction.table("totals")
            found = table.get(table.keys({"key": few.keys}, few.hashes)).values
            assert found["n"].null_count == 0

    def read_whole() -> None:
        with open_store(arrow.directory, [schema], snapshots=snapshots) as store:
            pieces = store.backend.scan("totals", Ranges.everything())
            assert sum(len(rows) for rows in pieces) == population.count

    for _ in range(9):
        lazy.take(open_only)
        looked.take(look_up)
        whole.take(read_whole)
    return [
        Line(
            "arrow: open 5M keys",
            ms(lazy.median),
            f"read whole {ms(whole.median)}",
            lazy.median / whole.median,
            1 / 20,
            f"open and look {LOOKED_UP} keys up {ms(looked.median)}; files in the page cache",
        )
    ]
