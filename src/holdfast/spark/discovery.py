"""Which tables a source has."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pyspark.sql import SparkSession

from holdfast.config import Discovery, ReplicatePipeline, Source, render
from holdfast.errors import SourceError
from holdfast.model import TableName
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import files_for, join
from holdfast.spark.jdbc import PARTITION_OPTIONS

_SYSTEM_SCHEMAS = frozenset(
    {"information_schema", "pg_catalog", "mysql", "sys", "performance_schema"}
)


def tables_of(spark: SparkSession, name: str, pipeline: ReplicatePipeline) -> list[TableName]:
    """Every table of a pipeline: the listed ones, or those found at the source now."""
    if pipeline.tables is not None:
        return [TableName(name, table, table) for table in pipeline.tables]
    assert pipeline.discovery is not None, "a pipeline without either is refused when it is read"
    with translated(f"{name}: looking for tables"):
        found = sorted(_matching(spark, name, pipeline.source, pipeline.discovery), key=str)
    if not found:
        _refuse_missing(spark, name, pipeline.source)
        raise SourceError(
            f"{name}: no table at the source matches the discovery settings.",
            hint=f"Check pipeline.{name}.discovery (schema_pattern, include, exclude).",
        )
    _refuse_collisions(name, found)
    return found


def _matching(
    spark: SparkSession, name: str, source: Source, discovery: Discovery
) -> Iterator[TableName]:
    pattern = discovery.compiled_pattern()
    if pattern is None and source.format == "jdbc" and not source.namespace:
        # A bare name would be looked up in one schema only, whichever it was found in.
        for schema, table in _jdbc_tables(spark, source):
            if _wanted(discovery, table):
                yield TableName(name, f"{schema}.{table}", f"{schema}.{table}")
        return
    if pattern is None:
        for table in _tables(spark, source, None):
            if _wanted(discovery, table):
                yield TableName(name, table, table)
        return
    for schema in _schemas(spark, source):
        fields = pattern.match(schema)
        if fields is None:
            continue
        target_schema = (
            render(discovery.target_schema, fields) if discovery.target_schema else schema
        )
        for table in _tables(spark, source, schema):
            if _wanted(discovery, table):
                yield TableName(name, f"{schema}.{table}", f"{target_schema}.{table}")


def _wanted(discovery: Discovery, table: str) -> bool:
    included = any(fnmatchcase(table, glob) for glob in discovery.include)
    return included and not any(fnmatchcase(table, glob) for glob in discovery.exclude)


def _schemas(spark: SparkSession, source: Source) -> list[str]:
    if source.format == "table":
        namespace = f" IN {source.namespace}" if source.namespace else ""
        return [str(row[0]) for row in spark.sql(f"SHOW NAMESPACES{namespace}").collect()]
    if source.format == "jdbc":
        return sorted({schema for schema, _ in _jdbc_tables(spark, source)})
    root = str(source.path)
    return [name for name in files_for(spark, root).names(root) if name[0] not in "._"]


def _tables(spark: SparkSession, source: Source, schema: str | None) -> list[str]:
    if source.format == "table":
        namespace = ".".join(part for part in (source.namespace, schema) if part)
        inside = f" IN {namespace}" if namespace else ""
        rows = spark.sql(f"SHOW TABLES{inside}").where("NOT isTemporary").collect()
        return [str(row["tableName"]) for row in rows]
    if source.format == "jdbc":
        wanted = schema or source.namespace
        found = _jdbc_tables(spark, source)
        return [table for its_schema, table in found if wanted is None or its_schema == wanted]
    root = str(source.path) if schema is None else join(str(source.path), schema)
    files = files_for(spark, root)
    names = [name for name in files.names(root) if name[0] not in "._"]
    return sorted({name.split(f".{source.format}")[0] for name in names})


def _jdbc_tables(spark: SparkSession, source: Source) -> list[tuple[str, str]]:
    options = {k: v for k, v in source.options.items() if k.lower() not in PARTITION_OPTIONS}
    rows = (
        spark.read.format("jdbc")
        .options(**options)
        .option(
            "dbtable",
            "(SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE') holdfast_tables",
        )
        .load()
    )
    found = [(str(row[0]), str(row[1])) for row in rows.collect()]
    return sorted(pair for pair in found if pair[0].lower() not in _SYSTEM_SCHEMAS)


def _refuse_missing(spark: SparkSession, name: str, source: Source) -> None:
    root = str(source.path) if source.path is not None else ""
    if root and not files_for(spark, root).exists(root):
        raise SourceError(
            f"{name}: the source is not there: {root}.",
            hint=f"Check pipeline.{name}.source.path.",
        )


def _refuse_collisions(name: str, tables: list[TableName]) -> None:
    seen: dict[str, str] = {}
    for table in tables:
        other = seen.setdefault(table.target, table.source)
        if other != table.source:
            raise SourceError(
                f"{name}: {other} and {table.source} would both be copied to {table.target}.",
                hint=f"Keep more of the name in pipeline.{name}.discovery.target_schema, "
                "or exclude one of them.",
            )
