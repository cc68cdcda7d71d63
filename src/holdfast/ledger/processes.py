"""Which process is meant, in words a user can act on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_COMMAND_LIMIT = 200


def this_process() -> str:
    """Name the running process: `process 4711 (python job.py)`."""
    return describe(os.getpid(), command(os.getpid()) or " ".join(sys.argv))


def describe(pid: int, command_line: str = "") -> str:
    """Name a process by its pid and, where it is known, its command line."""
    command_line = command_line or command(pid)
    return f"process {pid} ({command_line})" if command_line else f"process {pid}"


def command(pid: int) -> str:
    """Return the command line of a process, or nothing where the system does not tell."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    words = raw.decode(errors="replace").replace("\0", " ").split()
    text = " ".join(words)
    return text if len(text) <= _COMMAND_LIMIT else f"{text[:_COMMAND_LIMIT]}..."


def holder_of_lock(inode: int, *, offset: int | None = None) -> int | None:
    """Return the pid of another process with a write lock on a file, if the system tells.

    The table of locks is read instead of asking with `F_GETLK`: that needs a descriptor of the
    file, and closing any descriptor of a file drops every POSIX lock this process has on it.
    """
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 1: POSIX  ADVISORY  WRITE 4711 fe:00:2147526 120 120
        fields = line.split()
        if len(fields) != 8 or fields[3] != "WRITE":
            continue
        pid, first, last = int(fields[4]), int(fields[6]), fields[7]
        covers = offset is None or (first <= offset and (last == "EOF" or offset <= int(last)))
        if fields[5].rpartition(":")[2] == str(inode) and covers and pid not in (0, os.getpid()):
            return pid
    return None
