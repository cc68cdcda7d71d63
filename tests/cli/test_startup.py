"""Commands that only look at the ledger or the configuration start at once, without Spark."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from .harness import HOLDFAST, Shop


def start(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that reports every module it imports on standard error."""
    return subprocess.run(
        [sys.executable, "-X", "importtime", HOLDFAST, *words],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("validate",),
        ("status",),
        ("state", "show"),
        ("state", "get", "shop.orders"),
        ("state", "history", "shop.orders"),
        ("state", "rewind", "shop.orders", "--version", "1", "--yes"),
        ("doctor", "--check", "ledger"),
    ],
    ids=" ".join,
)
def test_spark_is_not_even_imported(copied_shop: Shop, words: tuple[str, ...]) -> None:
    """Neither pyspark nor its bridge to Java is loaded, so no Spark can have been started."""
    done = start(copied_shop.root, *words)

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0, done.stdout
    assert "holdfast.cli.app" in imported
    assert [name for name in imported if name.split(".")[0] in ("pyspark", "py4j")] == []


def test_help_is_fast(tmp_path: Path) -> None:
    """`--help` costs well under a second of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([HOLDFAST, "--help"], cwd=tmp_path, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 1.0


def test_help_loads_little(tmp_path: Path) -> None:
    """`--help` needs neither the configuration's rules nor the ledger's database."""
    done = start(tmp_path, "--help")

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"pydantic", "sqlite3", "pyarrow", "deltalake"}
