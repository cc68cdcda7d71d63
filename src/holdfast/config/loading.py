"""Loading `holdfast.toml`: all of it, or every reason why not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from holdfast.config.environment import Expansion
from holdfast.config.redaction import is_secret, looks_secret
from holdfast.config.root import Config
from holdfast.config.section import (
    BASE_DIRECTORY,
    NOTHING,
    Finding,
    Location,
    dotted_key,
    findings_of,
)
from holdfast.config.toml_file import read_toml
from holdfast.config.values import Expanded
from holdfast.errors import ConfigError, ConfigProblem

_LONGEST_SHOWN: Final = 60


def load_config(path: Path, *, environ: Mapping[str, str] | None = None) -> Config:
    """Read a configuration file; a `ConfigError` lists every mistake in it at once."""
    path = Path(path)
    expansion = Expansion(os.environ if environ is None else environ)
    data = expansion.expand(read_toml(path))
    found = expansion.found
    try:
        config = Config.model_validate(data, context={BASE_DIRECTORY: path.parent.absolute()})
    except ValidationError as error:
        found = found + _not_about(found, findings_of(error))
    else:
        if not found:
            return config
    found.sort(key=lambda finding: _position(data, finding.location))
    raise _config_error(path, [_problem(finding) for finding in found])


def problems_of(error: ValidationError) -> list[ConfigProblem]:
    """Everything a validation found, in words."""
    return [_problem(finding) for finding in findings_of(error)]


def _not_about(unset: Iterable[Finding], found: list[Finding]) -> list[Finding]:
    """Leave out what follows from a variable that is not set: its text is not the real one."""
    places = {finding.location for finding in unset}
    return [finding for finding in found if finding.location not in places]


def _position(data: Any, location: Location) -> list[int]:
    """Return a sort key that puts problems in the order of the file."""
    position = []
    for part in location:
        if isinstance(data, dict):
            keys = list(data)
            position.append(keys.index(part) if part in keys else len(keys))
            data = data.get(part)
        elif isinstance(part, int):
            position.append(part)
            data = data[part] if isinstance(data, list) and part < len(data) else None
    return position


def _problem(finding: Finding) -> ConfigProblem:
    message = finding.message
    if not message:
        found = _shown(finding.found, finding.location)
        message = f"found {found}, expected {finding.expected}"
    return ConfigProblem(dotted_key(finding.location), message, finding.suggestion)


def _shown(value: object, location: Location) -> str:
    """Describe a value that was found, unless it looks like a secret."""
    if value is NOTHING or is_secret(location, value):
        return "a value that is not shown"
    if isinstance(value, Expanded):
        shown = "a value" if looks_secret(value.template) else _quoted(value)
        return f"{shown} (from {value.template})"
    if isinstance(value, str | bool | int | float):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, date | time):
        return "a date or time"
    return "an empty list" if value in ([], ()) else "a list"


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _config_error(path: Path, problems: list[ConfigProblem]) -> ConfigError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ConfigError(f"{path} has {count}:", problems=problems)
