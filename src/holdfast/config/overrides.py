"""`[pipeline.<name>.table.<table>]`: settings of one table over those of its pipeline."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holdfast.config.checks import ChecksConfig
from holdfast.config.durations import Duration
from holdfast.config.options import Options
from holdfast.config.section import Section
from holdfast.config.values import OptionalText, Text, list_of, one_of
from holdfast.model import Strategy

NullWatermark = Literal["fail", "skip"]

Columns = Annotated[tuple[Text, ...], list_of("column names", '["id"]')]
Cursor = Annotated[tuple[Text, ...], list_of("column names", '["updated_at", "id"]')]


class TableOverride(Section):
    """What one table does differently; a key that is not set is the pipeline's."""

    watermark: OptionalText = None
    cursor: Cursor | None = None
    strategy: Annotated[Strategy | None, one_of(Strategy, optional=True)] = None
    primary_key: Columns | None = None
    overlap: Duration | None = None
    max_future_skew: Duration | None = None
    null_watermark: Annotated[NullWatermark | None, one_of(NullWatermark, optional=True)] = None
    schema_ddl: OptionalText = Field(default=None, alias="schema")
    options: Options = Field(default_factory=dict)
    checks: ChecksConfig = Field(default_factory=ChecksConfig)
