"""Schema names that carry meaning: `src__{tenant}__{region}__{source}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class SchemaPattern:
    """A pattern for schema names whose placeholders become named fields.

    A placeholder takes one or more characters but never the separator beside it, so a name
    fits in one way or not at all: `src__{tenant}__{source}` refuses `src__a__b__c` instead of
    guessing which of the two fields holds the extra part. Letter case counts.
    """

    text: str
    fields: tuple[str, ...]
    expression: re.Pattern[str]

    @classmethod
    def compile(cls, text: str) -> SchemaPattern:
        """Read a pattern; a `ValueError` says in plain words what is wrong with it."""
        literals, fields = _split(text)
        for repeated in (field for i, field in enumerate(fields) if field in fields[:i]):
            raise ValueError(f"{{{repeated}}} may occur only once")
        if any(not between for between in literals[1:-1]):
            raise ValueError("two placeholders need a separator between them")
        return cls(text, fields, re.compile("".join(_pieces(literals, fields)), re.DOTALL))

    def match(self, name: str) -> dict[str, str] | None:
        """Return the fields of a schema name, or nothing when it does not fit."""
        match = self.expression.fullmatch(name)
        return match.groupdict() if match else None


def placeholders(template: str) -> tuple[str, ...]:
    """Return the placeholders of a template; a `ValueError` says what is wrong with it."""
    return _split(template)[1]


def render(template: str, fields: Mapping[str, str]) -> str:
    """Fill a template such as `staging__{region}__{source}` with the fields of a match."""
    missing = [name for name in placeholders(template) if name not in fields]
    if missing:
        raise ValueError(f"{{{missing[0]}}} is not among {', '.join(fields) or 'the fields'}")
    return _PLACEHOLDER.sub(lambda found: fields[found[1]], template)


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pieces = _PLACEHOLDER.split(text)
    literals, fields = tuple(pieces[::2]), tuple(pieces[1::2])
    if any("{" in literal or "}" in literal for literal in literals):
        raise ValueError("a { or } has no partner")
    for field in fields:
        if not (field.isidentifier() and field.isascii()):
            raise ValueError(f"{{{field}}} is not a name made of letters, digits and _")
    return literals, fields


def _pieces(literals: tuple[str, ...], fields: tuple[str, ...]) -> Iterator[str]:
    yield re.escape(literals[0])
    for index, field in enumerate(fields):
        before = literals[index] if index else ""
        after = literals[index + 1]
        separators = "|".join(re.escape(part) for part in (before, after) if part)
        one = f"(?:(?!{separators}).)" if separators else "."
        yield f"(?P<{field}>{one}+){re.escape(after)}"
