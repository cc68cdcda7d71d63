"""The pages say what is true: their examples run, their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.config import load_config
from holdfast.pipelines.doctor import CHECKS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced examples of one language on a page."""
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


def commands(page: Path) -> Iterator[list[str]]:
    """The `holdfast` commands a page tells a user to type."""
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ holdfast "):
                yield [word.strip("'") for word in line.split()[2:]]


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
    return tmp_path


def test_readme_commands_run(shop: Path) -> None:
    """Typing the README's commands in their order works."""
    for words in commands(ROOT / "README.md"):
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
    assert (shop / "lake" / "bronze" / "orders").is_dir()


def test_readme_python_runs(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The README's Python copies the tables and reads them back."""
    for text in blocks(ROOT / "README.md", "python"):
        # The JVM was started elsewhere and resolves relative paths from there.
        exec(compile(text.replace('"lake/', f'"{shop}/lake/'), "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "bronze.orders copied 2" in said
    assert "_batch_id" in said


def test_python_reference_runs(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python reference's example plans, applies and shows."""
    names: dict[str, object] = {}
    for text in blocks(ROOT / "docs" / "reference" / "python.md", "python"):
        exec(compile(text, "python.md", "exec"), names)
    said = capsys.readouterr().out
    assert "bronze.orders copy first_run 2" in said
    assert "2025-03-15T15:00:00.000000Z" in said


def test_state_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The examples of the guide to keyed state print what their comments say."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    promised = []
    for text in blocks(ROOT / "docs" / "guides" / "state.md", "python"):
        exec(compile(text, "state.md", "exec"), names)
        promised += re.findall(r"print\(.*\) *# (.+)$", text, re.MULTILINE)
    said = iter(capsys.readouterr().out.splitlines())
    assert len(promised) >= 10
    for line in promised:
        # Asking an iterator consumes it: each promise must come after the one before.
        assert line in said, f"{line} was not said, or not in its place"


def test_going_back_runs(shop: Path) -> None:
    """The commands of the page on operating go back and forward again."""
    assert CliRunner().invoke(app, ["run"]).exit_code == 0
    for words in commands(ROOT / "docs" / "operating.md"):
        answered = [*words, "--yes"] if "rewind" in words else words
        result = CliRunner().invoke(app, answered, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link on a page names a file that exists."""
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    for link in links:
        if not link.startswith("http"):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


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
            assert f"`state {name}" in page, name
    for check in CHECKS:
        assert f"`{check}`" in page, check
