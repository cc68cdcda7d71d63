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
from holdfast.spark.cursor import Cursor
from holdfast.spark.filesystem import local_path
from holdfast.spark.measures import Census, Probe

FILE_LIMIT: Final = 5_000
"""With more files than this, Spark's executors are quicker."""
_ONE_BY_ONE: Final = 16
_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
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
        if self.groups is None or len(cursor.columns) != 1:
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
    known = all(groups is not None for _, _, groups in found)
    return Footers(
        rows=sum(rows for rows, _, _ in found),
        kinds=tuple(sorted({kind for _, kind, _ in found})),
        groups=tuple(g for _, _, groups in found for g in groups or ()) if known else None,
    )


def _footer(path: Path, column: str | None) -> tuple[int, str, list[RowGroup] | None]:
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    # The first line of the text is the address of the object.
    columns = str(metadata.schema).partition("\n")[2].encode()
    written_by_spark = (metadata.metadata or {}).get(_SPARK_SCHEMA, b"")
    digest = hashlib.sha256(columns + b"\0" + written_by_spark).hexdigest()
    return int(metadata.num_rows), digest[:32], _row_groups(metadata, column)


def _row_groups(metadata: Any, column: str | None) -> list[RowGroup] | None:
    """The parts of one file; `None` if one of them cannot be placed for sure."""
    names = [metadata.schema.column(i).path.lower() for i in range(metadata.num_columns)]
    if column is None or column.lower() not in names:
        return None
    place = names.index(column.lower())
    scale = _scale(metadata.schema.column(place))
    if scale is None:
        return None
    groups = []
    for i in range(metadata.num_row_groups):
        part = metadata.row_group(i)
        if part.num_rows == 0:
            continue
        facts = part.column(place).statistics
        # A null has no place, and a count of them that is missing may hide some.
        if facts is None or not facts.has_min_max or not facts.has_null_count or facts.null_count:
            return None
        groups.append(
            RowGroup(part.num_rows, int(facts.min_raw) * scale, int(facts.max_raw) * scale)
        )
    return groups


def _scale(column: Any) -> int | None:
    """By what to multiply a stored value; `None` for a type whose order may not be Spark's."""
    kind = column.logical_type.type
    if column.physical_type not in ("INT32", "INT64"):
        return None
    if kind in ("NONE", "DATE"):
        return 1
    if kind == "INT":
        return 1 if '"isSigned": true' in column.logical_type.to_json() else None
    if kind == "TIMESTAMP":
        described = column.logical_type.to_json()
        return next((n for unit, n in _MICROS.items() if f'"{unit}"' in described), None)
    return None


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
