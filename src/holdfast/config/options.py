"""Spark's options and settings: texts, whatever type they are written with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError

from holdfast.config.section import NOTHING, Finding, Location, expected


def _as_spark_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return None


def option_names(value: object) -> dict[str, str]:
    """Map each option of a table, in lower case as Spark compares them, to how it is written.

    What is not a table of options, which is reported elsewhere, has none.
    """
    if not isinstance(value, Mapping):
        return {}
    names = [".".join(map(str, location)) for location, _ in _leaves(value)]
    return {name.lower(): name for name in names}


def option_value(value: object, name: str) -> str | None:
    """Return an option of a table, which may be nested, as Spark gets it."""
    for location, leaf in _leaves(value) if isinstance(value, Mapping) else ():
        if ".".join(map(str, location)) == name:
            return _as_spark_text(leaf)
    return None


def _leaves(table: Mapping[str, Any], at: Location = ()) -> Iterator[tuple[Location, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*at, key))
        else:
            yield (*at, key), value


def _flat(value: Any) -> dict[str, str]:
    """Read `spark.ui.enabled = false`, which TOML nests, like `"spark.ui.enabled" = false`."""
    if not isinstance(value, Mapping):
        raise expected("a table")
    options: dict[str, str] = {}
    found: list[Finding] = []
    for location, leaf in _leaves(value):
        name, text = ".".join(map(str, location)), _as_spark_text(leaf)
        if text is None:
            what = "a text, a number, true or false"
            found.append(Finding(location, expected=what, found=leaf))
        elif name in options:
            found.append(Finding(location, f"{name} is given twice", found=NOTHING))
        else:
            options[name] = text
    if found:
        raise ValidationError.from_exception_data("options", [item.as_line() for item in found])
    return options


Options = Annotated[dict[str, str], BeforeValidator(_flat)]
