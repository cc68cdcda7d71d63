"""A stream to run commands on: files of JSON lines in, Parquet files out."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from .harness import START, Commands, visible_files

SPARK = """\
[spark]
master = "local[2]"
conf = { "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" }
"""
STREAM = """\
[pipeline.payments]
type = "stream"
source = { format = "json", path = "events", schema = "id long, note string" }
batch = { max_files = 1 }
"""
LAKE = """\
[[pipeline.payments.sinks]]
name = "lake"
type = "files"
path = "lake"
"""
COPY = """\
[pipeline.shop]
type = "replicate"
source = { format = "parquet", path = "source" }
target = { path = "copies" }
tables = ["orders"]
watermark = "id"
"""
CHECKPOINT = {
    "version",
    "checkpoint_id",
    "epoch",
    "generation",
    "parent",
    "created_at",
    "rows",
    "bytes",
}


@dataclass(frozen=True, slots=True)
class Events:
    """A directory with a configuration, events and what was delivered of them."""

    root: Path

    def configure(self, *sections: str) -> None:
        """Write `holdfast.toml`; one stream to one directory unless told otherwise."""
        (self.root / "holdfast.toml").write_text("\n".join([SPARK, *(sections or (STREAM, LAKE))]))

    def add(self, *numbers: int, to: str = "events") -> None:
        """Add a file for each of these events; each makes an epoch."""
        directory = self.root / to
        directory.mkdir(exist_ok=True)
        for number in numbers:
            draft = directory / f"_{number}"
            draft.write_text(json.dumps({"id": number, "note": f"event {number}"}))
            # Spark takes older files first, and of files of one moment any.
            moment = START.timestamp() + number
            os.utime(draft, (moment, moment))
            draft.replace(directory / f"{number:06d}.json")

    def add_table(self) -> None:
        """Add a table of two rows for `COPY` to copy."""
        (self.root / "source").mkdir()
        table = pa.table({"id": [1, 2], "name": ["a", "b"]})
        parquet.write_table(table, self.root / "source" / "orders.parquet")

    def delivered(self) -> Counter[int]:
        """How often each event is in the lake."""
        found: Counter[int] = Counter()
        for path in visible_files(self.root / "lake"):
            found.update(parquet.ParquetFile(path).read(["id"])["id"].to_pylist())
        return found

    def manifests(self) -> list[Path]:
        """The manifests of the checkpoints, oldest first."""
        return sorted((self.root / ".holdfast" / "checkpoints").rglob("manifests/*.json"))


_prepared: list[Path] = []


def run_to_three(root: Path) -> Events:
    """Run a stream to version 3, epoch 2."""
    made = Events(root)
    made.configure()
    made.add(1, 2, 3)
    done = Commands(root)("run", "--once")
    assert done.code == 0, done.said
    return made


def three_versions(factory: pytest.TempPathFactory, root: Path) -> Events:
    """A stream at version 3, epoch 2, that was run once and is copied ever after.

    To look at: it cannot go on, since Spark knows the files it has read by their full path.
    """
    if not _prepared:
        _prepared.append(run_to_three(factory.mktemp("stream")).root)
    shutil.copytree(_prepared[0], root, dirs_exist_ok=True)
    return Events(root)


def once_each(numbers: Iterable[int]) -> Counter[int]:
    """Each event exactly once."""
    return Counter(list(numbers))
