"""What every table of the configuration has in common: it finds all its mistakes at once.

Pydantic stops at the fields: rules over several of them run only once each field is right.
`Section` runs the fields and the rules side by side and raises what both found, in plain words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic import model_validator as validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from holdfast.config.spelling import meant_keys, with_meant_keys

Location = tuple[str | int, ...]
"""Where a value is in the file: the keys and list indexes that lead to it."""

BASE_DIRECTORY: Final = "base_directory"
"""The key of the validation context that holds the directory relative paths start from."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_ERROR_TYPE: Final = "holdfast"
_EXPECTED_IN_WORDS: Final = {
    "dict_type": "a table",
    "tuple_type": "a list",
    "string_type": "a text",
}


class _Nothing:
    """Stands for a value that is not there, or that a message does not show."""


NOTHING: Final = _Nothing()


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake, at a place relative to the section that found it."""

    location: Location = ()
    message: str = ""
    """The whole message; when empty, it is made from `found` and `expected`."""
    expected: str = ""
    suggestion: str = ""
    found: object = NOTHING

    def as_error(self) -> PydanticCustomError:
        """Return the error a validator raises to report this finding."""
        text = self.message or f"expected {self.expected}"
        return PydanticCustomError(_ERROR_TYPE, "{text}", {"text": text, "finding": self})

    def as_line(self) -> InitErrorDetails:
        """Return the finding the way pydantic carries it up to the enclosing section."""
        return InitErrorDetails(type=self.as_error(), loc=self.location, input=self.found)


def dotted_key(location: Location) -> str:
    """Write a place the way the file does: `pipeline.bronze.tables[2]`."""
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            key += f".{name}" if key else name
    return key


def expected(what: str, *, suggestion: str = "") -> PydanticCustomError:
    """Return the error for a value that is not what its key expects."""
    return Finding(expected=what, suggestion=suggestion).as_error()


def findings_of(error: ValidationError) -> list[Finding]:
    """Return what a section's validation found."""
    return [_as_finding(detail) for detail in error.errors(include_url=False)]


class Section(BaseModel):
    """One table of the configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    later_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of a later version: each is refused once, whatever it holds."""

    @classmethod
    def refused_outright(cls, data: Mapping[str, Any]) -> Finding | None:
        """Return why nothing else in this table is worth looking at, if that is so."""
        del data
        return None

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the rules over several keys that this table breaks.

        The table is as written, with its spelling put right: values may still be of a wrong
        type, which is reported elsewhere, so a rule skips what it cannot read.
        """
        del data
        yield from ()

    @classmethod
    def clashing_paths(cls, data: Mapping[str, Any], base: Path) -> Iterator[Finding]:
        """Yield the paths of this table that get in each other's way; relative ones start at base.

        The table is as `broken_rules` gets it.
        """
        del data, base
        yield from ()

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the keys this table may have, as they are written in the file."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    @validator(mode="wrap")
    @classmethod
    def _find_everything(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if isinstance(data, cls):
            return handler(data)
        if not isinstance(data, Mapping):
            raise expected("a table")
        if refusal := cls.refused_outright(data):
            raise validation_error(cls, [refusal])
        meant = meant_keys(data, (*cls.keys(), *cls.later_keys))
        spelt_right = with_meant_keys(data, meant)
        for later in cls.later_keys:
            spelt_right.pop(later, None)
        found = [*_unknown_keys(cls, data, meant), *cls.broken_rules(spelt_right)]
        base: Path = (info.context or {}).get(BASE_DIRECTORY, Path())
        found += cls.clashing_paths(spelt_right, base)
        try:
            section = handler(spelt_right)
        except ValidationError as error:
            found += (_described(cls, finding) for finding in findings_of(error))
        if found:
            written = {right: wrong for wrong, right in meant.items() if right not in data}
            raise validation_error(cls, [_where_written(finding, written) for finding in found])
        return section


def as_table(value: object, section: type[Section]) -> dict[str, Any]:
    """Return a section, or what may become one, as a table with its spelling put right."""
    if isinstance(value, Section):
        fields = type(value).model_fields
        return {fields[name].alias or name: getattr(value, name) for name in value.model_fields_set}
    if isinstance(value, Mapping):
        return with_meant_keys(value, meant_keys(value, section.keys()))
    return {}


def validation_error(section: type[Section], found: Iterable[Finding]) -> ValidationError:
    """Return the error that carries what was found up to the enclosing section."""
    return ValidationError.from_exception_data(
        section.__name__, [finding.as_line() for finding in found]
    )


def _unknown_keys(
    section: type[Section], data: Mapping[str, Any], meant: Mapping[str, str]
) -> Iterator[Finding]:
    for key in data:
        if key in section.later_keys or meant.get(key) in section.later_keys:
            yield Finding((key,), "is not available in this version")
        elif key in meant:
            message = "unknown key"
            if not meant[key]:
                message += f"; the keys here are {', '.join(section.keys())}"
            yield Finding((key,), message, suggestion=meant[key])


def _where_written(finding: Finding, written: Mapping[str, str]) -> Finding:
    """Point a finding below a misspelt key at the key as it stands in the file."""
    if finding.location and finding.location[0] in written:
        first, *rest = finding.location
        return replace(finding, location=(written[str(first)], *rest))
    return finding


def _as_finding(detail: ErrorDetails) -> Finding:
    location = tuple(detail["loc"])
    if detail["type"] == _ERROR_TYPE:
        finding: Finding = detail["ctx"]["finding"]
        found = finding.found if finding.message else detail["input"]
        return replace(finding, location=location, found=found)
    if detail["type"] == "missing":
        return Finding(location, "this key is missing")
    in_words = _EXPECTED_IN_WORDS.get(detail["type"])
    if in_words is None:
        in_words = detail["msg"].removeprefix("Input should be ")
    return Finding(location, expected=in_words, found=detail["input"])


def _described(section: type[Section], finding: Finding) -> Finding:
    """Say what a missing key is for, in the words of its own description."""
    if finding.message != "this key is missing" or len(finding.location) != 1:
        return finding
    for name, field in section.model_fields.items():
        if (field.alias or name) == finding.location[0] and field.description:
            return replace(finding, message=f"{finding.message}; expected {field.description}")
    return finding
