"""The benchmark measures what it says: at a small scale it runs to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_benchmark_compares_everything(tmp_path: Path) -> None:
    """Every comparison of the table is made and has a ratio."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "bench.state", "--scale", "0.004", "--rounds", "3"],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    for work in ("bare NumPy", "rocksdb", "string keys", "of 2M", "1 %", "read whole", "loop"):
        assert work in done.stdout
    assert "dict + gzip + JSON" in done.stdout
    assert list(tmp_path.iterdir()) == []
