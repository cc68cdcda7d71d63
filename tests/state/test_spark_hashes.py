"""Spark's own hashes decide: where its shuffle sends a key is where its state lives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.state import Hashes, Partition, Snapshot, TableSchema, open_store

ROWS = """
SELECT named.*, hash(named.*) AS partition_hash, xxhash64(named.*) AS lookup_hash
FROM (
  SELECT IF(id % 11 = 0, NULL, concat('user ', id % 97)) AS name,
         id % 13 AS number,
         CAST(IF(id % 7 = 0, NULL, id) AS DECIMAL(20, 2)) AS amount
  FROM range(500)
) AS named
"""


@pytest.mark.spark
def test_spark_sends_a_key_to_the_partition_that_owns_it(spark: SparkSession) -> None:
    """`repartition(N, keys)` puts every row where `Partition.owns` says its state is."""
    for count in (1, 2, 5, 8):
        shuffled = (
            spark.sql(ROWS)
            .repartition(count, "name", "number", "amount")
            .selectExpr("partition_hash", "spark_partition_id() AS place")
            .toArrow()
        )
        hashes = shuffled["partition_hash"].to_numpy()
        places = shuffled["place"].to_numpy()
        for index in range(count):
            assert (Partition(index, count).owns(hashes) == (places == index)).all()


@pytest.mark.spark
def test_state_is_found_by_the_hashes_spark_computed(spark: SparkSession, tmp_path: Path) -> None:
    """Keys stored under Spark's hashes in three partitions are all found again in two."""
    rows = spark.sql(ROWS).distinct().toArrow()
    keys = rows.select(["name", "number", "amount"])
    hashes = Hashes.of(rows["lookup_hash"], rows["partition_hash"])
    key = pa.schema([field.with_nullable(True) for field in keys.schema])
    schema = TableSchema("seen", key, pa.schema([("row", pa.int64())]))

    def part(partition: Partition) -> tuple[pa.Table, Hashes, pa.Array]:
        mine = partition.owns(hashes.partition).nonzero()[0]
        at = pa.array(mine)
        own = Hashes(hashes.lookup.take(mine), hashes.partition.take(mine))
        return keys.take(at).cast(key), own, at

    snapshots: list[Snapshot] = []
    for index in range(3):
        partition = Partition(index, 3)
        with open_store(tmp_path, [schema], partition=partition) as store:
            transaction = store.begin(0, now_ms=0)
            table = transaction.table("seen")
            columns, own, at = part(partition)
            table.put(table.keys(columns, own), {"row": at})
            snapshots.append(transaction.commit())

    found = 0
    for index in range(2):
        partition = Partition(index, 2)
        with open_store(tmp_path, [schema], partition=partition, snapshots=snapshots) as store:
            table = store.begin(1, now_ms=0).table("seen")
            columns, own, at = part(partition)
            known = table.get(table.keys(columns, own))
            assert known.found.all()
            assert known.values["row"].equals(at)
            found += len(known)
    assert found == len(rows)
