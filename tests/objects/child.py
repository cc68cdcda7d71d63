"""What the other process of a test does: `python child.py <task> <arguments>`."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from holdfast.errors import DiskFull, ObjectExists
from holdfast.objects import LocalObjects


def content(name: str, number: int) -> bytes:
    """Return what a process writes under the number of a key."""
    return f"{name} {number} ".encode() * 500


def race(directory: str, name: str, keys: str) -> None:
    """Write one key after the other when told to start, and say those it won."""
    objects = LocalObjects(directory)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(keys)):
        try:
            objects.put_if_absent(f"race/{number:04d}", content(name, number))
        except ObjectExists:
            continue
        print(number, flush=True)


def write(directory: str, how: str) -> None:
    """Write and remove files, and say each that is durable, until killed."""
    objects = LocalObjects(directory)
    put = {"put": objects.put, "put_if_absent": objects.put_if_absent}[how]
    start = sum(1 for _ in objects.list())
    for number in range(start, start + 3):
        put(f"files/{number:04d}", content(how, number))
        print(number, flush=True)
    objects.delete("files/0000")
    print("removed", flush=True)


def fill(directory: str, limit_bytes: str) -> None:
    """Write a file that may not grow beyond a limit, and say the error."""
    objects = LocalObjects(directory)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), int(limit_bytes)))
    (Path(directory) / "here").write_bytes(b"0" * 10)
    for put in (objects.put, objects.put_if_absent):
        try:
            put("files/large", b"0" * 100_000)
        except DiskFull as error:
            print(error.message, flush=True)


TASKS = {task.__name__: task for task in (race, write, fill)}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
