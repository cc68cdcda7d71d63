"""How RocksDB is set up, and how to get hold of it at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from holdfast.errors import StateError, StateMismatch

COMPRESSIONS: Final = ("none", "lz4", "snappy", "zstd")


@dataclass(frozen=True)
class RocksDBOptions:
    """Settings of the RocksDB of one operator partition; the defaults suit micro-batches."""

    memory_bytes: int = 256 * 2**20
    """What memtables, block cache, indexes and filters may take together."""
    write_buffer_ratio: float = 0.5
    """The part of it that memtables may take, above 0 and below 1; reads have the rest."""
    background_jobs: int = 2
    """How many flushes and compactions may run beside the batch."""
    bloom_bits_per_key: int = 10
    """Size of the filters that spare look-ups of absent keys; 10 lets 1 in 100 pass, 0 is none."""
    compression: str = "lz4"
    """One of `none`, `lz4`, `snappy`, `zstd`."""
    local_dir: Path | str | None = None
    """Where the working directories go; `None` is beside the checkpoints.

    On another device than the checkpoints, files are copied where they would be linked.
    """

    def __post_init__(self) -> None:
        for wrong, message in (
            (self.memory_bytes < 2**20, f"memory_bytes is {self.memory_bytes}, below 1 MiB"),
            (
                not 0 < self.write_buffer_ratio < 1,
                f"write_buffer_ratio is {self.write_buffer_ratio}, not between 0 and 1",
            ),
            (self.background_jobs < 1, f"background_jobs is {self.background_jobs}, below 1"),
            (
                self.bloom_bits_per_key < 0,
                f"bloom_bits_per_key is {self.bloom_bits_per_key}, below 0",
            ),
            (
                self.compression not in COMPRESSIONS,
                f"compression is {self.compression!r}, not one of {', '.join(COMPRESSIONS)}",
            ),
        ):
            if wrong:
                raise StateMismatch(f"RocksDB: {message}.", hint="Give a value that is allowed.")


@cache
def rocksdict() -> Any:
    """Return the module that RocksDB is reached through."""
    try:
        return import_module("rocksdict")
    except ImportError as error:
        raise StateError(
            f"The backend 'rocksdb' needs the package rocksdict: {error}.",
            hint="Install the extra holdfast[rocksdb], or choose the backend 'arrow'.",
        ) from error


def database_options(options: RocksDBOptions) -> Any:
    """Return what a database is opened with."""
    rocks = rocksdict()
    result = rocks.Options(raw_mode=True)
    result.create_if_missing(True)
    result.set_max_background_jobs(options.background_jobs)
    result.set_compression_type(getattr(rocks.DBCompressionType, options.compression)())
    _share_memory(result, options)
    # A working directory lives as long as a run: nobody reads its logs and statistics.
    result.set_keep_log_file_num(1)
    result.set_stats_dump_period_sec(0)
    result.set_stats_persist_period_sec(0)
    # Written out as it comes, a flushed file leaves little to do for the checkpoint's fsync.
    result.set_bytes_per_sync(2**20)
    return result


def _share_memory(result: Any, options: RocksDBOptions) -> None:
    rocks = rocksdict()
    buffers = int(options.memory_bytes * options.write_buffer_ratio)
    shared = rocks.Cache(options.memory_bytes)
    # Memtables are charged to the cache: what they do not use, reads may.
    manager = rocks.WriteBufferManager.new_write_buffer_manager_with_cache(buffers, False, shared)
    result.set_write_buffer_manager(manager)
    # Two of them: one is written to while the other is flushed.
    result.set_write_buffer_size(max(buffers // 2, 64 * 2**10))
    result.set_max_write_buffer_number(4)
    blocks = rocks.BlockBasedOptions()
    blocks.set_block_cache(shared)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    if options.bloom_bits_per_key:
        blocks.set_bloom_filter(options.bloom_bits_per_key, False)
    result.set_block_based_table_factory(blocks)


def write_options() -> Any:
    """Return what is written with: no log, because a checkpoint flushes the memtables."""
    result = rocksdict().WriteOptions()
    result.disable_wal = True
    return result
