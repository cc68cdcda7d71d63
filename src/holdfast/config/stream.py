"""`[pipeline.<name>]` of type `stream`: micro-batches to several sinks, one checkpoint each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from holdfast.config import sink_rules, stream_rules
from holdfast.config.durations import Duration
from holdfast.config.options import Options
from holdfast.config.section import Finding, Section
from holdfast.config.sinks import AnySink
from holdfast.config.sizes import Size
from holdfast.config.stream_paths import own_output
from holdfast.config.values import (
    Flag,
    Location,
    OptionalFunction,
    OptionalLocation,
    OptionalText,
    Text,
    list_of,
    one_of,
    whole_number,
)

CommitPolicy = Literal["all", "required", "quorum"]
OnSchemaChange = Literal["refuse", "continue"]

_Expressions = Annotated[
    tuple[Text, ...], list_of("SQL expressions", '["merchant", "paise / 100 as rupees"]')
]


class StreamSource(Section):
    """Where the rows come from: anything Spark reads as a stream."""

    format: Annotated[str, BeforeValidator(stream_rules.stream_format)] = Field(
        description='a Spark streaming format such as "json" or "kafka"'
    )
    path: OptionalLocation = None
    options: Options = Field(default_factory=dict)
    schema_ddl: OptionalText = Field(default=None, alias="schema")

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the keys that the format needs and those it cannot use."""
        return stream_rules.source_rules(data)


class BatchLimits(Section):
    """How much goes into one micro-batch, and when it is committed."""

    max_events: Annotated[int, whole_number(1)] | None = None
    max_files: Annotated[int, whole_number(1)] | None = None
    max_bytes: Size | None = None
    max_ms: Annotated[int, whole_number(0)] | None = None
    """The longest rows wait for others: a batch starts this often; none waits by default."""
    respect_source_tx: Flag = False
    max_inflight: Annotated[int, whole_number(1)] = 1
    commit_policy: Annotated[CommitPolicy, one_of(CommitPolicy)] = "required"
    quorum: Annotated[int, whole_number(1)] | None = None

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what Spark cannot do, whatever the source."""
        return stream_rules.batch_rules(data)


class Retention(Section):
    """Which checkpoints are kept; both must be exceeded before one is deleted."""

    min_count: Annotated[int, whole_number(1)] = 100
    min_age: Duration = timedelta(hours=1)


class CheckpointConfig(Section):
    """Where checkpoints are kept, and for how long."""

    later_keys: ClassVar[tuple[str, ...]] = ("sync",)

    location: Location = Field(default=".holdfast/checkpoints", validate_default=True)
    retain: Retention = Field(default_factory=Retention)
    fail_if_no_checkpoint: Flag = False

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield a place that is not on this machine."""
        return stream_rules.checkpoint_rules(data)


class SourceRetry(Section):
    """How a source that cannot be reached is waited for."""

    first_delay: Duration = timedelta(seconds=1)
    max_delay: Duration = timedelta(minutes=1)
    give_up_after: Duration | None = None
    """How long a source may stay away before the run ends; for ever, or a minute with `once`."""

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield delays that shrink."""
        return sink_rules.delays(data, cls.model_fields)


class StreamPipeline(Section):
    """Delivers micro-batches to sinks and commits a checkpoint after each."""

    later_keys: ClassVar[tuple[str, ...]] = ("operators",)

    type: Literal["stream"]
    source: StreamSource = Field(description="a table with the format and place of the rows")
    where: OptionalText = None
    select: _Expressions | None = None
    sql: OptionalText = None
    """A query over the micro-batch, which it knows as the view `batch`."""
    python: OptionalFunction = None
    """`module:function`, called with the DataFrame and returning one."""
    batch: BatchLimits = Field(default_factory=BatchLimits)
    sinks: Annotated[tuple[AnySink, ...], list_of("sinks", "[[pipeline.<name>.sinks]]")] = Field(
        description="at least one sink, as in [[pipeline.payments.sinks]]"
    )
    # An absent table is validated like an empty one, so that the default location, too, starts
    # at the file's directory.
    checkpoint: CheckpointConfig = Field(
        default_factory=cast(Callable[[], CheckpointConfig], dict), validate_default=True
    )
    source_retry: SourceRetry = Field(default_factory=SourceRetry)
    on_schema_change: Annotated[OnSchemaChange, one_of(OnSchemaChange)] = "refuse"

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the rules over several keys that the pipeline breaks."""
        return stream_rules.pipeline_rules(data, source=StreamSource, batch=BatchLimits)

    @classmethod
    def clashing_paths(cls, data: Mapping[str, Any], base: Path) -> Iterator[Finding]:
        """Yield what would be written where the source is read."""
        return own_output(data, base, source=StreamSource, checkpoint=CheckpointConfig)
