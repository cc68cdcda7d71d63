"""A stream of events that arrive in files, and the pipelines that deliver them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast import Project, open_project
from holdfast.errors import HoldfastError
from holdfast.model import CheckpointEntry
from holdfast.pipelines.streams.epochs import Epoch
from holdfast.pipelines.streams.job import StreamResult

SCHEMA = "id long, merchant string, paise long"
FILES = '[[pipeline.pay.sinks]]\nname = "lake"\ntype = "files"\npath = "lake"\n'

Rows = Counter[tuple[Any, ...]]


def sink(name: str, kind: str, **settings: Any) -> str:
    """The TOML of a sink."""
    lines = [f"{key} = {_toml(value)}" for key, value in settings.items()]
    head = f'[[pipeline.pay.sinks]]\nname = "{name}"\ntype = "{kind}"\n'
    return head + "\n".join(lines) + "\n"


@dataclass
class Watcher:
    """Progress that is written down."""

    epochs: list[Epoch] = field(default_factory=list)
    waits: list[dict[str, HoldfastError]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    start: CheckpointEntry | None = None
    stopped: bool = False

    def started(self, pipeline: str, head: CheckpointEntry | None, notes: tuple[str, ...]) -> None:
        """Where it starts from."""
        self.start = head
        self.notes += notes

    def committed(self, epoch: Epoch) -> None:
        """One epoch more."""
        self.epochs.append(epoch)

    def waiting(self, waiting: Mapping[str, HoldfastError], seconds: float) -> None:
        """What it waits for."""
        self.waits.append(dict(waiting))

    def stopping(self) -> None:
        """It was asked to stop."""
        self.stopped = True


@dataclass
class World:
    """A project with one stream `pay`."""

    root: Path
    spark: SparkSession
    events: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0
    watcher: Watcher = field(default_factory=Watcher)

    def configure(
        self,
        *sinks: str,
        source: str = "",
        keys: str = "",
        batch: str = "max_files = 1",
        schema: str = SCHEMA,
        checkpoint: str = "",
    ) -> None:
        """Write the configuration file."""
        chosen = source or f'{{ format = "json", path = "events", schema = "{schema}" }}'
        text = f"""\
[pipeline.pay]
type = "stream"
source = {chosen}
{keys}

[pipeline.pay.batch]
{batch}

[pipeline.pay.checkpoint]
{checkpoint}

{"".join(sinks) or FILES}
"""
        (self.root / "holdfast.toml").write_text(text)
        (self.root / "events").mkdir(exist_ok=True)

    def add(self, count: int = 5, **extra: Any) -> list[dict[str, Any]]:
        """Let one more file of events arrive."""
        first = len(self.events)
        new = [
            {"id": first + i, "merchant": f"m{(first + i) % 3}", "paise": 10 * (first + i), **extra}
            for i in range(count)
        ]
        self.events += new
        place = self.root / "events" / f"{self.files:05}.json"
        draft = self.root / f".{place.name}"
        draft.write_text("".join(json.dumps(event) + "\n" for event in new))
        draft.rename(place)
        self.files += 1
        return new

    def project(self, **options: Any) -> Project:
        """Open the project."""
        return open_project(self.root / "holdfast.toml", spark=self.spark, **options)

    def run(self, **options: Any) -> StreamResult:
        """Deliver what is there."""
        self.watcher = Watcher()
        with self.project() as project:
            return project.run_stream("pay", once=True, progress=self.watcher, **options)

    def expected(self, *columns: str) -> Rows:
        """Every event that arrived, as a multiset."""
        names = columns or ("id", "merchant", "paise")
        return Counter(tuple(event.get(name) for name in names) for event in self.events)

    def lake(self, *columns: str, path: str = "lake") -> Rows:
        """What a plain reader sees of a files sink."""
        names = columns or ("id", "merchant", "paise")
        if not (self.root / path).exists():
            return Counter()
        frame = self.spark.read.parquet(str(self.root / path)).select(*names)
        return Counter(tuple(row) for row in frame.collect())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)
