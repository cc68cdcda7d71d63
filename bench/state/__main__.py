"""The keyed-state engine against what it must not be slower than.

    python -m bench.state [--scale 1.0] [--rounds 80] [--only growth] [--peers PYTHON] [--json PATH]

Every comparison is made in one run on the same data; where contenders do not take turns, the
table says so. `--scale` shrinks the number of keys, to see that the benchmark works; the promises
hold at 1. The default of `--rounds` lets the base of the largest state be rewritten twice.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench.state.report import save, show
from bench.state.sections import SECTIONS
from bench.state.sections.memory import CHILD, memory_child
from bench.state.setting import Setting


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--only", choices=[*SECTIONS, CHILD])
    parser.add_argument("--peers", default="", help="the python of an environment with quixstreams")
    parser.add_argument("--directory", help="where to work; a temporary directory by default")
    parser.add_argument("--json", type=Path, help="where to write the comparisons as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        setting = Setting(given.scale, given.rounds, Path(directory), given.peers)
        if given.only == CHILD:
            memory_child(setting)
            return
        lines = []
        for name, section in SECTIONS.items():
            if given.only in (None, name):
                begin = time.perf_counter()
                lines += section(setting)
                Console().print(f"{name}: {time.perf_counter() - begin:.0f} s")
                gc.collect()
        show(f"Keyed state, scale {given.scale:g}, {os.cpu_count()} cores", lines)
        if given.json:
            save(given.json, lines)


if __name__ == "__main__":
    main()
