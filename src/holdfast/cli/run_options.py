"""Which options of `run` go with which kind of pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.config import Config


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What only a run that copies tables can use."""

    tables: tuple[str, ...]
    full_refresh: bool
    resume: bool
    allow_failed_checks: bool

    @property
    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        found = {
            "--table": bool(self.tables),
            "--full-refresh": self.full_refresh,
            "--resume": self.resume,
            "--allow-failed-checks": self.allow_failed_checks,
        }
        return [name for name, given in found.items() if given]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What only a run that delivers batches can use."""

    once: bool
    start_from: str | None
    accept_source: bool

    @property
    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        found = {
            "--once": self.once,
            "--from": self.start_from is not None,
            "--accept-source": self.accept_source,
        }
        return [name for name, given in found.items() if given]


def refuse_misplaced(
    config: Config, names: Sequence[str], copying: CopyOptions, streaming: StreamOptions
) -> None:
    """Refuse options that a pipeline cannot use, before any of them runs."""
    streams = [name for name in names if config.pipeline_named(name).type == "stream"]
    copies = [name for name in names if name not in streams]
    if streams and copying.given:
        raise UsageError(
            f"{copying.given[0]} is for pipelines that copy tables; {streams[0]} is a stream.",
            hint=_name_one(copies, copying.given[0])
            or f"A stream always goes on where it got to: holdfast run {streams[0]}",
        )
    # Of several in turn, those that copy tables end by themselves: --once is for the others.
    misplaced = [o for o in streaming.given if not (o == "--once" and streams)]
    if copies and misplaced:
        raise UsageError(
            f"{misplaced[0]} is for streams; {copies[0]} copies tables.",
            hint=_name_one(streams, misplaced[0])
            or f"It copies what is new and ends: holdfast run {copies[0]}",
        )
    if len(names) > 1 and misplaced:
        raise UsageError(
            f"{misplaced[0]} is for one stream, and there are {', '.join(streams)}.",
            hint=_name_one(streams, misplaced[0]),
        )
    if len(names) > 1 and streams and not streaming.once:
        raise UsageError(
            f"{streams[0]} is a stream, which goes on until it is stopped: the pipelines after it "
            "would never run.",
            hint="Deliver what there is now and end: holdfast run --once\n"
            f"Or run it alone: holdfast run {streams[0]}",
        )


def _name_one(names: Sequence[str], option: str) -> str:
    return f"Name the pipeline: holdfast run {names[0]} {option}" if names else ""
