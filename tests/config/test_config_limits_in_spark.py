"""The rules about sources and limits are Spark's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.config import BatchLimits, StreamSource, source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def deliver(spark: SparkSession, kind: str, options: dict[str, str], place: Path) -> list[int]:
    """Run a stream over what there is and return the rows of each batch."""
    reader = spark.readStream.format(kind).options(**options)
    frame = reader.schema("id long").load(str(place / "in")) if kind == "json" else reader.load()
    rows: list[int] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.append(batch.count()))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    return rows


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three files of one row each."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}}}\n', encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("batch", "rows"), [({"max_files": 2}, [2, 1]), ({"max_bytes": 1}, [1, 1, 1])]
)
def test_spark_takes_the_limits_of_files(
    spark: SparkSession, place: Path, batch: dict[str, int], rows: list[int]
) -> None:
    """The mapped options do limit the batches."""
    source = StreamSource(format="json", path=str(place / "in"), schema="id long")
    options = source_options(source, BatchLimits.model_validate(batch))
    assert deliver(spark, "json", options, place) == rows


def test_spark_refuses_both_limits_of_files(spark: SparkSession, place: Path) -> None:
    """That is why the configuration does."""
    options = {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}
    with pytest.raises(Exception, match="can't be both set"):
        deliver(spark, "json", options, place)


def test_spark_needs_the_rows_of_a_micro_batch(spark: SparkSession, place: Path) -> None:
    """There is no default for the limit that the configuration asks for."""
    with pytest.raises(Exception, match="rowsPerBatch"):
        deliver(spark, "rate-micro-batch", {}, place)


def test_spark_does_not_guess_the_columns_of_a_stream(spark: SparkSession, place: Path) -> None:
    """A schema is needed, whatever the reader's options say."""
    with pytest.raises(Exception, match=r"(?i)schema must be specified"):
        spark.readStream.format("csv").option("inferSchema", "true").load(str(place / "in"))
    assert spark.readStream.format("text").load(str(place / "in")).columns == ["value"]
