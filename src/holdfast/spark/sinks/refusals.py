"""What every sink makes of a token that does not follow the last one it took."""

from __future__ import annotations

from holdfast.errors import SinkRefused
from holdfast.model import Token


def repeated(
    sink: str,
    token: Token,
    last: Token | None,
    *,
    after: Token | None = None,
    hint: str = "",
) -> bool:
    """Whether a sink has taken this batch already; raises if it must not take it.

    False is a batch that is new: of a later epoch, and of no older generation. Only a roll-back
    that the sink was told of lets epochs count again. A sink that has nothing, although the
    pipeline remembers that it took the batch `after`, has lost its rows. `hint` is what else may
    help in this sink if the batch comes too late.
    """
    if last is None and after is not None:
        raise SinkRefused(
            f"Sink {sink} has nothing, although it took batches up to {_named(after)}: it was "
            "emptied, or it is another one.",
            hint="Bring its rows back. To go on without them, give the sink another name: then it "
            "starts from here.",
        )
    if last is None:
        return False
    if token.repeats(last):
        return True
    if token.generation >= last.generation and token.epoch > last.epoch:
        return False
    if last.follows(token):
        raise overtaken(sink, token, last, hint=hint)
    older_copy = "the ledger seems to be an older copy, or two ledgers drive the same sink."
    if (token.generation, token.epoch) == (last.generation, last.epoch):
        said = f"has other rows under {_named(token)} than this run: {older_copy}"
    else:
        said = f"has got to {_named(last)}, and {_named(token)} lies before that: {older_copy}"
    raise SinkRefused(f"Sink {sink} {said}", hint=_after_a_restore(token.pipeline))


def rolled_back(sink: str, to: Token, last: Token | None, *, hint: str = "") -> bool:
    """Whether a sink has heard of this roll-back already; raises if it has gone on since."""
    if last is None or to.generation > last.generation:
        return False
    if last.follows(to):
        raise overtaken(sink, to, last, hint=hint)
    return True


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
