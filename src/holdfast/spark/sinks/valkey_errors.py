"""What a Valkey client raises, as an error that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from holdfast.errors import SinkError, SinkRefused, SinkUnavailable

_PASSING: Final = (
    *("BUSY", "LOADING", "MASTERDOWN", "MISCONF"),
    *("NOREPLICAS", "OOM", "READONLY", "TRYAGAIN", "CLUSTERDOWN"),
)


@contextmanager
def explained(sink: str, url: str) -> Iterator[None]:
    """Say in a sink's words what the client raises inside."""
    try:
        yield
    except OSError as error:
        raise _unavailable(sink, url, str(error)) from error
    except Exception as error:
        # Not by its class: the client is imported only where there is one.
        if not type(error).__module__.startswith("valkey."):
            raise
        raise _explain(sink, url, error) from error


def place(url: str) -> str:
    """A server's address without user and password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    try:
        port = parts.port
    except ValueError:
        port = None
    return f"{parts.hostname or 'localhost'}:{port or 6379}{parts.path.rstrip('/')}"


def _explain(sink: str, url: str, error: Exception) -> SinkError:
    from valkey import exceptions as of_valkey

    # What follows names a line of a script, which is of no use to a user.
    told = str(error).split(" script: ")[0]
    if isinstance(error, of_valkey.AuthenticationError | of_valkey.NoPermissionError):
        return SinkRefused(
            f"{sink}: {place(url)} refused the login, or does not let this user do what is "
            f"needed: {told}",
            hint="Check user and password in `url`. The user needs EVAL and EVALSHA, and what the "
            "scripts call: GET, SET, RPUSH, LLEN, LRANGE, EXPIRE, TYPE, UNLINK, and HSET and HDEL "
            "or XADD, XTRIM, XREVRANGE and XDEL.",
        )
    lost = isinstance(error, of_valkey.ConnectionError | of_valkey.TimeoutError)
    # The client takes the first word away from errors that it has a class for.
    passing = of_valkey.ReadOnlyError | of_valkey.OutOfMemoryError | of_valkey.ClusterDownError
    if lost or isinstance(error, passing) or told.startswith(_PASSING):
        return _unavailable(sink, url, told)
    hint = "Check the `key` and `mode` of this sink."
    if told.startswith(("CROSSSLOT", "MOVED")):
        hint = "The sink needs all its keys on one server: it does not write to a cluster."
    return SinkRefused(f"{sink}: Valkey refused the batch: {told}", hint=hint)


def _unavailable(sink: str, url: str, told: str) -> SinkUnavailable:
    return SinkUnavailable(
        f"{sink}: Valkey at {place(url)} cannot take the batch now: {told}",
        hint="Check that it runs, is no replica, and has memory and disk left.",
    )
