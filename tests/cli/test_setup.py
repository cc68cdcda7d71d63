"""Getting a configuration file, getting it right, and mistyping a command."""

from __future__ import annotations

import pytest

from .harness import Commands, Shop


def test_init_writes_a_file_that_validates(cli: Commands) -> None:
    """The starter file is right as it is written, and `init` says what to do next."""
    made = cli("init")
    checked = cli("validate")

    assert (made.code, made.err) == (0, "")
    assert "Wrote holdfast.toml" in made.said
    assert "holdfast validate" in made.said
    assert (checked.code, checked.out) == (
        0,
        "holdfast.toml is right.\n  bronze: incremental, 2 tables\n",
    )


def test_init_keeps_an_existing_file(shop: Shop, cli: Commands) -> None:
    """A file that is there stays as it is unless `--force` is given."""
    before = shop.config.read_text()

    refused = cli("init")

    assert refused.code == 1
    assert "holdfast.toml already exists." in refused.err
    assert "--force" in refused.err
    assert shop.config.read_text() == before
    assert cli("init", "--force").code == 0
    assert shop.config.read_text() != before


def test_init_takes_a_path(cli: Commands) -> None:
    """The file can be written elsewhere, and `--config` reads it from there."""
    assert cli("init", "deep/down.toml").code == 0
    assert cli("--config", "deep/down.toml", "validate").code == 0


def test_init_and_validate_as_json(shop: Shop, cli: Commands) -> None:
    """Both answer with one stable document."""
    made = cli("init", "other.toml", "--output", "json")
    checked = cli("validate", "-o", "json")

    assert made.json == {"format": 1, "command": "init", "path": "other.toml"}
    assert checked.json == {
        "format": 1,
        "command": "validate",
        "path": "holdfast.toml",
        "pipelines": [{"name": "shop", "tables": ["orders"]}],
    }


def test_validate_lists_every_mistake(shop: Shop, cli: Commands) -> None:
    """Each mistake is shown with its full key and, where one is near, what was meant."""
    shop.configure(strategy='"merg"', watermrk='"updated_at"')

    refused = cli("validate")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("Error: holdfast.toml has 2 problems:\n")
    assert "pipeline.shop.watermrk: unknown key (did you mean watermark?)" in refused.err
    assert 'pipeline.shop.strategy: found "merg"' in refused.err


def test_mistakes_as_json(shop: Shop, cli: Commands) -> None:
    """A refused file is a document too, with the problems one by one."""
    shop.configure(strategy='"merg"')

    refused = cli("validate", "--output=json")

    assert refused.code == 1
    assert set(refused.json) == {"format", "command", "error", "message", "hint", "problems"}
    assert refused.json["command"] == "error"
    assert refused.json["error"] == "ConfigError"
    [problem] = refused.json["problems"]
    assert set(problem) == {"key", "message", "suggestion"}
    assert (problem["key"], problem["suggestion"]) == ("pipeline.shop.strategy", '"merge"')


@pytest.mark.parametrize(
    "words", [("validate",), ("run",), ("status",), ("state", "show"), ("plan",)]
)
def test_no_configuration_file(cli: Commands, words: tuple[str, ...]) -> None:
    """Without a file every command says so and how to get one."""
    refused = cli(*words)

    assert refused.code == 1
    assert "holdfast.toml" in refused.err
    assert "holdfast init" in refused.err
    assert "Traceback" not in refused.said


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("stauts",), "status"),
        (("state", "shwo"), "show"),
        (("run", "--full-refesh"), "--full-refresh"),
        (("validate", "--output", "jsno"), "json"),
        (("state", "get"), "table"),
    ],
)
def test_a_mistyped_command_fails(cli: Commands, words: tuple[str, ...], meant: str) -> None:
    """A word that is no command or option exits with 1, because 2 means a partial run."""
    refused = cli(*words)

    assert (refused.code, refused.out) == (1, "")
    assert meant in refused.err


def test_a_misspelt_pipeline(shop: Shop, cli: Commands) -> None:
    """A pipeline that does not exist is named, with the one that was probably meant."""
    refused = cli("run", "shopp")

    assert refused.code == 1
    assert "There is no pipeline shopp." in refused.err
    assert "Did you mean shop?" in refused.err


def test_brackets_are_text(shop: Shop, cli: Commands) -> None:
    """A path with brackets in it is printed as it is, not taken for markup."""
    (shop.root / "holdfast.toml").rename(shop.root / "[bold]shop.toml")

    checked = cli("--config", "[bold]shop.toml", "validate")

    assert checked.out.startswith("[bold]shop.toml is right.\n")
