"""What the other process of a test does: `python child.py <task> <arguments>`."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

# Started as a script, it has only its own directory on the path.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.checkpoint.workshop import Workshop

from holdfast.checkpoint import verify_all
from holdfast.clock import utc_now
from holdfast.errors import DiskFull
from holdfast.ledger import SqliteLedger
from holdfast.objects import LocalObjects


def opened(ledger: Path, files: Path) -> Workshop:
    """Open the pipeline that the test looks at afterwards."""
    workshop = Workshop(SqliteLedger(ledger / "ledger.db"), LocalObjects(files / "files"))
    workshop.now = utc_now()
    workshop.activate()
    return workshop


def run(directory: str) -> None:
    """Run epochs with retention, and say each that is committed, until killed."""
    workshop = opened(Path(directory), Path(directory))
    base = workshop.objects.store(f"payments/files/base-{workshop.generation}", b"base")
    while True:
        workshop.sleep(seconds=10)
        workshop.checkpoints.intend(workshop.intent(), generation=workshop.generation)
        entry = workshop.commit(carried=(base,))
        print(entry.version, flush=True)
        workshop.checkpoints.retain(
            min_count=3, min_age=timedelta(seconds=15), generation=workshop.generation
        )


def fill(directory: str, ledger: str) -> None:
    """Run epochs on a disk that is too small; make room, if the ledger is elsewhere, and go on."""
    place = Path(directory, "disk")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    workshop = opened(Path(directory, ledger), place)
    committed = 0
    told: DiskFull | None = None
    while told is None:
        try:
            workshop.sleep(seconds=10)
            large = workshop.objects.store(f"payments/files/{committed}", b"0" * 10_000)
            workshop.commit(carried=(large,))
            committed += 1
        except DiskFull as error:
            told = error
    found = workshop.reopen().restore()
    assert found is not None
    answer = {
        "said": told.message,
        "hint": told.hint,
        "committed": committed,
        "restored": found.entry.version,
        "notes": found.notes,
        "hidden": [path.name for path in place.rglob(".*.part")],
        "whole": [each.whole for each in verify_all(workshop.checkpoints)].count(True),
    }
    if ledger != "disk":
        removed = workshop.checkpoints.retain(min_count=2, min_age=timedelta(seconds=15))
        answer["removed"] = len(removed.versions)
        answer["after"] = workshop.commits(2)[-1].version
    print(json.dumps(answer), flush=True)


TASKS = {task.__name__: task for task in (run, fill)}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
