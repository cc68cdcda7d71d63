"""How Holdfast's work appears in Spark: one session, labelled jobs that can be cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


def working_session(spark: SparkSession) -> SparkSession:
    """A session of our own on the same cluster, so that its settings are nobody else's.

    Adaptive execution is off: it runs every shuffle as a job of its own, and the aggregates and
    small merges here are planned well enough from the sizes that are known beforehand.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    # Positions are compared in UTC wherever the driver stands.
    own.conf.set("spark.sql.session.timeZone", "UTC")
    # Spark's default keeps timestamps in 96 bits, which have no statistics to skip files by, and
    # reach other readers as nanoseconds, which end in 2262.
    own.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    return own


@contextmanager
def labelled(spark: SparkSession, tag: str, description: str) -> Iterator[None]:
    """Tag the jobs this thread starts inside, and say in Spark's UI what they are for."""
    context = spark.sparkContext
    context.addJobTag(tag)
    context.setJobDescription(description)
    try:
        yield
    finally:
        context.removeJobTag(tag)
        context.setJobDescription("")


def cancel(spark: SparkSession, tag: str) -> None:
    """Cancel the running jobs that carry a tag."""
    spark.sparkContext.cancelJobsWithTag(tag)
