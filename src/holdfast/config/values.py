"""The kinds of value a key can have, each refused in plain words.

TOML has types, so `concurrency = "4"` is a mistake; `concurrency = "${N}"` is not, because the
environment only has texts. `Expanded` marks the texts that came from there.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, get_args

from pydantic import BeforeValidator, ValidationInfo

from holdfast.config.section import BASE_DIRECTORY, Finding, expected
from holdfast.config.spelling import closest

_BOOLEANS: Final = {"true": True, "false": False}
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# What a table name must not hold: it becomes a path below the target's, and Spark reads
# globs and Hadoop reads schemes out of paths.
_NOT_IN_TABLE_NAMES: Final = re.compile(r"[/\\*?\[\]{}:\x00-\x1f\x7f]")

_FUNCTION: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class Expanded(str):
    """A text in which at least one environment variable was put in place."""

    template: str

    def __new__(cls, text: str, template: str) -> Expanded:
        """Keep the text as it is in the file beside the one it became."""
        expanded = super().__new__(cls, text)
        expanded.template = template
        return expanded


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise expected("a text")
    if not value.strip():
        raise expected("a text that is not empty")
    return str(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _flag(value: Any) -> bool:
    read = flag(value)
    if read is None:
        raise expected("true or false")
    return read


def number(value: Any) -> float | None:
    """Return a finite number, or nothing when the value is not one."""
    if isinstance(value, Expanded):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def flag(value: Any) -> bool | None:
    """Return true or false, or nothing when the value is neither."""
    if isinstance(value, Expanded):
        value = _BOOLEANS.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def whole_number(low: int, high: int | None = None) -> BeforeValidator:
    """Accept a whole number in a range whose ends are both allowed."""
    words = f"from {low} to {high}" if high is not None else f"of at least {low}"

    def validate(value: Any) -> int:
        read = number(value)
        written_whole = isinstance(value, int | Expanded)
        if read is None or not written_whole or read != int(read):
            raise expected(f"a whole number {words}")
        if read < low or (high is not None and read > high):
            raise expected(f"a whole number {words}")
        return int(read)

    return BeforeValidator(validate)


def _positive_number(value: Any) -> float:
    read = number(value)
    if read is None or read <= 0:
        raise expected("a number greater than 0")
    return float(read)


def _fraction(value: Any) -> float:
    read = number(value)
    if read is None or not 0 <= read <= 1:
        raise expected("a fraction from 0 to 1 (0.05 is 5 %)")
    return float(read)


def one_of(literal: Any, *, optional: bool = False) -> BeforeValidator:
    """Accept one of the texts of a `Literal`, and suggest one for a misspelt value."""
    choices = get_args(literal)

    def validate(value: Any) -> str | None:
        if value is None and optional:
            return None
        if isinstance(value, str) and str(value) in choices:
            return str(value)
        meant = closest(value, choices) if isinstance(value, str) else ""
        raise expected(in_words(choices), suggestion=f'"{meant}"' if meant else "")

    return BeforeValidator(validate)


def in_words(choices: tuple[str, ...]) -> str:
    """Write choices as a person would: `"a", "b" or "c"`."""
    quoted = [f'"{choice}"' for choice in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def list_of(what: str, example: str, *, table_key: str = "") -> BeforeValidator:
    """Accept a list that is not empty; its items are validated by their own type.

    `table_key` is the key that was probably meant by who wrote a table here.
    """

    def validate(value: Any) -> Any:
        if not isinstance(value, list | tuple) or not value:
            meant = table_key if isinstance(value, Mapping) else ""
            raise expected(f"a list of {what}, for example {example}", suggestion=meant)
        return tuple(value)

    return BeforeValidator(validate)


def repeated_items(key: str, value: object) -> Iterator[Finding]:
    """Yield a finding for every item of a list that stands in it a second time."""
    if not isinstance(value, list | tuple):
        return
    for index, item in enumerate(value):
        if isinstance(item, str) and item in value[:index]:
            yield Finding((key, index), f'"{item}" is already in the list; name it once')


def _location(value: Any, info: ValidationInfo) -> str:
    return absolute_location(_text(value), (info.context or {}).get(BASE_DIRECTORY, Path()))


def absolute_location(path: str, base: Path) -> str:
    """Return a path as one that starts at the root; a URI stays as it is."""
    if is_uri(path):
        return path
    try:
        return os.path.normpath(base / Path(path).expanduser())
    except RuntimeError:
        # `~somebody` of whom this machine knows nothing is a directory like any other.
        return os.path.normpath(base / path)


def is_uri(path: str) -> bool:
    """Tell whether a path says by itself how it is reached: `s3a://bucket/lake`."""
    return _URI.match(path) is not None


def _optional_location(value: Any, info: ValidationInfo) -> str | None:
    return None if value is None else _location(value, info)


def _file_path(value: Any, info: ValidationInfo) -> Path:
    if isinstance(value, Path):
        value = str(value)
    path = _location(value, info)
    if is_uri(path):
        raise expected("the path of a file on this machine")
    return Path(path)


def is_table_name(value: object) -> bool:
    """Tell whether a table can have this name: `orders`, `sales.orders`."""
    return (
        isinstance(value, str)
        and not _NOT_IN_TABLE_NAMES.search(value)
        and all(part and part == part.strip() for part in value.split("."))
    )


def _function(value: Any) -> str:
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        raise expected('"module:function", for example "shop.payments:clean"')
    return str(value)


def _optional_function(value: Any) -> str | None:
    return None if value is None else _function(value)


def _table_name(value: Any) -> str:
    if not is_table_name(value):
        raise expected(
            'a table name such as "orders" or "sales.orders", without / \\ * ? [ ] { } :'
        )
    return str(value)


Text = Annotated[str, BeforeValidator(_text)]
OptionalText = Annotated[str | None, BeforeValidator(_optional_text)]
Flag = Annotated[bool, BeforeValidator(_flag)]
PositiveNumber = Annotated[float, BeforeValidator(_positive_number)]
Fraction = Annotated[float, BeforeValidator(_fraction)]
Location = Annotated[str, BeforeValidator(_location)]
"""A path, resolved against the configuration file's directory, or a URI, kept as it is."""
OptionalLocation = Annotated[str | None, BeforeValidator(_optional_location)]
FilePath = Annotated[Path, BeforeValidator(_file_path)]
Function = Annotated[str, BeforeValidator(_function)]
"""Where a Python function is: `module:function`."""
OptionalFunction = Annotated[str | None, BeforeValidator(_optional_function)]
TableName = Annotated[str, BeforeValidator(_table_name)]
