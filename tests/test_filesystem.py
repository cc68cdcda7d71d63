"""File operations of a target: the same contract on a local disk and through Hadoop."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.filesystem import Files, HadoopFiles, LocalFiles

pytestmark = pytest.mark.spark


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A directory, as Spark writes it."""
    return tmp_path.as_uri()


@pytest.fixture(params=["local", "hadoop"])
def files(request: pytest.FixtureRequest, spark: SparkSession, root: str) -> Files:
    """One implementation after the other."""
    return LocalFiles() if request.param == "local" else HadoopFiles(spark, root)


def test_a_text_is_there_whole_and_can_be_replaced(files: Files, root: str, tmp_path: Path) -> None:
    """What is written is what another program reads, and nothing is left beside it."""
    files.write_text(f"{root}/a/x", "one ü")
    files.write_text(f"{root}/a/x", "two ü")

    assert files.read_text(f"{root}/a/x") == "two ü"
    assert (tmp_path / "a" / "x").read_text(encoding="utf-8") == "two ü"
    assert [n for n in files.names(f"{root}/a") if not n.endswith(".crc")] == ["x"]


def test_what_is_not_there(files: Files, root: str) -> None:
    """A place without a file is empty, and removing it again is no mistake."""
    assert not files.exists(f"{root}/no")
    assert files.names(f"{root}/no") == []
    assert files.read_text(f"{root}/no") is None
    files.delete(f"{root}/no")


def test_directories_change_places(files: Files, root: str, tmp_path: Path) -> None:
    """After an exchange each directory holds what the other did, and nothing lies aside."""
    files.write_text(f"{root}/a/old", "old")
    files.write_text(f"{root}/b/new", "new")

    files.exchange(f"{root}/a", f"{root}/b")

    assert (tmp_path / "a" / "new").read_text() == "new"
    assert (tmp_path / "b" / "old").read_text() == "old"
    assert files.names(root) == ["a", "b"]


def test_a_directory_moves_and_is_removed(files: Files, root: str, tmp_path: Path) -> None:
    """A rename makes the parents it needs; a deletion takes everything below."""
    files.write_text(f"{root}/a/x", "x")
    files.make_durable(f"{root}/a")

    files.rename(f"{root}/a", f"{root}/b/c/d")

    assert (tmp_path / "b" / "c" / "d" / "x").read_text() == "x"
    files.delete(f"{root}/b")
    assert not (tmp_path / "b").exists()


def test_a_second_directory_with_the_same_files(files: Files, root: str, tmp_path: Path) -> None:
    """Removing the first leaves the second whole."""
    files.write_text(f"{root}/a/x", "x")

    files.link_tree(f"{root}/a", f"{root}/b")
    files.delete(f"{root}/a")

    assert (tmp_path / "b" / "x").read_text() == "x"
