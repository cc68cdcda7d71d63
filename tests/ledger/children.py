"""Starting, listening to and killing the other process of a test."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO

_CHILD = Path(__file__).with_name("child.py")


@contextmanager
def child(task: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a task of `child.py` in a process of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, str(_CHILD), task, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[bytes]) -> str:
    """Wait for the next line that the child says."""
    return stream(process.stdout).readline().decode().strip()


def go_on(process: subprocess.Popen[bytes]) -> None:
    """Let a child that waits go on."""
    waiting = stream(process.stdin)
    waiting.write(b"\n")
    waiting.flush()


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> list[str]:
    """Listen to a child for a while, SIGKILL it, and return everything that it said."""
    output = stream(process.stdout)
    assert isinstance(output, BufferedReader)
    end = time.monotonic() + seconds
    heard = b""
    while (left := end - time.monotonic()) > 0:
        if select.select([output], [], [], left)[0]:
            heard += output.read1(65536)
    process.kill()
    heard += output.read()
    process.wait()
    # Only a whole line is an acknowledgement.
    return heard.decode().rpartition("\n")[0].split()


def stream(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe that the child was started with."""
    assert pipe is not None
    return pipe
