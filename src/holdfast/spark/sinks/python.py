"""A function of the user's own as a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from pyspark.sql import DataFrame

from holdfast.config.sinks import PythonSink as PythonSinkConfig
from holdfast.errors import Interrupted, SinkError, SinkRefused, SinkUnavailable
from holdfast.model import Guarantee, Token
from holdfast.spark.functions import find_function, origin
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.refusals import repeated

SinkFunction = Callable[[DataFrame, Token], object]
"""Takes the rows and the token durably before it returns; what it returns is ignored, unless it
is a whole number: the rows it took."""


class PythonSink(Sink):
    """Calls `function(frame, token)` for every batch.

    With `idempotent` the function promises that a token that comes again changes nothing; which
    tokens it has taken is then its own to remember: the whole token, `token.batch` included, for
    a ledger that was restored from an older copy brings other rows under the same generation and
    epoch. If the function has an attribute `roll_back`, it is called with the token of a
    roll-back: `send.roll_back = forget`.

    Whatever the function raises is tried again, for it may pass; `SinkRefused` and
    `SinkUnavailable` mean what they always mean.
    """

    def __init__(
        self, name: str, function: SinkFunction, *, place: str = "", idempotent: bool = False
    ) -> None:
        super().__init__(name)
        self._function = function
        self._place = place or _named(function)
        self._idempotent = idempotent
        self._last: Token | None = None

    @classmethod
    def configured(cls, config: PythonSinkConfig) -> Self:
        """Find the function that the configuration names."""
        function = find_function(
            config.function,
            owner=f"the sink {config.name}",
            takes="a DataFrame and a Token",
            error=SinkRefused,
        )
        return cls(config.name, function, place=config.function, idempotent=config.idempotent)

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once" if self._idempotent else "at_least_once"

    @property
    def description(self) -> str:
        return f"the function {self._place}"

    @property
    def takes_back(self) -> str:
        if self._roll_back is None:
            return f"{self._place} has no roll_back: what it was given stays wherever it put it."
        return f"{self._place}.roll_back takes back what the function was given."

    def deliver(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        # Whether it has taken this one is the function's to know: it is called again.
        repeated(self.name, token, self._last)
        took = self._call(self._function, delivery.frame, token)
        self._last = token
        counted = isinstance(took, int) and not isinstance(took, bool)
        return Receipt(rows=took if counted else None)

    def roll_back(self, to: Token) -> str:
        if self._roll_back is not None:
            self._call(self._roll_back, to)
        self._last = to
        return self.takes_back

    @property
    def _roll_back(self) -> Callable[[Token], object] | None:
        return getattr(self._function, "roll_back", None)

    def _call(self, function: Callable[..., object], *arguments: object) -> Any:
        try:
            return function(*arguments)
        except (SinkError, Interrupted):
            raise
        except (Exception, SystemExit) as error:
            raise SinkUnavailable(
                f"{self.name}: {self._place} raised {type(error).__name__}: {_told(error)} "
                f"({origin(error, ignoring=__file__)})",
                hint="It is tried again. Raise holdfast.errors.SinkRefused for what will never "
                "work.",
            ) from error


def _named(function: SinkFunction) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _told(error: BaseException) -> str:
    """The first line of a message: Spark's go on with a stack trace."""
    return next(iter(str(error).strip().splitlines()), "no message")[:400]
