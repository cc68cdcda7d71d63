"""`[pipeline.<name>]` of type `replicate`: copying tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.config.checks import ChecksConfig
from holdfast.config.durations import Duration
from holdfast.config.endpoints import Discovery, Source, Target
from holdfast.config.overrides import Columns, Cursor, NullWatermark, TableOverride
from holdfast.config.rules import pipeline_rules
from holdfast.config.section import Finding, Section
from holdfast.config.spelling import closest
from holdfast.config.values import Flag, OptionalText, TableName, list_of, one_of, whole_number
from holdfast.errors import UsageError
from holdfast.model import Strategy

PipelineType = Literal["replicate"]

_Tables = Annotated[
    tuple[TableName, ...], list_of("table names", '["orders", "customers"]', table_key="table")
]


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How one table is copied: the pipeline's settings with the table's own over them."""

    table: str
    strategy: Strategy
    watermark: str | None
    tie_breakers: tuple[str, ...]
    """The columns after the watermark that tell rows of equal watermark apart."""
    primary_key: tuple[str, ...]
    overlap: timedelta
    max_future_skew: timedelta
    null_watermark: NullWatermark
    schema_ddl: str | None
    options: Mapping[str, str]
    """The source's options."""
    checks: ChecksConfig

    @property
    def cursor(self) -> tuple[str, ...]:
        """The watermark and its tie-breakers, in order."""
        return (self.watermark, *self.tie_breakers) if self.watermark else ()


class ReplicatePipeline(Section):
    """Copies tables from a source to a target, each from where it got to."""

    type: Annotated[PipelineType, one_of(PipelineType)] = Field(description='"replicate"')
    source: Source = Field(description="a table with the format and place of the rows to copy")
    target: Target = Field(description="a table with the place to copy them to")
    tables: _Tables | None = None
    discovery: Discovery | None = None
    watermark: OptionalText = None
    cursor: Cursor | None = None
    strategy: Annotated[Strategy, one_of(Strategy)] = "incremental"
    primary_key: Columns | None = None
    overlap: Duration = timedelta()
    max_future_skew: Duration = timedelta(minutes=5)
    null_watermark: Annotated[NullWatermark, one_of(NullWatermark)] = "fail"
    concurrency: Annotated[int, whole_number(1, 64)] = 4
    metadata_columns: Flag = True
    loaded_by: OptionalText = None
    checks: ChecksConfig = Field(default_factory=ChecksConfig)
    table: dict[str, TableOverride] = Field(default_factory=dict)

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the rules that the pipeline, or one of its tables, breaks."""
        return pipeline_rules(data)

    def settings_for(self, table: str) -> TableSettings:
        """Return how one table is copied."""
        if self.tables is not None and table not in self.tables:
            meant = closest(table, self.tables)
            hint = f"Did you mean {meant}?" if meant else f"There are {', '.join(self.tables)}."
            raise UsageError(f"The pipeline has no table {table}.", hint=hint)
        override = self._override_for(table)
        strategy = override.strategy or self.strategy
        watermark, *tie_breakers = self._cursor_with(override) or (None,)
        overlap = self.overlap if override.overlap is None else override.overlap
        skew = override.max_future_skew
        return TableSettings(
            table=table,
            strategy=strategy,
            watermark=watermark,
            tie_breakers=tuple(name for name in tie_breakers if name),
            primary_key=override.primary_key or self.primary_key or (),
            overlap=overlap if strategy == "merge" else timedelta(),
            max_future_skew=self.max_future_skew if skew is None else skew,
            null_watermark=override.null_watermark or self.null_watermark,
            schema_ddl=override.schema_ddl or self.source.schema_ddl,
            options={**self.source.options, **override.options},
            checks=self.checks.merged_with(override.checks),
        )

    def _override_for(self, table: str) -> TableOverride:
        """Return the table's own settings; a discovered table may go by its last name alone."""
        override = self.table.get(table)
        if override is None and self.discovery is not None:
            override = self.table.get(table.rpartition(".")[2])
        return override or TableOverride()

    def _cursor_with(self, override: TableOverride) -> tuple[str, ...]:
        for level in (override, self):
            if level.watermark:
                return (level.watermark,)
            if level.cursor:
                return level.cursor
        return ()
