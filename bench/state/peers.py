"""The others, doing the same work: a dictionary with gzip and JSON, bare rocksdict, quixstreams.

    python -m bench.state.peers DIRECTORY    reads keys.npy, batch-<n>.npy; prints JSON

quixstreams runs from an environment of its own (`make bench-state` makes it), because it wants
older libraries than Holdfast.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np


class DictStore:
    """The heap backend of many a tutorial: a dictionary behind a lock, gzipped as JSON."""

    def __init__(self) -> None:
        self._state: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def merge(self, keys: list[int], amounts: list[int]) -> None:
        for key, amount in zip(keys, amounts, strict=True):
            with self._lock:
                total, n = self._state.get(str(key), (0, 0))
                self._state[str(key)] = [total + amount, n + 1]

    def checkpoint(self, path: Path) -> int:
        with self._lock:
            blob = gzip.compress(json.dumps(self._state).encode())
        path.write_bytes(blob)
        return len(blob)


class RocksLoop:
    """A bare loop over rocksdict, set up like the rocksdb backend."""

    def __init__(self, directory: Path) -> None:
        import rocksdict

        from holdfast.state.backends.rocksdb.options import (
            RocksDBOptions,
            database_options,
            write_options,
        )

        self._new_batch = lambda: rocksdict.WriteBatch(raw_mode=True)
        self._database = rocksdict.Rdict(str(directory), database_options(RocksDBOptions()))
        self._database.set_write_options(write_options())

    def merge(self, keys: list[int], amounts: list[int]) -> None:
        packed = [struct.pack(">q", key) for key in keys]
        puts = self._new_batch()
        for key, amount, known in zip(packed, amounts, self._database.get(packed), strict=True):
            total, n = struct.unpack("<qq", known) if known else (0, 0)
            puts.put(key, struct.pack("<qq", total + amount, n + 1))
        self._database.write(puts)

    def flush(self) -> None:
        self._database.flush()

    def close(self) -> None:
        self._database.close()


class QuixStore:
    """A RocksDB partition of quixstreams, through its transaction."""

    def __init__(self, directory: Path) -> None:
        from quixstreams.state.rocksdb import RocksDBStorePartition

        self._partition = RocksDBStorePartition(str(directory))
        self._offset = 0

    def merge(self, keys: list[int], amounts: list[int]) -> None:
        transaction = self._partition.begin()
        for key, amount in zip(keys, amounts, strict=True):
            prefix = str(key).encode()
            total, n = transaction.get("t", prefix=prefix, default=(0, 0))
            transaction.set("t", [total + amount, n + 1], prefix=prefix)
        self._offset += 1
        transaction.prepare({})
        transaction.flush(changelog_offset=self._offset)


def main() -> None:
    """Time quixstreams on the keys that the benchmark left in a directory."""
    directory = Path(sys.argv[1])
    store = QuixStore(directory / "quix")
    keys = np.load(directory / "keys.npy")
    for start in range(0, len(keys), 100_000):
        part = keys[start : start + 100_000].tolist()
        store.merge(part, [0] * len(part))
    seconds = []
    for path in sorted(directory.glob("batch-*.npy")):
        batch, amounts = np.load(path)
        begin = time.perf_counter()
        store.merge(batch.tolist(), amounts.tolist())
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
