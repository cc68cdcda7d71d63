"""Spark's values as the text PostgreSQL reads with COPY.

Spark itself makes the text, one string per row, compiled into the query that makes the rows: no
value passes through Python on its own. What a column becomes depends on the type it has in the
table as well: an array is written `{1,2}` for an array and `[1,2]` for jsonb or text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_NULL: Final = "\\N"
_EPOCH_JULIAN: Final = 2440588  # 1970-01-01
_JSON: Final = {
    # As they are by default, JSON would lose nulls and microseconds and depend on the time zone.
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_PLAIN: Final[dict[str, str]] = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}


def postgres_type(kind: T.DataType) -> str | None:
    """The type of a column made for these values, or `None` if there is none."""
    if isinstance(kind, T.ArrayType):
        element = None if _is_nested(kind.elementType) else postgres_type(kind.elementType)
        if element is not None:
            return f"{element}[]"
        return "jsonb" if _has_json(kind.elementType) else None
    if _is_nested(kind):
        return "jsonb" if _has_json(kind) else None
    if isinstance(kind, T.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, T.StringType):
        return "text"
    if kind.typeName() == "time":
        return "time without time zone"
    return _PLAIN.get(kind.simpleString())


def copy_line(columns: Sequence[tuple[Column, T.DataType, str]]) -> Column:
    """One row as a line of COPY's text format, its line feed included.

    Each column comes with its type in Spark and its type in the table.
    """
    fields = [
        F.coalesce(_escaped(_text(column, kind, target)), F.lit(_NULL))
        for column, kind, target in columns
    ]
    return F.concat(F.concat_ws("\t", *fields), F.lit("\n"))


def _is_nested(kind: T.DataType) -> bool:
    return isinstance(kind, T.ArrayType | T.MapType | T.StructType | T.VariantType)


def _has_json(kind: T.DataType) -> bool:
    """Whether every value within can be a part of a JSON document."""
    if isinstance(kind, T.ArrayType):
        return _has_json(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_json(kind.keyType) and _has_json(kind.valueType)
    if isinstance(kind, T.StructType):
        return all(_has_json(field.dataType) for field in kind.fields)
    return isinstance(kind, T.VariantType) or postgres_type(kind) is not None


def _text(column: Column, kind: T.DataType, target: str) -> Column:
    if isinstance(kind, T.ArrayType) and target.endswith("[]") and not _is_nested(kind.elementType):
        element = kind.elementType
        items = F.transform(column, lambda item: _array_item(item, element, target[:-2]))
        return F.concat(F.lit("{"), F.array_join(items, ","), F.lit("}"))
    if _is_nested(kind):
        return F.to_json(column, _JSON)
    if isinstance(kind, T.BinaryType):
        return F.concat(F.lit("\\x"), F.hex(column))
    if isinstance(kind, T.DateType):
        return _date_text(column)
    if isinstance(kind, T.TimestampType):
        # The wall clock of UTC. A cast would give that of the session's zone, in which one hour
        # of every autumn comes twice.
        utc = F.timestamp_add(
            "MICROSECOND", F.unix_micros(column), F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'")
        )
        return F.concat(_timestamp_text(utc), F.lit("+00"))
    if isinstance(kind, T.TimestampNTZType):
        return _timestamp_text(column)
    return column.cast("string")


def _array_item(item: Column, kind: T.DataType, target: str) -> Column:
    quoted = F.replace(
        F.replace(_text(item, kind, target), F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"')
    )
    return F.coalesce(F.concat(F.lit('"'), quoted, F.lit('"')), F.lit("NULL"))


def _date_text(column: Column) -> Column:
    # Beyond these years Spark writes what PostgreSQL does not read: there, the Julian day.
    return F.when(F.year(column).between(1, 9999), column.cast("string")).otherwise(
        F.concat(
            F.lit("J"), (F.unix_date(column).cast("bigint") + F.lit(_EPOCH_JULIAN)).cast("string")
        )
    )


def _timestamp_text(column: Column) -> Column:
    text = column.cast("string")
    return F.when(F.year(column).between(1, 9999), text).otherwise(
        F.concat(_date_text(column.cast("date")), F.lit(" "), F.substring_index(text, " ", -1))
    )


def _escaped(text: Column) -> Column:
    for raw, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = F.replace(text, F.lit(raw), F.lit(escaped))
    return text
