"""A stream to three sinks, in a process that can be killed, and what each sink has."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from cli.harness import read_files

Rows = Counter[tuple[Any, ...]]

COLUMNS = ("id", "merchant", "paise")
PIPELINE = """\
[spark]
master = "local[2]"
conf = { "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1" }

[pipeline.pay]
type = "stream"
source = { format = "json", path = "events", schema = "id long, merchant string, paise long" }
where = "paise >= 0"

[pipeline.pay.batch]
max_files = 1
commit_policy = "all"

[pipeline.pay.checkpoint]
retain = { min_count = 3, min_age = "0s" }

[[pipeline.pay.sinks]]
name = "lake"
type = "files"
path = "lake"

[[pipeline.pay.sinks]]
name = "side"
type = "python"
function = "appending:append"
"""
DELTA = '[[pipeline.pay.sinks]]\nname = "table"\ntype = "delta"\npath = "table"\n'
# Durable when it returns, and blind to tokens: rows may come twice, but never not at all.
APPENDING = """
import json, os

def append(frame, token):
    with open("side.jsonl", "a") as out:
        for row in frame.collect():
            out.write(json.dumps(list(row)) + "\\n")
        out.flush()
        os.fsync(out.fileno())
"""


@dataclass
class StreamWorld:
    """Events that arrive in files, and three sinks."""

    root: Path
    events: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0

    def configure(self, second: str = DELTA) -> None:
        """Write the project; `second` is the other exactly-once sink."""
        (self.root / "events").mkdir()
        (self.root / "appending.py").write_text(APPENDING)
        (self.root / "holdfast.toml").write_text(f"{PIPELINE}\n{second}")

    def add(self, count: int = 4) -> None:
        """Let one more file arrive, whole."""
        first = len(self.events)
        new = [
            {"id": first + i, "merchant": f"m{i % 3}", "paise": (first + i) % 7 - 1}
            for i in range(count)
        ]
        # A row that stands there twice must be delivered twice.
        new.append(new[-1])
        draft = self.root / f".{self.files:05}.json"
        draft.write_text("".join(json.dumps(event) + "\n" for event in new))
        draft.rename(self.root / "events" / f"{self.files:05}.json")
        self.events += new
        self.files += 1

    def expected(self) -> Rows:
        """What a batch computation over the whole input gives."""
        kept = (event for event in self.events if event["paise"] >= 0)
        return Counter(tuple(event[name] for name in COLUMNS) for event in kept)

    def lake(self) -> Rows:
        """What a reader of the files sees."""
        return _rows(read_files(sorted((self.root / "lake").glob("holdfast_epoch=*/*.parquet"))))

    def table(self) -> Rows:
        """What a reader of the Delta table sees."""
        if not (self.root / "table" / "_delta_log").exists():
            return Counter()
        return _rows(DeltaTable(self.root / "table").to_pyarrow_table().to_pylist())

    def side(self) -> Rows:
        """What the sink without a token got, a line that a kill cut short left out."""
        place = self.root / "side.jsonl"
        lines = place.read_text().splitlines() if place.exists() else []
        found: Rows = Counter()
        for line in lines:
            try:
                found[tuple(json.loads(line))] += 1
            except ValueError:
                continue
        return found


def _rows(found: list[dict[str, Any]]) -> Rows:
    return Counter(tuple(row[name] for name in COLUMNS) for row in found)
