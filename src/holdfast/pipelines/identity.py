"""Ids, and who is acting."""

from __future__ import annotations

import getpass
import os
import socket

from uuid_utils import uuid7


def new_id() -> str:
    """A new id; ids sort by the time they were made."""
    return str(uuid7())


def current_actor() -> str:
    """Who is doing this, for the history: `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"
