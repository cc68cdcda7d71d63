"""The benchmark measures what it says: at a small scale it runs to its end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LINES = {
    "merging": [
        ("arrow: 500k of 5M int64 keys, merges of runs included", "bare NumPy"),
        ("arrow: 500k of 5M int64 keys against rocksdb, both checkpointed", "reading from"),
        ("arrow: 500k of 5M int64 keys against rocksdb, both checkpointed", "own cache"),
        ("arrow: 500k of 5M string keys of 16 bytes", "int64 keys"),
    ],
    "growth": [("arrow: 500k keys of 20M, merges of runs included", "of 2M")],
    "bytes": [("arrow: bytes of a typical checkpoint, 1 % of 5M keys changed", "the whole state")],
    "opening": [("arrow: open 5M keys", "read whole")],
    "rocksdb": [
        (
            "rocksdb backend alone, no commit: 300k random keys of 1.5M read and written",
            "bare rocksdict loop",
        ),
        (
            "rocksdb backend alone, no commit: 300k random keys of 1.5M read and written",
            "the loop over keys sorted beforehand",
        ),
    ],
    "changelog": [("changelog on heap: commit of 10k changed keys of 5M", "full snapshot")],
    "memory": [("arrow: 20M keys, batches of 100k, peak resident set beyond mapped files", "1 GB")],
    "peers": [
        (f"100k of 1M keys read, merged and written: {name}", "arrow")
        for name in (
            "arrow (checkpointed)",
            "heap (checkpointed)",
            "rocksdb (checkpointed)",
            "dict + gzip + JSON (checkpointed, gzip at its default level 9)",
        )
    ],
}
"""By section: the work, and what it is compared with."""

UNPROMISED = {"merging": 1, "peers": 4, "rocksdb": 1}
"""How many lines of a section have no target."""


def test_the_benchmark_compares_everything(tmp_path: Path) -> None:
    """Every comparison of every section is made and has a ratio."""
    root = Path(__file__).parents[2]
    found, place = tmp_path / "lines.json", tmp_path / "place"
    place.mkdir()
    small = ["--scale", "0.004", "--rounds", "4"]
    subprocess.run(
        [sys.executable, "-m", "bench.state", *small, "--json", str(found)],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = json.loads(found.read_text())
    expected = [pair for pairs in LINES.values() for pair in pairs]
    assert [line["work"] for line in lines] == [work for work, _ in expected]
    for line, (_, against) in zip(lines, expected, strict=True):
        assert set(line) == {"work", "measured", "against", "ratio", "target", "met"}
        assert against in line["against"]
        assert line["measured"]
        assert line["ratio"] > 0
        assert line["met"] == (None if line["target"] is None else line["ratio"] <= line["target"])
    assert sum(line["target"] is None for line in lines) == sum(UNPROMISED.values())
    assert list(place.iterdir()) == []
