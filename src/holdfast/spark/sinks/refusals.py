"""What every sink makes of a token that does not follow the last one it took."""

from __future__ import annotations

from holdfast.errors import SinkRefused
from holdfast.model import Token


def repeated(sink: str, token: Token, last: Token | None, *, hint: str = "") -> bool:
    """Whether a sink has taken this batch already; raises if it must not take it.

    False is a batch that is new. `hint` is what else may help in this sink if it comes too late.
    """
    if token.follows(last):
        return False
    if token.repeats(last):
        return True
    assert last is not None, "every token follows none"
    if last.follows(token):
        raise overtaken(sink, token, last, hint=hint)
    raise SinkRefused(
        f"Sink {sink} has other rows under {_named(token)} than this run: the ledger seems to be "
        "an older copy, or two ledgers drive the same sink.",
        hint=_after_a_restore(token.pipeline),
    )


def overtaken(sink: str, token: Token, last: Token | int, *, hint: str = "") -> SinkRefused:
    """Refuse a token that lies before the last one, or before a generation that has begun."""
    since = f"begun generation {last}" if isinstance(last, int) else f"taken {_named(last)}"
    hints = [
        "A newer run has taken over this pipeline; this one must stop.",
        _after_a_restore(token.pipeline),
        hint,
    ]
    return SinkRefused(
        f"Sink {sink}: {_named(token)} comes too late: the sink has {since} meanwhile.",
        hint=" ".join(filter(None, hints)),
    )


def _named(token: Token) -> str:
    return f"epoch {token.epoch} of generation {token.generation}"


def _after_a_restore(pipeline: str) -> str:
    return (
        f"If the ledger was restored from an older copy: holdfast checkpoint repair {pipeline}, "
        f"then holdfast checkpoint rollback {pipeline} latest, and run again."
    )
