"""What Parquet files say of themselves: how many rows, which columns, and from where to where.

Reading the footers of a few files on this machine takes a millisecond or two; each Spark job
that learns columns, counts rows, or looks for the highest value takes fifty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from holdfast.clock import isoformat
from holdfast.model import Position
from holdfast.model.position import INTEGER_TYPES
from holdfast.spark.cursor import Cursor
from holdfast.spark.filesystem import local_path
from holdfast.spark.measures import Census, Probe

FILE_LIMIT: Final = 5_000
"""With more files than this, Spark's executors are quicker."""
_ONE_BY_ONE: Final = 16
_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SPARK_TYPES: Final[dict[str, frozenset[str]]] = {
    "timestamp": frozenset({"timestamp", "timestamp_ntz"}),
    "date": frozenset({"date"}),
    "integer": INTEGER_TYPES,
    "": frozenset(),
}
_MICROS: Final = {"microseconds": 1, "milliseconds": 1000}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A part of a file: its rows, and between which values of a column they lie.

    Values are whole numbers: microseconds, days, or the numbers themselves.
    """

    rows: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Footers:
    """The footers of all files of a table."""

    rows: int
    kinds: tuple[str, ...]
    """A digest of each different set of columns among the files, sorted."""
    groups: tuple[RowGroup, ...] | None
    """The parts that have rows; `None` if one does not say between which values they lie."""
    families: tuple[str, ...]
    """What the values are in the files, sorted: `timestamp`, `date`, `integer`."""
    partitioned: bool
    """Some columns are in the names of directories, of which the footers know nothing."""

    def probe(
        self,
        cursor: Cursor,
        *,
        low: Position | None,
        high: Position | None,
        skew_limit: Position | None,
    ) -> Probe | None:
        """Answer what a probe would, without reading a row; `None` if that takes reading some.

        It takes reading when a part of a file lies on both sides of a bound, as happens when
        files are rewritten instead of added.
        """
        if self.groups is None or len(cursor.columns) != 1 or self.partitioned:
            return None
        # A schema of the user's own may read a column as something else than it was written.
        if any(cursor.types[0] not in _SPARK_TYPES[family] for family in self.families):
            return None
        if any(len(p.values) != 1 for p in (low, high, skew_limit) if p is not None):
            return None
        start = None if low is None else _number(cursor.types[0], low.values[0])
        end = None if high is None else _number(cursor.types[0], high.values[0])
        limit = None if skew_limit is None else _number(cursor.types[0], skew_limit.values[0])
        new: list[RowGroup] = []
        for group in self.groups:
            if start is not None and group.highest <= start:
                continue
            if limit is not None and group.highest > limit:
                return None
            if end is not None and group.lowest > end:
                continue
            if start is not None and group.lowest <= start:
                return None
            if end is not None and group.highest > end:
                return None
            new.append(group)
        reached = max((group.highest for group in new), default=None)
        return Probe(
            census=Census(self.rows),
            rows=sum(group.rows for group in new),
            high=None if reached is None else cursor.position([_text(cursor.types[0], reached)]),
        )


def read_footers(files: Sequence[str], column: str | None) -> Footers | None:
    """Read the footers of files on this machine; `None` if that is not worth it or not possible.

    A file that cannot be read is left to Spark, whose message names it.
    """
    # Imported late: it is slow to load, and only Parquet needs it.
    from pyarrow import ArrowException

    if not 0 < len(files) <= FILE_LIMIT:
        return None
    paths = [local_path(file) for file in files]
    try:
        if len(paths) <= _ONE_BY_ONE:
            found = [_footer(path, column) for path in paths]
        else:
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(lambda path: _footer(path, column), paths))
    except (ArrowException, OSError):
        return None
    known = all(footer.groups is not None for footer in found)
    return Footers(
        rows=sum(footer.rows for footer in found),
        kinds=tuple(sorted({footer.kind for footer in found})),
        groups=tuple(g for footer in found for g in footer.groups or ()) if known else None,
        families=tuple(sorted({footer.family for footer in found})),
        partitioned=any("=" in path.parent.as_posix() for path in paths),
    )


@dataclass(frozen=True, slots=True)
class _Footer:
    """The footer of one file."""

    rows: int
    kind: str
    groups: list[RowGroup] | None
    family: str


def _footer(path: Path, column: str | None) -> _Footer:
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    # The first line of the text is the address of the object.
    columns = str(metadata.schema).partition("\n")[2].encode()
    written_by_spark = (metadata.metadata or {}).get(_SPARK_SCHEMA, b"")
    digest = hashlib.sha256(columns + b"\0" + written_by_spark).hexdigest()
    family, groups = _row_groups(metadata, column)
    return _Footer(int(metadata.num_rows), digest[:32], groups, family)


def _row_groups(metadata: Any, column: str | None) -> tuple[str, list[RowGroup] | None]:
    """What the column holds, and the parts of one file; `None` if one cannot be placed."""
    names = [metadata.schema.column(i).path.lower() for i in range(metadata.num_columns)]
    # A dot may stand for a field inside a struct, or for itself: a footer does not tell them apart.
    if column is None or "." in column or column.lower() not in names:
        return "", None
    place = names.index(column.lower())
    family, scale = _scale(metadata.schema.column(place))
    if scale is None:
        return family, None
    groups = []
    for i in range(metadata.num_row_groups):
        part = metadata.row_group(i)
        if part.num_rows == 0:
            continue
        facts = part.column(place).statistics
        # A null has no place, and a count of them that is missing may hide some.
        if facts is None or not facts.has_min_max or not facts.has_null_count or facts.null_count:
            return family, None
        groups.append(
            RowGroup(part.num_rows, int(facts.min_raw) * scale, int(facts.max_raw) * scale)
        )
    return family, groups


def _scale(column: Any) -> tuple[str, int | None]:
    """What a column holds, and by what to multiply it; `None` if its order may not be Spark's."""
    kind = column.logical_type.type
    if column.physical_type not in ("INT32", "INT64"):
        return "", None
    if kind == "DATE":
        return "date", 1
    if kind == "NONE":
        return "integer", 1
    described = column.logical_type.to_json()
    if kind == "INT":
        return "integer", 1 if '"isSigned": true' in described else None
    if kind == "TIMESTAMP":
        scale = next((n for unit, n in _MICROS.items() if f'"{unit}"' in described), None)
        return "timestamp", scale
    return "", None


def _number(type_name: str, text: str) -> int:
    if type_name == "date":
        return (date.fromisoformat(text) - _EPOCH.date()).days
    if type_name in ("timestamp", "timestamp_ntz"):
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    return int(text)


def _text(type_name: str, number: int) -> str:
    """The text of a value, as `Cursor.position` takes it."""
    if type_name == "date":
        return (_EPOCH.date() + timedelta(days=number)).isoformat()
    if type_name == "timestamp_ntz":
        return isoformat(_EPOCH + timedelta(microseconds=number)).removesuffix("Z")
    return str(number)
