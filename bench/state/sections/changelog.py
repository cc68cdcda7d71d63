"""The changelog: what a commit saves, and what opening costs for it."""

from __future__ import annotations

from bench.state.report import Line, ms
from bench.state.setting import Setting
from bench.state.work import Batch, Contender, Population, Times

ROUNDS = 9
OPENINGS = 3


def changelog(setting: Setting) -> list[Line]:
    """Commit 10k changed keys of 5M on the heap, with a changelog and without."""
    population = Population(setting.rows(5_000_000))
    options = {"backend": "heap"}
    every_time = options | {"changelog": True, "materialize_every": 1}
    logged = Contender(setting.place("logged"), population, every_time)
    plain = Contender(setting.place("plain"), population, options)
    for contender in (logged, plain):
        contender.load()
    # From here on logs only, upon a whole checkpoint.
    logged.store.close()
    logged.options["materialize_every"] = 1_000
    logged.reopen()
    log, full = Times(), Times()
    for _ in range(ROUNDS):
        batch = population.draw(setting.rows(10_000))
        _commit_only(logged, batch, log)
        _commit_only(plain, batch, full)
        logged.clean()
        plain.clean()
    replay, restore = Times(), Times()
    for _ in range(OPENINGS):
        for contender, times in ((logged, replay), (plain, restore)):
            contender.store.close()
            times.take(contender.reopen)
    for contender in (logged, plain):
        contender.store.close()
    return [
        Line(
            "changelog on heap: commit of 10k changed keys of 5M",
            ms(log.median),
            f"full snapshot {ms(full.median)}",
            log.median / full.median,
            1 / 20,
            f"opening after the {ROUNDS} logs {ms(replay.median)}, plain heap "
            f"{ms(restore.median)}: {replay.median / restore.median:.2f}; {ROUNDS} rounds each",
        )
    ]


def _commit_only(contender: Contender, batch: Batch, times: Times) -> None:
    with contender.store.begin(contender.epoch, now_ms=0) as transaction:
        table = transaction.table("totals")
        keys = table.keys({"key": batch.keys}, batch.hashes)
        table.put(keys, {"total": batch.amounts, "n": batch.amounts})
        contender.snapshot = times.take(transaction.commit)
    contender.epoch += 1
