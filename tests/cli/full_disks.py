"""A program of its own, for a mount namespace, where it may mount small disks.

It has two pipelines: the target of one is on a disk that is too small, the ledger of the other
on one that fills up in the middle of a run. A second process runs both into that; then there is
space again, and this one runs both to the end and prints what was answered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Started as a script, it has only its own directory on the path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from cli.harness import Commands, Done, Shop, copied, rows
from holdfast import failpoints

NAMES = ("target", "ledger")


def mount(place: Path, size: str) -> None:
    """Put an empty disk of this size at a place."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)


def fill(disk: Path) -> None:
    """Use up what is left of a disk."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"0" * 4096):
                pass
        except OSError:
            return


def run(shop: Shop) -> dict[str, Done]:
    """Run each pipeline with its own ledger, on one Spark session."""
    pytest.MonkeyPatch().setattr("holdfast.spark.session.stop_session", lambda _session: None)
    cli = Commands(shop.root)
    return {name: cli("--state-path", f"{name}/state/ledger.db", "run", name) for name in NAMES}


def run_into_it(shop: Shop) -> None:
    """Run both, and fill the ledger's disk when its batch is about to be published."""

    def observe(step: str, table: str) -> None:
        if (step, table) == ("before_publish", "ledger.orders"):
            fill(shop.root / "ledger" / "state")

    failpoints.observe(observe)
    print(json.dumps({name: [d.code, d.out, d.err] for name, d in run(shop).items()}))


def main(shop: Shop) -> None:
    """Mount the disks, let another process run into their ends, make space, and run again."""
    shop.write_config(*(shop.section(name, target=f'{{ path = "{name}/lake" }}') for name in NAMES))
    content = [(i, moment, os.urandom(100).hex()) for i, moment, _ in rows(1, 3000)]
    shop.add("orders", "a", content)
    mount(shop.root / "target" / "lake", "64k")
    mount(shop.root / "ledger" / "state", "8m")
    broken = subprocess.run(
        [sys.executable, __file__, "into it"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = {"full": json.loads(broken.stdout)}
    subprocess.run(["mount", "-o", "remount,size=64m", shop.root / "target" / "lake"], check=True)
    (shop.root / "ledger" / "state" / "filler").unlink()
    found["freed"] = {name: [d.code, d.out, d.err] for name, d in run(shop).items()}
    found["equal"] = {
        name: copied(shop.root / name / "lake" / "orders") == shop.source() for name in NAMES
    }
    print(json.dumps(found))


if sys.argv[1:]:
    run_into_it(Shop(Path.cwd()))
else:
    main(Shop(Path.cwd()))
