"""What a sink is: somewhere a batch of rows is delivered under a token.

A pipeline delivers its batches to a sink one at a time and in the order of their tokens. After a
crash it delivers the last one again, under the same token and with the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from holdfast.model import Guarantee, Token


@dataclass(frozen=True, slots=True)
class Delivery:
    """One batch on its way to one sink."""

    token: Token
    frame: DataFrame
    """May be read several times: what is expensive about it is persisted."""
    schema: StructType
    after: Token | None = None
    """The batch the pipeline remembers as the last one this sink took, if it does."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a sink says once a batch is durably its own."""

    rows: int | None
    """Rows it took, if it knows."""
    repeated: bool = False
    """It had taken this token before and did nothing."""


class Sink(ABC):
    """A destination. One thread uses it at a time.

    Whatever goes wrong is raised as `SinkUnavailable` (worth trying again: the server is down,
    the disk is full, a login is wrong that somebody may set right meanwhile) or `SinkRefused` (it
    would refuse these rows for ever: a column it does not have, a value it cannot hold).
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """`exactly_once` if a token that comes again changes nothing, else `at_least_once`."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Where the rows go, without secrets, for people: `parquet files in lake/orders`."""

    @property
    @abstractmethod
    def takes_back(self) -> str:
        """One sentence on what a roll-back does to rows already delivered."""

    def check(self) -> None:  # noqa: B027 - most sinks have nothing to look at
        """See, without writing, that the sink can be used; raises as `deliver` would."""

    @abstractmethod
    def deliver(self, delivery: Delivery) -> Receipt:
        """Take a batch durably: all of it, and only if its token follows the last one taken.

        An exactly-once sink keeps the last token in the same transaction as the rows. It answers
        a token it has with `repeated`, and refuses (`SinkRefused`) one that lies before it, which
        is a process that was overtaken, and one of the same generation and epoch that names
        another batch, which is another ledger. `refusals.repeated` decides for all of them.
        """

    def roll_back(self, to: Token) -> str:
        """Forget every batch after epoch `to.epoch`, as far as possible, and say what was done.

        From then on `to` is the last token: it is of a newer generation than all before it, so
        epochs after it are new again. Doing it twice changes nothing.
        """
        del to
        return self.takes_back

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Let go of connections; closing twice is harmless."""
