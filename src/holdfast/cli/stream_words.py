"""Which stream, and which checkpoint of it, the words of a command mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.checkpoint import Checkpoints
    from holdfast.config import Config

_REFERENCE: Final = re.compile(r"\d+|head|latest|[0-9a-f-]{6,}", re.IGNORECASE)

StreamArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PIPELINE", help="The stream pipeline; may be left out where there is only one."
    ),
]
ReferenceArgument = Annotated[
    str | None,
    typer.Argument(metavar="REF", help="A version, `latest`, or (the beginning of) an id."),
]
# A word that has to be there comes after one that may be left out, which a parser cannot know:
# so all of them may be missing as far as it can tell, and what is missing is said here.
NeededReference = Annotated[
    str | None,
    typer.Argument(metavar="REF", help="A version, `latest`, or (the beginning of) an id."),
]


def one_stream(config: Config, name: str | None) -> str:
    """The stream that was named, or the only one there is."""
    if name is not None:
        config.stream_named(name)
        return name
    streams = list(config.streams)
    if len(streams) == 1:
        return streams[0]
    if not streams:
        raise UsageError(
            "There is no stream pipeline.",
            hint=f"{', '.join(config.pipeline)}: copies tables. See: holdfast state show",
        )
    raise UsageError("Which stream pipeline?", hint=f"There are {', '.join(streams)}.")


def stream_and_reference(
    config: Config, name: str | None, reference: str | None
) -> tuple[str, str | None]:
    """The stream and, if there is one, the reference, of which the first may be left out."""
    meant = name is not None and _REFERENCE.fullmatch(name) is not None
    if name is not None and reference is None and meant and name not in config.pipeline:
        return one_stream(config, None), name
    return one_stream(config, name), reference


def stream_and_references(
    config: Config, words: tuple[str | None, ...], *, wanted: int, example: str
) -> tuple[str, tuple[str, ...]]:
    """The stream and exactly so many references, of which the stream may be left out."""
    given = tuple(word for word in words if word is not None)
    if len(given) == wanted and given[0] not in config.pipeline:
        return one_stream(config, None), given
    if len(given) == wanted + 1:
        return one_stream(config, given[0]), given[1:]
    raise UsageError(
        "Which checkpoint?" if wanted == 1 else f"Which {wanted} checkpoints?",
        hint=f"For example: {example}\nList them: holdfast checkpoint list",
    )


def refuse_lost_ledger(checkpoints: Checkpoints) -> None:
    """Not to say that there is no checkpoint where only the ledger does not know of any."""
    if checkpoints.head() is None:
        checkpoints.restore()
