"""The rules over several keys of a replicate pipeline, for itself and for each of its tables.

They look at the tables of the file as written, so that a mistake in one key does not hide a
mistake in how two others go together. A value of a wrong type counts as "set".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

from holdfast.config.durations import parse_duration
from holdfast.config.endpoints import NAMED_FORMATS, Source, Target, schema_refusal
from holdfast.config.overrides import TableOverride
from holdfast.config.section import Finding, Location, as_table
from holdfast.config.spelling import closest
from holdfast.config.values import is_table_name, repeated_items
from holdfast.model import Strategy

Table = Mapping[str, Any]


def pipeline_rules(data: Table) -> Iterator[Finding]:
    """Yield every rule that a pipeline's table breaks."""
    yield from _which_tables(data)
    yield from _source_and_target(data)
    names = _listed_tables(data)
    overrides = _overrides(data)
    yield from _override_names(overrides, names)
    found = [finding for scope in _scopes(data, names) for finding in _scope_rules(scope)]
    # Tables without settings of their own share the pipeline's mistakes: each is said once.
    yield from dict.fromkeys(found)


def _which_tables(data: Table) -> Iterator[Finding]:
    listed, discovered = data.get("tables") is not None, data.get("discovery") is not None
    if listed and discovered:
        yield Finding(("discovery",), "give either `tables` or `discovery`, not both")
    if not listed and not discovered:
        message = 'this key is missing; name the tables, as in tables = ["orders"], or have them'
        yield Finding(("tables",), f'{message} found, as in discovery = {{ include = ["*"] }}')
    yield from repeated_items("tables", data.get("tables"))


def _source_and_target(data: Table) -> Iterator[Finding]:
    source = as_table(data.get("source"), Source)
    target = as_table(data.get("target"), Target)
    path = target.get("path")
    if isinstance(path, str) and _same_path(path, source.get("path")):
        yield Finding(
            ("target", "path"),
            "is also the source's path; rows would be copied on top of themselves",
        )
    kind = source.get("format")
    if kind not in NAMED_FORMATS:
        return
    for name, override in _overrides(data).items():
        if override.get("schema") is not None:
            yield Finding(("table", name, "schema"), schema_refusal(kind))


def _same_path(one: str, other: object) -> bool:
    return isinstance(other, str) and os.path.normpath(one) == os.path.normpath(other)


def _listed_tables(data: Table) -> list[str] | None:
    listed = data.get("tables")
    if not isinstance(listed, list | tuple):
        return None
    names = [name for name in listed if isinstance(name, str)]
    # With a variable that is not set, which is reported elsewhere, the names are not known.
    return None if any("${" in name for name in names) else names


def _overrides(data: Table) -> dict[str, dict[str, Any]]:
    written = data.get("table")
    if not isinstance(written, Mapping):
        return {}
    return {name: as_table(override, TableOverride) for name, override in written.items()}


def _override_names(overrides: Table, listed: list[str] | None) -> Iterator[Finding]:
    for name in overrides:
        if listed is not None and name not in listed:
            message = "these are settings for a table that is not in `tables`"
            yield Finding(("table", name), message, suggestion=closest(name, listed))
        elif listed is None and not is_table_name(name):
            yield Finding(("table", name), "this cannot be the name of a table")


@dataclass(frozen=True, slots=True)
class _Scope:
    """The settings of one table: its own over the pipeline's."""

    location: Location
    own: Table
    inherited: Table

    def value(self, key: str) -> Any:
        own = self.own.get(key)
        return self.inherited.get(key) if own is None else own

    def is_set(self, *keys: str) -> bool:
        return any(self.value(key) is not None for key in keys)

    def sets_itself(self, *keys: str) -> bool:
        return any(self.own.get(key) is not None for key in keys)

    def at(self, key: str, *because_of: str) -> Location:
        """Return where to report a rule: at the table when one of its own keys broke it."""
        return (*self.location, key) if self.sets_itself(key, *because_of) else (key,)


def _scopes(data: Table, listed: list[str] | None) -> Iterator[_Scope]:
    overrides = _overrides(data)
    if listed is None:
        yield _Scope((), {}, data)
        names = list(overrides)
    else:
        # Settings under a misspelt name still stand for the table that was meant.
        meant = {closest(name, listed): name for name in overrides if name not in listed}
        names = [meant.get(name, name) if name not in overrides else name for name in listed]
    for name in names:
        yield _Scope(("table", name), overrides.get(name, {}), data)


def _scope_rules(scope: _Scope) -> Iterator[Finding]:
    yield from _one_position(scope)
    for key in ("cursor", "primary_key"):
        for repeated in repeated_items(key, scope.value(key)):
            yield Finding((*scope.at(key), *repeated.location[1:]), repeated.message)
    strategy = scope.value("strategy") or "incremental"
    if strategy not in get_args(Strategy):
        return
    if strategy != "full_refresh" and not scope.is_set("watermark", "cursor"):
        message = f'this key is missing; strategy "{strategy}" needs the column that tells new'
        yield Finding(
            scope.at("watermark", "cursor", "strategy"),
            f'{message} rows from old ones, for example watermark = "updated_at"',
        )
    if strategy == "merge" and not scope.is_set("primary_key"):
        message = 'this key is missing; strategy "merge" needs the columns that identify a row,'
        yield Finding(
            scope.at("primary_key", "strategy"), f'{message} for example primary_key = ["id"]'
        )
    yield from _overlap(scope, strategy)


def _one_position(scope: _Scope) -> Iterator[Finding]:
    for table, location in ((scope.inherited, ()), (scope.own, scope.location)):
        if table.get("watermark") is not None and table.get("cursor") is not None:
            message = "give either `watermark` or `cursor`, not both; the first column of `cursor`"
            yield Finding((*location, "cursor"), f"{message} is the watermark")


def _overlap(scope: _Scope, strategy: str) -> Iterator[Finding]:
    overlap = parse_duration(scope.value("overlap"))
    if not overlap or overlap == timedelta():
        return
    at = scope.at("overlap", "strategy")
    if strategy == "incremental":
        message = 'with strategy "incremental" an overlap would copy rows twice; use strategy'
        message += ' "merge" with a primary_key'
        inherited = len(at) > 1 and not scope.sets_itself("overlap")
        yield Finding(at, message + (", or set overlap = 0 for this table" if inherited else ""))
    elif strategy == "full_refresh" and _same_level(scope):
        message = 'has no meaning with strategy "full_refresh", which reads every row'
        yield Finding(at, message)


def _same_level(scope: _Scope) -> bool:
    """Tell whether the overlap was written for the strategy it is used with.

    A table that only switches to `full_refresh` does not have to take back the pipeline's overlap.
    """
    return scope.sets_itself("overlap") or not scope.sets_itself("strategy")
