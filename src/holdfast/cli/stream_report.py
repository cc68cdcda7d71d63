"""A run of a stream, for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from holdfast.cli.amounts import count
from holdfast.pipelines.streams.job import StreamResult

_STYLES = {"done": "bold green", "stopped": "bold green", "partial": "bold yellow"}


def print_stream_run(out: Console, result: StreamResult, *, stopped: bool) -> None:
    """Show what a run did and where the pipeline is now."""
    run, head = result.run, result.head
    out.print(Text(f"{run.pipeline}: run {run.run_id}", style="italic"), soft_wrap=True)
    for note in result.notes:
        out.print(Text.assemble(("note ", "cyan"), note), soft_wrap=True)
    word = "partial" if run.status == "partial" else "stopped" if stopped else "done"
    seconds = ((run.finished_at or run.started_at) - run.started_at).total_seconds()
    where = f"; at version {head.version} (epoch {head.epoch})" if head is not None else ""
    out.print(
        Text.assemble(
            (word, _STYLES[word]),
            f": {count(result.epochs, 'epoch')}, {count(result.rows, 'row')}, "
            f"{seconds:.1f} s{where}",
        ),
        soft_wrap=True,
    )
