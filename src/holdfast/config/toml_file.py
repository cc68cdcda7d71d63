"""Reading the file itself, and pointing at the place where it stops being TOML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from holdfast.config.redaction import looks_secret, secret_starts
from holdfast.errors import ConfigError

_POSITION: Final = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)$")
_ASSIGNED_NAME: Final = re.compile(r"([\w.\"'-]+)\s*=\s*")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    text = _read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from None


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist.", hint="Write a starter file with `holdfast init`."
        ) from None
    except IsADirectoryError:
        raise ConfigError(
            f"{path} is a directory.", hint=f"Name the file: {path / 'holdfast.toml'}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: not valid TOML: the line is not UTF-8 text.",
            hint="Save the file with the encoding UTF-8.",
        ) from None


def _syntax_error(path: Path, text: str, reason: str) -> ConfigError:
    lines = text.splitlines() or [""]
    position = _POSITION.search(reason)
    if position and position[1]:
        row, column = int(position[1]), int(position[2])
    else:
        row, column = len(lines), len(lines[-1]) + 1
    reason = _POSITION.sub("", reason)
    line = lines[row - 1] if row <= len(lines) else ""
    shown = _without_secrets(line)
    quote = f"    {shown}"
    if shown == line:
        quote += f"\n    {' ' * (column - 1)}^"
    return ConfigError(f"{path}:{row}:{column}: not valid TOML: {_lower_first(reason)}\n{quote}")


def _without_secrets(line: str) -> str:
    """Cut a line where a secret may begin: it is about to be printed."""
    for match in _ASSIGNED_NAME.finditer(line):
        if looks_secret(match[1]):
            return line[: match.end()] + "..."
    start = secret_starts(line)
    return line if start is None else line[:start] + "..."


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
