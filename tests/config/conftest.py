"""A configuration file in a temporary directory, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from config_files import Load, Problems

from holdfast.config import Config, load_config
from holdfast.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.toml"


@pytest.fixture
def load(file: Path) -> Load:
    """Load a text as a configuration file."""

    def load(text: str, environ: Mapping[str, str] | None = None) -> Config:
        file.write_text(text, encoding="utf-8")
        return load_config(file, environ={} if environ is None else environ)

    return load


@pytest.fixture
def problems(load: Load) -> Problems:
    """Return the problems of a text that must not load, as they are shown."""

    def problems(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, environ)
        return [str(problem) for problem in caught.value.problems]

    return problems
