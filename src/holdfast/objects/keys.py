"""Which keys a file may have."""

from __future__ import annotations

from holdfast.errors import ObjectError


def check_key(key: str) -> str:
    """Return the key, or refuse one that is no plain relative path.

    A part that starts with a dot is refused because those are the names of unfinished files,
    and because `..` would lead out of the location.
    """
    reason = _problem(key)
    if reason:
        raise ObjectError(
            f"{key!r} is not a key of a checkpoint location: {reason}.",
            hint="A key is a relative path such as payments/manifests/000000000001.json.",
        )
    return key


def _problem(key: str) -> str:
    if not key:
        return "it is empty"
    if key.startswith("/"):
        return "it is an absolute path"
    for part in key.split("/"):
        if not part:
            return "a part of it is empty"
        if part.startswith("."):
            return f"its part {part!r} starts with a dot"
    if "\0" in key:
        return "it has a NUL character in it"
    try:
        key.encode()
    except UnicodeEncodeError:
        return "it cannot be written as UTF-8"
    return ""
