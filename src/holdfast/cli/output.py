"""Readable in a terminal, stable in JSON: both behind one small interface."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.errors import ConfigError, HoldfastError

JSON_FORMAT = 1
"""Grows when a document changes in a way that could break its readers."""


class OutputFormat(StrEnum):
    """How a command answers."""

    text = "text"
    json = "json"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="For people, or for programs.")
]


def console() -> Console:
    """Standard output; wide where it is no terminal, so that lines are not broken in a log."""
    return _console(width=None if sys.stdout.isatty() else 160)


def error_console() -> Console:
    """Standard error."""
    return _console(stderr=True, soft_wrap=True)


def _console(**settings: Any) -> Console:
    # A note or a path may have brackets and colons in it: they are text, not markup or emoji.
    return Console(highlight=False, markup=False, emoji=False, **settings)


def print_json(command: str, body: Mapping[str, Any]) -> None:
    """Print one document: its format, the command it answers, and the answer."""
    document = {"format": JSON_FORMAT, "command": command, **body}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_error(error: HoldfastError) -> None:
    """Say what went wrong on standard error, in JSON too if that was asked for."""
    if wants_json():
        body: dict[str, Any] = {
            "error": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
        }
        if isinstance(error, ConfigError):
            body["problems"] = [
                {"key": p.key, "message": p.message, "suggestion": p.suggestion}
                for p in error.problems
            ]
        print_json("error", body)
        return
    out = error_console()
    out.print(Text.assemble(("Error: ", "bold red"), error.message))
    if isinstance(error, ConfigError):
        for problem in error.problems:
            out.print(Text(f"  {problem}"))
    if error.hint:
        out.print(Text(error.hint, style="cyan"))


def wants_json() -> bool:
    """Whether the command line asked for JSON; known even if the command could not start."""
    words = sys.argv[1:]
    pairs = pairwise(words)
    return any(w in ("--output=json", "-ojson") for w in words) or any(
        pair in (("--output", "json"), ("-o", "json")) for pair in pairs
    )
