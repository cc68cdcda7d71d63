"""A program of its own, for a mount namespace, where it may mount small disks.

It has two pipelines: the target of one is on a disk that is too small, the ledger of the other
on one that fills up in the middle of a run. It runs both into that and prints what was answered;
what is on the small disks then stays behind, where there is space again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Started as a script, it has only its own directory on the path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from cli.harness import Commands, Shop, rows
from holdfast import failpoints


def mount(place: Path, size: str) -> Path:
    """Put an empty disk of this size at a place."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    return place


def keep(disk: Path) -> None:
    """Take a small disk away and leave its files in its place."""
    kept = disk.with_name("kept")
    shutil.copytree(disk, kept, ignore=shutil.ignore_patterns("filler"))
    subprocess.run(["umount", "--lazy", disk], check=True)
    disk.rmdir()
    kept.rename(disk)


def fill(disk: Path) -> None:
    """Use up what is left of a disk."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"0" * 4096):
                pass
        except OSError:
            return


def main(shop: Shop) -> None:
    """Run both pipelines into the end of their disks."""
    names = ("target", "ledger")
    shop.write_config(*(shop.section(name, target=f'{{ path = "{name}/lake" }}') for name in names))
    content = [(i, moment, os.urandom(100).hex()) for i, moment, _ in rows(1, 3000)]
    shop.add("orders", "a", content)
    disks = [
        mount(shop.root / "target" / "lake", "64k"),
        mount(shop.root / "ledger" / "state", "8m"),
    ]

    def observe(step: str, table: str) -> None:
        if (step, table) == ("before_publish", "ledger.orders"):
            fill(disks[1])

    failpoints.observe(observe)
    cli = Commands(shop.root)
    found = {name: cli("--state-path", f"{name}/state/ledger.db", "run", name) for name in names}
    print(json.dumps({name: [done.code, done.out, done.err] for name, done in found.items()}))
    for disk in disks:
        keep(disk)


main(Shop(Path.cwd()))
