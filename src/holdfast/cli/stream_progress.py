"""Showing how a stream goes on: one live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from holdfast.cli.amounts import count

if TYPE_CHECKING:
    from holdfast.errors import HoldfastError
    from holdfast.model import CheckpointEntry
    from holdfast.pipelines.streams.epochs import Epoch

_SECONDS_BETWEEN_LINES: Final = 1.0


class Watched(Protocol):
    """Where progress goes: a line that is written over, or a log."""

    def show(self, text: str) -> None:
        """Show what the pipeline is doing; may be left out if something newer comes soon."""

    def say(self, text: str) -> None:
        """Say something that must be read."""

    def close(self) -> None:
        """Say what was left out."""


class StreamLine:
    """Puts what a stream tells into words; safe to call from several threads."""

    def __init__(self, screen: Watched) -> None:
        self.stopped = False
        """Whether somebody asked the run to end."""
        self._screen = screen
        self._lock = threading.Lock()
        self._waiting: dict[str, str] = {}
        self._put_off: tuple[str, ...] = ()

    def started(self, pipeline: str, head: CheckpointEntry | None, notes: tuple[str, ...]) -> None:
        """Say where the run starts from."""
        with self._lock:
            for note in notes:
                self._screen.say(note)
            self._screen.say(
                "starting from the beginning"
                if head is None
                else f"going on after version {head.version} (epoch {head.epoch})"
            )
            self._screen.show("waiting for rows")

    def committed(self, epoch: Epoch) -> None:
        """Show the newest version and how fast it came."""
        with self._lock:
            self._waiting = {}
            if epoch.put_off != self._put_off:
                self._say_put_off(epoch.put_off)
            self._screen.show(describe(epoch))

    def waiting(self, waiting: Mapping[str, HoldfastError], seconds: float) -> None:
        """Say what it waits for, once, and until when it does."""
        said = {name: error.message for name, error in waiting.items()}
        until = (datetime.now().astimezone() + timedelta(seconds=seconds)).strftime("%H:%M:%S")
        with self._lock:
            what = ", ".join("the source" if n == "source" else n for n in said) or "a sink"
            if said != self._waiting or not said:
                self._waiting = said
                for name, error in waiting.items():
                    # A sink's message begins with its name.
                    self._screen.say(error.message)
                    if error.hint and name == "source":
                        self._screen.say(error.hint)
            self._screen.show(f"waiting for {what}, next try at {until}")

    def stopping(self) -> None:
        """Say that it has been heard."""
        self.stopped = True
        with self._lock:
            self._screen.say("stopping as soon as the batch in flight is delivered")

    def _say_put_off(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self._put_off:
                self._screen.say(f"{name} does not have this batch yet; the others go on")
        for name in self._put_off:
            if name not in names:
                self._screen.say(f"{name} has caught up")
        self._put_off = names


class Log:
    """Lines on standard error; of several that come within a second, the last is written."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._held: str | None = None
        self._timer: threading.Timer | None = None

    def show(self, text: str) -> None:
        """Write a line, at most one a second; the last one is never lost."""
        with self._lock:
            left = self._next_at - time.monotonic()
            if left <= 0:
                self._write(text)
                return
            self._held = text
            if self._timer is None:
                self._timer = threading.Timer(left, self._flush)
                self._timer.daemon = True
                self._timer.start()

    def say(self, text: str) -> None:
        """Write a line now, after what was held back."""
        with self._lock:
            self._write_held()
            self._write(text)

    def close(self) -> None:
        """Write what was held back."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._write_held()

    def _flush(self) -> None:
        with self._lock:
            self._timer = None
            self._write_held()

    def _write_held(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._write(held)

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{self._pipeline}: {text}\n")
        sys.stderr.flush()
        self._next_at = time.monotonic() + _SECONDS_BETWEEN_LINES


class LiveLine:
    """One line of a terminal, with what must be read above it."""

    def __init__(self, pipeline: str, progress: Progress) -> None:
        self._pipeline = pipeline
        self._progress = progress
        self._task = progress.add_task(pipeline, total=None, now="starting Spark")

    def show(self, text: str) -> None:
        """Write over the line."""
        self._progress.update(self._task, now=text)

    def say(self, text: str) -> None:
        """Print above the line."""
        self._progress.console.print(Text(f"{self._pipeline}: {text}"), soft_wrap=True)

    def close(self) -> None:
        """Nothing was left out."""


@contextmanager
def showing_stream(pipeline: str) -> Iterator[StreamLine]:
    """Choose what fits: a live line if standard error is a terminal, else a log."""
    if not sys.stderr.isatty():
        log = Log(pipeline)
        try:
            yield StreamLine(log)
        finally:
            log.close()
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        # It takes what is left of the line, and is cut instead of the rest.
        TextColumn(
            "{task.fields[now]}",
            style="dim",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        console=Console(stderr=True, highlight=False, markup=False, emoji=False),
        transient=True,
        expand=True,
    ) as progress:
        yield StreamLine(LiveLine(pipeline, progress))


def describe(epoch: Epoch) -> str:
    """A committed epoch in a phrase."""
    entry = epoch.entry
    said = [f"version {entry.version}", f"epoch {entry.epoch}"]
    if entry.rows is not None:
        said += [count(entry.rows, "row"), f"{entry.rows / max(epoch.seconds, 1e-3):,.0f} rows/s"]
    return ", ".join([*said, f"{epoch.seconds * 1000:,.0f} ms"])
