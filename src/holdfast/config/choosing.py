"""Sections of several kinds, told apart by their key `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BeforeValidator, ValidationError, ValidationInfo

from holdfast.config.section import Finding, Section, expected, findings_of, validation_error
from holdfast.config.spelling import closest, meant_keys, with_meant_keys
from holdfast.config.values import in_words

_TYPE: Final = "type"

Kinds = Mapping[str, type[Section]]
"""The section behind each value of `type`."""


def chosen_by_type(kinds: Kinds) -> BeforeValidator:
    """Read a table as the section its `type` names, and as no other.

    Without it every mistake would be reported once per kind. A `type` that is missing or misspelt
    does not hide the other mistakes as long as it is plain which kind was meant.
    """

    def validate(value: Any, info: ValidationInfo) -> Section:
        if isinstance(value, Section):
            return value
        if not isinstance(value, Mapping):
            raise expected("a table")
        found = list(_wrong_type(value, kinds))
        section = kind_of(value, kinds)
        if section is None:
            raise validation_error(Section, found)
        table = dict(value)
        if found or _TYPE in table:
            table[_TYPE] = _name_of(section, kinds)
        try:
            read = section.model_validate(table, context=info.context)
        except ValidationError as error:
            found += findings_of(error)
        if found:
            raise validation_error(section, found)
        return read

    return BeforeValidator(validate)


def kind_of(table: Mapping[str, Any], kinds: Kinds) -> type[Section] | None:
    """Return the section a table is, or was probably meant to be."""
    written = _written_type(table, kinds)
    if not kinds:
        return None
    if isinstance(written, str):
        return kinds.get(written) or kinds.get(closest(written, kinds))
    if written is not None:
        return None
    # Without a type, the only kind that knows the most keys.
    known = {name: len(table.keys() & {*section.keys()}) for name, section in kinds.items()}
    best = [name for name, count in known.items() if count == max(known.values())]
    return kinds[best[0]] if len(best) == 1 else None


def table_of(value: object, kinds: Kinds) -> dict[str, Any]:
    """Return a section, or what may become one, as a table with its spelling put right."""
    if isinstance(value, Section):
        fields = type(value).model_fields
        return {fields[name].alias or name: getattr(value, name) for name in value.model_fields_set}
    if not isinstance(value, Mapping):
        return {}
    section = kind_of(value, kinds)
    if section is None:
        return dict(value)
    table = with_meant_keys(value, meant_keys(value, section.keys()))
    table[_TYPE] = _name_of(section, kinds)
    return table


def _name_of(section: type[Section], kinds: Kinds) -> str:
    return next(name for name, kind in kinds.items() if kind is section)


def _wrong_type(table: Mapping[str, Any], kinds: Kinds) -> list[Finding]:
    written = _written_type(table, kinds)
    choices = in_words(tuple(kinds))
    if written is None:
        return [Finding((_TYPE,), f"this key is missing; expected {choices}")]
    if isinstance(written, str) and written in kinds:
        return []
    meant = closest(written, kinds) if isinstance(written, str) else ""
    suggestion = f'"{meant}"' if meant else ""
    return [Finding((_TYPE,), expected=choices, suggestion=suggestion, found=written)]


def _written_type(table: Mapping[str, Any], kinds: Kinds) -> object:
    if _TYPE in table:
        return table[_TYPE]
    # `tpye = "stream"` is reported by the section as an unknown key.
    known = {key for section in kinds.values() for key in (*section.keys(), *section.later_keys)}
    meant = meant_keys(table, sorted(known))
    return next((table[key] for key, right in meant.items() if right == _TYPE), None)
