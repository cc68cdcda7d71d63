"""Latest row per key, as Spark expressions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.spark.columns import source_fields
from holdfast.spark.cursor import Cursor, quoted

_RANK = "__holdfast_rank"
_INCOMING = "__holdfast_incoming"


def latest(frame: DataFrame, key: Sequence[str], cursor: Cursor) -> DataFrame:
    """Keep one row per key, the one furthest along the cursor.

    Rows equal in key and cursor are told apart by their content, so the choice is the same
    whenever it is made again.
    """
    return _first_per_key(frame, key, cursor, [])


def merge(
    existing: DataFrame, incoming: DataFrame, key: Sequence[str], cursor: Cursor
) -> DataFrame:
    """Replace the rows of `existing` that `incoming` has newer versions of, and add the rest.

    Only rows whose keys come in are compared; the others pass through without a shuffle when
    the incoming keys are few enough to broadcast.
    """
    untouched = _matched(existing, incoming, key, "left_anti")
    contested = with_incoming_keys(existing, incoming, key).withColumn(_INCOMING, F.lit(0))
    candidates = contested.unionByName(incoming.withColumn(_INCOMING, F.lit(1)))
    # On a tie the source wins: it is re-read within an overlap exactly to be believed.
    winners = _first_per_key(candidates, key, cursor, [F.col(_INCOMING).desc()])
    return untouched.unionByName(winners.drop(_INCOMING))


def with_incoming_keys(existing: DataFrame, incoming: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows of `existing` whose keys `incoming` has too."""
    return _matched(existing, incoming, key, "left_semi")


def _matched(existing: DataFrame, incoming: DataFrame, key: Sequence[str], how: str) -> DataFrame:
    keys = incoming.select(*[F.col(quoted(c)).alias(f"__key{i}") for i, c in enumerate(key)])
    same_key = F.lit(True)
    for i, name in enumerate(key):
        # Null-safe: a key with a null in it is still one key.
        same_key = same_key & F.col(quoted(name)).eqNullSafe(F.col(f"__key{i}"))
    return existing.join(keys.distinct(), same_key, how)


def _first_per_key(
    frame: DataFrame, key: Sequence[str], cursor: Cursor, then: list[Column]
) -> DataFrame:
    by_cursor = [F.col(quoted(name)).desc_nulls_last() for name in cursor.columns]
    content = F.xxhash64(*(F.col(quoted(name)) for name in _hashable(frame))).desc()
    order = Window.partitionBy(*(quoted(name) for name in key)).orderBy(*by_cursor, *then, content)
    ranked = frame.withColumn(_RANK, F.row_number().over(order))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def _hashable(frame: DataFrame) -> list[str]:
    # Spark does not hash maps or variants, at any depth. The batch's own columns would make
    # another choice in every batch.
    return [
        field.name
        for field in source_fields(frame.schema)
        if not any(kind in field.dataType.simpleString() for kind in ("map<", "variant"))
    ]
