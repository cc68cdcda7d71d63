"""What must not be shown or stored: passwords, tokens, keys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

_SECRET_WORDS: Final = (
    *("password", "passwd", "pwd", "passphrase", "token", "secret", "credential"),
    *("authorization", "cookie"),
)
# "key" alone is secret among a source's options (`fs.s3a.access.key`) but not in `primary_key`.
_SECRET_OPTION_WORDS: Final = (*_SECRET_WORDS, "key", "sas", "signature")
_OPTION_TABLES: Final = frozenset({"options", "conf"})
_SECRET_IN_VALUE: Final = re.compile(
    r"://[^/@\s]*:[^@\s]+@|https?://[^/@\s]+@|\bbearer\s|(?:password|passwd|pwd|token|secret|(?<!primary_)key|signature)\s*=",
    re.IGNORECASE,
)
_PREFIX: Final = "secret sha256:"
_DIGITS_KEPT: Final = 8


def is_secret(location: Sequence[str | int], value: object = None) -> bool:
    """Tell whether the value at a key looks like one that must not be shown."""
    names = [part.lower() for part in location if isinstance(part, str)]
    if "sinks" in names and _is_secret_of_a_sink(names[names.index("sinks") + 1 :]):
        return True
    options = [name for name in names if name in _OPTION_TABLES]
    words = _SECRET_OPTION_WORDS if options else _SECRET_WORDS
    suspects = names[names.index(options[0]) + 1 :] if options else names[-1:]
    if any(word in name for name in suspects for word in words):
        return True
    return isinstance(value, str) and secret_starts(value) is not None


def _is_secret_of_a_sink(names: Sequence[str]) -> bool:
    # A webhook is called by whoever knows its address: the whole of it may be the secret.
    return names[-1:] == ["url"] or "headers" in names[:-1]


def secret_starts(text: str) -> int | None:
    """Return where a text begins to give a secret away (`//user:password@host`), if it does."""
    match = _SECRET_IN_VALUE.search(text)
    return match.start() if match else None


def looks_secret(name: str) -> bool:
    """Tell whether a name, such as an environment variable's, promises a secret."""
    name = name.lower().replace("primary_key", "")
    return any(word in name for word in (*_SECRET_WORDS, "key"))


def redacted(value: str) -> str:
    """Return a stand-in that changes when the secret does and does not give it away.

    Eight digits tell two values apart but are too few to confirm a guess with certainty.
    """
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return _PREFIX + digest[:_DIGITS_KEPT]


def is_redacted(value: object) -> bool:
    """Tell whether a value is the stand-in of a secret."""
    return isinstance(value, str) and value.startswith(_PREFIX)
