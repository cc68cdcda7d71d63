"""The terminal as a sink, for trying things out."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

from holdfast.config.sinks import ConsoleSink as ConsoleSinkConfig
from holdfast.errors import SinkUnavailable
from holdfast.model import Guarantee
from holdfast.spark.sinks.collecting import rendering
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink

_WIDEST_VALUE = 80


class ConsoleSink(Sink):
    """Prints the first rows of every batch; a batch that comes again is printed again."""

    def __init__(self, config: ConsoleSinkConfig, *, pipeline: str, spark: SparkSession) -> None:
        del pipeline, spark
        super().__init__(config.name)
        self._rows = config.rows

    @property
    def guarantee(self) -> Guarantee:
        return "at_least_once"

    @property
    def description(self) -> str:
        return f"the terminal, {self._rows} rows of every batch"

    @property
    def takes_back(self) -> str:
        return "What was printed stays on the screen."

    def deliver(self, delivery: Delivery) -> Receipt:
        with rendering(self.name):
            count = delivery.frame.count()
            shown = min(count, self._rows)
            # What `show` prints; it has no public name that returns it.
            frame: Any = delivery.frame
            table: str = frame._show_string(shown, _WIDEST_VALUE) if count else ""
        rows = "1 row" if count == 1 else f"{count} rows"
        first = f", the first {shown}" if shown < count else ""
        self._print(f"{self.name}  {delivery.token}  {rows}{first}\n{_without_footer(table)}")
        return Receipt(rows=count)

    def _print(self, text: str) -> None:
        output = sys.stdout
        encoding = output.encoding or "utf-8"
        try:
            # A terminal that cannot show a character shows a question mark instead.
            output.write(text.encode(encoding, "replace").decode(encoding))
            output.flush()
        except (OSError, ValueError) as error:
            raise SinkUnavailable(
                f"{self.name}: the terminal cannot be written to: {error}",
                hint="Was the output closed, or piped into a program that ended?",
            ) from error


def _without_footer(table: str) -> str:
    """Spark's table without its `only showing top 20 rows`, which the heading says already."""
    lines = [line for line in table.splitlines() if line and not line.startswith("only showing")]
    return "".join(f"{line}\n" for line in lines)
