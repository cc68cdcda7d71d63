"""The pages say what is true: their examples run, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.config import load_config
from holdfast.pipelines.doctor import CHECKS

ROOT = Path(__file__).parents[2]
STREAM_GUIDE = ROOT / "docs" / "guides" / "stream.md"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced examples of one language on a page."""
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


def typed(page: Path, *, about: str = "") -> Iterator[str]:
    """What a page tells a user to type, line by line; `about` a pipeline, only its blocks."""
    for block in blocks(page, "console"):
        if about in block:
            yield from (line[2:] for line in block.splitlines() if line.startswith("$ "))


def commands(page: Path) -> Iterator[list[str]]:
    """The `holdfast` commands a page tells a user to type."""
    for line in typed(page):
        if line.startswith("holdfast "):
            yield shlex.split(line)[1:]


def type_line(line: str) -> str:
    """Type a line and answer yes to its question; what it said."""
    if not line.startswith("holdfast "):
        return subprocess.run(line, shell=True, check=True, text=True, capture_output=True).stdout
    words = shlex.split(line)[1:]
    answered = [*words, "--yes"] if {"rewind", "rollback"} & set(words) else words
    result = CliRunner().invoke(app, answered, catch_exceptions=False)
    assert result.exit_code == 0, (words, result.output)
    return result.output


def run_python(page: Path, *replacements: tuple[str, str]) -> list[str]:
    """Run the Python of a page as one program; the lines that its comments promise."""
    names: dict[str, object] = {}
    promised = []
    for text in blocks(page, "python"):
        promised += re.findall(r"print\(.*\) *# (.+)$", text, re.MULTILINE)
        exec(compile(_replaced(text, replacements), page.name, "exec"), names)
    return promised


def _replaced(text: str, replacements: Iterable[tuple[str, str]]) -> str:
    for old, new in replacements:
        text = text.replace(old, new)
    return text


def assert_said(promised: list[str], output: str) -> None:
    """Every promise was kept, each after the one before it."""
    said = iter(output.splitlines())
    for line in promised:
        # Asking an iterator consumes it.
        assert line in said, f"{line} was not said, or not in its place"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A directory with the shop that the README's example copies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders.csv").write_text(
        "id,status,updated_at\n1,new,2025-03-15T10:00:00Z\n2,paid,2025-03-15T15:00:00Z\n"
    )
    (tmp_path / "shop" / "customers.csv").write_text(
        "id,name,updated_at\n1,Ada,2025-03-15T10:00:00Z\n"
    )
    (tmp_path / "holdfast.toml").write_text(blocks(ROOT / "README.md", "toml")[0])
    add_events(tmp_path)
    return tmp_path


@pytest.fixture
def payments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A directory with the stream of the guide and its first three events."""
    monkeypatch.chdir(tmp_path)
    add_events(tmp_path)
    (tmp_path / "holdfast.toml").write_text(blocks(STREAM_GUIDE, "toml")[0])
    return tmp_path


def add_events(place: Path) -> None:
    """Let the events of the guide to streams arrive, by its own commands."""
    for line in typed(STREAM_GUIDE):
        if not line.startswith("holdfast "):
            subprocess.run(line, shell=True, check=True, cwd=place)


def lake(spark: SparkSession, place: Path) -> list[int]:
    """The payments that a plain reader finds in the lake."""
    return sorted(row.id for row in spark.read.parquet(str(place / "lake/payments")).collect())


def test_readme_commands_run(shop: Path) -> None:
    """Typing the README's commands in their order works."""
    for words in commands(ROOT / "README.md"):
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
    assert (shop / "lake" / "bronze" / "orders").is_dir()


def test_readme_python_runs(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The README's Python copies the tables, reads them back and delivers a stream."""
    # The JVM was started elsewhere and resolves relative paths from there.
    promised = run_python(ROOT / "README.md", ('parquet("lake/', f'parquet("{shop}/lake/'))
    said = capsys.readouterr().out
    assert "bronze.orders copied 2" in said
    assert "_batch_id" in said
    assert promised
    assert_said(promised, said)


def test_python_reference_runs(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python reference's examples plan, apply and show, and run a stream and go back."""
    page = ROOT / "docs" / "reference" / "python.md"
    (shop / "payments.toml").write_text(blocks(page, "toml")[0])
    promised = run_python(page)
    said = capsys.readouterr().out
    assert "bronze.orders copy first_run 2" in said
    assert "2025-03-15T15:00:00.000000Z" in said
    assert len(promised) >= 5
    assert_said(promised, said)


def test_state_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The examples of the guide to keyed state print what their comments say."""
    monkeypatch.chdir(tmp_path)
    promised = run_python(ROOT / "docs" / "guides" / "state.md")
    assert len(promised) >= 10
    assert_said(promised, capsys.readouterr().out)


def test_stream_guide_commands_run(payments: Path, spark: SparkSession) -> None:
    """Typing the commands of the guide to streams, in their order, works, and loses nothing."""
    said = [type_line(line) for line in typed(STREAM_GUIDE) if line.startswith("holdfast ")]
    assert any("rolled back from version 3 to 1" in text for text in said)
    assert lake(spark, payments) == [1, 2, 3]


def test_stream_guide_python_runs(
    payments: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python of the guide to streams prints what its comments say, and goes back."""
    promised = run_python(STREAM_GUIDE, ('json("events")', f'json("{payments}/events")'))
    said = capsys.readouterr().out
    assert len(promised) >= 5
    assert_said(promised, said)
    assert "epoch 0: chai point 4700" in said
    assert lake(spark, payments) == [1, 2, 3]


def test_going_back_runs(shop: Path) -> None:
    """The commands of the page on operating go back and forward again."""
    assert CliRunner().invoke(app, ["run"]).exit_code == 0
    for line in typed(ROOT / "docs" / "operating.md", about="bronze"):
        type_line(line)


def test_recovery_of_a_stream_runs(payments: Path, spark: SparkSession) -> None:
    """The drills of the page on operating lose and double nothing, events in between included."""
    type_line("holdfast run payments --once")
    for number, line in enumerate(typed(ROOT / "docs" / "operating.md", about="payments")):
        (payments / "events" / f"drill-{number}.json").write_text(
            f'{{"id":{number + 4},"paise":1}}'
        )
        type_line(line)
    type_line("holdfast run payments --once")
    assert lake(spark, payments) == list(range(1, number + 5))
    assert number > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link on a page names a file that exists, and a heading that is in it."""
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if link.startswith("http"):
            continue
        name, _, heading = link.partition("#")
        place = page.parent / name if name else page
        assert place.exists(), f"{page.name}: {link}"
        assert not heading or heading in headings(place), f"{page.name}: {link}"


def headings(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_configurations_load(page: Path, tmp_path: Path) -> None:
    """Every configuration shown on a page is a right one."""
    for number, text in enumerate(blocks(page, "toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        load_config(path, environ={})


def test_every_command_is_in_the_reference() -> None:
    """The command line's reference leaves out no command and no doctor's check."""
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__ if command.callback else "")
        assert f"`{name}" in page, name
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            name = command.name or (command.callback.__name__ if command.callback else "")
            assert f"`{group.typer_instance.info.name} {name}" in page, name
    for check in CHECKS:
        assert f"`{check}`" in page, check
