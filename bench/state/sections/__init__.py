"""The sections of the benchmark, each a list of comparisons."""

from __future__ import annotations

from collections.abc import Callable

from bench.state.report import Line
from bench.state.sections.arrow import checkpoint_bytes, growth, merging, opening
from bench.state.sections.changelog import changelog
from bench.state.sections.memory import memory
from bench.state.sections.peers import peers
from bench.state.sections.rocksdb import rocksdb_loop
from bench.state.setting import Setting

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
