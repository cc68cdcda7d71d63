"""Files in a directory: several processes, kills, full disks, and what users get wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast import failpoints
from holdfast.errors import ObjectError, UsageError
from holdfast.failpoints import KILL_AT
from holdfast.objects import STEPS, LocalObjects, open_objects

from .child import content

REACHED = {
    "put": set(STEPS) - {"objects.link"},
    "put_if_absent": set(STEPS) - {"objects.rename"},
}


@contextmanager
def child(task: str, *arguments: object, kill_at: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a task of `child.py` in a process of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("child.py")), task, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, KILL_AT: kill_at},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_processes_race_for_keys(tmp_path: Path) -> None:
    """Of several processes exactly one wins each key, and its file is the one that is there."""
    keys = 200
    won: dict[int, str] = {}
    with ExitStack() as stack:
        racers = {n: stack.enter_context(child("race", tmp_path, n, keys)) for n in ("a", "b", "c")}
        for racer in racers.values():
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers.values():
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        for name, racer in racers.items():
            assert racer.stdout is not None
            for number in map(int, racer.stdout.read().split()):
                assert number not in won
                won[number] = name
    assert sorted(won) == list(range(keys))
    assert len(set(won.values())) > 1, "no race took place"
    for number, name in won.items():
        assert (tmp_path / f"race/{number:04d}").read_bytes() == content(name, number)
    assert len(list((tmp_path / "race").iterdir())) == keys, "a temporary file was left"


@pytest.mark.parametrize("how", ["put", "put_if_absent"])
def test_the_steps_that_are_reached(tmp_path: Path, how: str) -> None:
    """The steps below are exactly those that writing and removing pass."""
    steps: set[str] = set()
    objects = LocalObjects(tmp_path)
    failpoints.observe(lambda step, _: steps.add(step))
    try:
        getattr(objects, how)("files/a", b"rows")
        objects.delete("files/a")
    finally:
        failpoints.observe(None)
    assert steps == REACHED[how]


@pytest.mark.parametrize(
    ("how", "step"), [(how, s) for how in REACHED for s in sorted(REACHED[how])]
)
def test_killed_at_a_step(tmp_path: Path, how: str, step: str) -> None:
    """Killed at a step, a writer leaves whole files, and every one that it said."""
    for second in ("", ":files/0001"):
        place = tmp_path / f"at{second.replace('/', '-')}"
        armed = step if step == "objects.remove" else step + second
        with child("write", place, how, kill_at=armed) as process:
            assert process.stdout is not None
            said = process.stdout.read().split()
            assert process.wait() == -signal.SIGKILL
        objects = LocalObjects(place)
        found = {info.key: objects.get(info.key) for info in objects.list()}
        if step == "objects.remove":
            assert said == ["0", "1", "2"]
            assert sorted(found) == ["files/0001", "files/0002"]
            continue
        assert {f"files/{int(n):04d}" for n in said} <= set(found)
        assert len(found) - len(said) in (0, 1)
        for key, value in found.items():
            assert value == content(how, int(key[-4:]))
        # What was left unfinished is swept away, and the work can be done again.
        objects.sweep("", before=datetime.now(UTC) + timedelta(minutes=1))
        left = [path for path in place.rglob("*") if path.is_file()]
        assert len(left) == len(found)
        objects.put("files/0001", content(how, 1))
        assert objects.get("files/0001") == content(how, 1)


def test_sweeping_leaves_the_living_alone(tmp_path: Path) -> None:
    """A file that is being written just now is not swept away."""
    objects = LocalObjects(tmp_path)

    def observe(step: str, key: str) -> None:
        if step == "objects.write":
            assert objects.sweep("", before=datetime.now(UTC) - timedelta(hours=1)) == 0

    failpoints.observe(observe)
    try:
        objects.put("files/a", b"rows")
    finally:
        failpoints.observe(None)
    assert objects.get("files/a") == b"rows"


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """An error in the middle leaves neither the file nor an unfinished one."""
    objects = LocalObjects(tmp_path)

    def observe(step: str, key: str) -> None:
        if step == "objects.sync":
            raise KeyboardInterrupt

    failpoints.observe(observe)
    try:
        with pytest.raises(KeyboardInterrupt):
            objects.put_if_absent("files/a", b"rows")
    finally:
        failpoints.observe(None)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_full_disk(tmp_path: Path) -> None:
    """Without space the error names the file, and nothing half-written is left."""
    LocalObjects(tmp_path).put("files/small", b"rows")
    with child("fill", tmp_path, 50_000) as process:
        said, _ = process.communicate()
        assert process.returncode == 0
    expected = f"The checkpoint file {tmp_path}/files/large could not be written: File too large."
    assert said.splitlines() == [expected] * 2
    assert {path.name for path in (tmp_path / "files").iterdir()} == {"small"}


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    """A location that is a file is refused with what to do."""
    (tmp_path / "file").write_bytes(b"")
    objects = LocalObjects(tmp_path / "file")
    with pytest.raises(ObjectError, match="could not be written") as caught:
        objects.put("files/a", b"rows")
    assert "parents are directories" in caught.value.hint
    with pytest.raises(ObjectError):
        objects.put_if_absent("files/a", b"rows")


def test_names_that_are_too_long(tmp_path: Path) -> None:
    """A name that the file system cannot hold is an error about that file."""
    with pytest.raises(ObjectError, match="name too long"):
        LocalObjects(tmp_path).put("x" * 300, b"rows")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    """Without the right to write, the error says so."""
    objects = LocalObjects(tmp_path)
    tmp_path.chmod(0o500)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)  # root may write everywhere
    try:
        with pytest.raises(ObjectError, match="Permission denied") as caught:
            objects.put("files/a", b"rows")
    finally:
        os.seteuid(before)
        tmp_path.chmod(0o700)
    assert "Let this user" in caught.value.hint


def test_foreign_files(tmp_path: Path) -> None:
    """Hidden files of others are neither listed nor swept."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"")
    (tmp_path / ".keep").write_bytes(b"")
    objects = LocalObjects(tmp_path)
    objects.put("a", b"")
    assert [info.key for info in objects.list()] == ["a"]
    assert objects.sweep("", before=datetime.now(UTC) + timedelta(minutes=1)) == 0
    assert (tmp_path / ".keep").exists()


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "FILE://localhost{}"])
def test_locations(tmp_path: Path, form: str) -> None:
    """A directory is named by its path or a `file:` URI."""
    open_objects(form.format(tmp_path / "a")).put("key", b"rows")
    assert (tmp_path / "a" / "key").read_bytes() == b"rows"


def test_a_location_with_quoted_characters(tmp_path: Path) -> None:
    """A URI may quote characters; a path is taken as it is."""
    open_objects(f"file://{tmp_path}/my%20files").put("key", b"rows")
    open_objects(f"{tmp_path}/50%20").put("key", b"rows")
    assert {path.name for path in tmp_path.iterdir()} == {"my files", "50%20"}


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("s3://bucket/prefix", "only local directories are available in this version"),
        ("gs://bucket", "only local directories are available in this version"),
        ("az://user:secret@account/c", "only local directories are available in this version"),
        ("file://elsewhere/path", "does not name a directory of this machine"),
        ("file:relative", "does not name a directory of this machine"),
        ("", "is not a checkpoint location"),
    ],
)
def test_locations_that_are_refused(location: str, said: str) -> None:
    """A location that cannot be used is refused before anything is written."""
    with pytest.raises(UsageError, match=said) as caught:
        open_objects(location)
    assert caught.value.hint
    assert "secret" not in str(caught.value)
