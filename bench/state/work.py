"""The work that every contender does: read, merge and write a batch of keys, then checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.state import Hashes, Snapshot, Store, TableSchema, hashing, open_store

LOAD_ROWS = 1_000_000
MAX_ROUNDS = 1000
"""Where waiting for a merge into the base ends."""
VALUE = pa.schema([("total", pa.int64()), ("n", pa.int64())])


@dataclass(frozen=True)
class Batch:
    """Distinct keys with their hashes, and what is to be added to each."""

    at: npt.NDArray[np.int64]
    keys: pa.Array
    hashes: Hashes
    amounts: npt.NDArray[np.int64]


@dataclass
class Population:
    """All the keys there are."""

    count: int
    strings: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The keys as integers."""
        return np.arange(self.count, dtype=np.int64) * 7919 + 13

    @cached_property
    def keys(self) -> pa.Array:
        """The keys as the table has them: integers, or strings of 16 bytes."""
        numbers = pa.array(self.numbers)
        if not self.strings:
            return numbers
        return pc.utf8_lpad(numbers.cast(pa.string()), 16, "0")

    @cached_property
    def hashes(self) -> Hashes:
        """What Spark would send along with the keys."""
        lookup = hashing.lookup_hashes((pa.array(self.numbers),))
        return Hashes(lookup, hashing.partition_hashes(lookup))

    @property
    def schema(self) -> TableSchema:
        """The table of totals by key."""
        kind = pa.string() if self.strings else pa.int64()
        return TableSchema("totals", pa.schema([("key", kind)]), VALUE)

    def batch(self, at: npt.NDArray[np.int64]) -> Batch:
        """Return some keys as a batch that has just arrived."""
        hashes = Hashes(self.hashes.lookup.take(at), self.hashes.partition.take(at))
        amounts = self.random.integers(0, 1000, len(at))
        return Batch(at, self.keys.take(pa.array(at)), hashes, amounts)

    def draw(self, size: int) -> Batch:
        """Return distinct keys at random."""
        return self.batch(self.random.choice(self.count, size, replace=False))

    def all(self) -> Iterator[Batch]:
        """Yield every key once, in no order."""
        order = self.random.permutation(self.count)
        for start in range(0, self.count, LOAD_ROWS):
            yield self.batch(order[start : start + LOAD_ROWS])


@dataclass
class Contender:
    """Holdfast's store with one backend."""

    directory: Path
    population: Population
    options: dict[str, Any] = field(default_factory=dict)
    store: Store = field(init=False)
    epoch: int = 0
    snapshot: Snapshot | None = None
    base_merges: int = 0
    """How often, since it was loaded, a batch ended with everything in one file."""

    def __post_init__(self) -> None:
        self.reopen()

    def reopen(self) -> None:
        """Open the store at its last snapshot, with the options of now."""
        snapshots = [] if self.snapshot is None else [self.snapshot]
        self.store = open_store(
            self.directory, [self.population.schema], snapshots=snapshots, **self.options
        )

    def load(self, batches: Iterable[Batch] | None = None) -> None:
        """Put every key into the state."""
        for batch in self.population.all() if batches is None else batches:
            self.merge(batch)
            self.clean()
        self.base_merges = 0

    def merge(self, batch: Batch) -> Snapshot:
        """Add a batch to what is known of its keys, and checkpoint."""
        with self.store.begin(self.epoch, now_ms=0) as transaction:
            table = transaction.table("totals")
            keys = table.keys({"key": batch.keys}, batch.hashes)
            known = table.get(keys).values
            total = known["total"].fill_null(0).to_numpy() + batch.amounts
            n = known["n"].fill_null(0).to_numpy() + 1
            table.put(keys, {"total": total, "n": n})
            self.snapshot = transaction.commit()
        self.epoch += 1
        self.base_merges += sum(file.table == "totals" for file in self.snapshot.files) == 1
        return self.snapshot

    def clean(self) -> None:
        """Remove the files that only older checkpoints named, as retention would."""
        assert self.snapshot is not None
        named = {file.name for file in self.snapshot.files}
        for path in self.directory.rglob("*"):
            relative = path.relative_to(self.directory)
            private = relative.parts[0].startswith("work-")
            if path.is_file() and not private and relative.as_posix() not in named:
                path.unlink()


class Floor:
    """Bare NumPy: sort, search, gather, add, write. It keeps no state and forgets the result.

    The keys are integers.
    """

    def __init__(self, directory: Path, population: Population) -> None:
        self._file = directory / "floor.bin"
        self._codes = np.sort(population.hashes.lookup)
        self._total = np.zeros(population.count, np.int64)
        self._n = np.zeros(population.count, np.int64)

    def merge(self, batch: Batch) -> None:
        """Do what cannot be avoided."""
        keys = batch.keys.to_numpy()
        order = np.argsort(batch.hashes.lookup)
        codes = batch.hashes.lookup.take(order)
        place = np.searchsorted(self._codes, codes)
        total = self._total.take(place) + batch.amounts.take(order)
        n = self._n.take(place) + 1
        with self._file.open("wb") as file:
            for column in (codes, batch.hashes.partition.take(order), keys.take(order), total, n):
                file.write(column.data)


@dataclass
class Times:
    """Seconds of the rounds of one contender."""

    seconds: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """The average, merges of runs included."""
        return mean(self.seconds)

    @property
    def median(self) -> float:
        """The typical round."""
        return median(self.seconds)

    def take(self, work: Any, *arguments: Any) -> Any:
        """Time one call."""
        begin = time.perf_counter()
        result = work(*arguments)
        self.seconds.append(time.perf_counter() - begin)
        return result
