"""`[[pipeline.<name>.sinks]]`: where the batches of a stream go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from holdfast.config import sink_rules
from holdfast.config.choosing import chosen_by_type
from holdfast.config.durations import Duration
from holdfast.config.options import Options
from holdfast.config.section import Finding, Section
from holdfast.config.sizes import Size
from holdfast.config.values import (
    Flag,
    Function,
    Location,
    OptionalText,
    Text,
    list_of,
    one_of,
    whole_number,
)

OnFailure = Literal["spool", "drop"]
WhenFull = Literal["wait", "drop"]

_Columns = Annotated[tuple[Text, ...], list_of("column names", '["id"]')]


class Retry(Section):
    """How often, and how fast, a delivery is tried again before the commit policy decides."""

    attempts: Annotated[int, whole_number(1, 1000)] = 3
    first_delay: Duration = timedelta(seconds=0.5)
    max_delay: Duration = timedelta(seconds=30)

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield delays that shrink."""
        return sink_rules.delays(data, cls.model_fields)


class Spool(Section):
    """Where the batches of an optional sink wait while it is down."""

    max_bytes: Size = 1 << 30
    when_full: Annotated[WhenFull, one_of(WhenFull)] = "wait"


class SinkConfig(Section):
    """What every sink has."""

    name: Annotated[str, BeforeValidator(sink_rules.sink_name)] = Field(
        description="the name of the sink, by which it is shown and remembered"
    )
    required: Flag = True
    on_failure: Annotated[OnFailure, one_of(OnFailure)] = "spool"
    retry: Retry = Field(default_factory=Retry)
    spool: Spool = Field(default_factory=Spool)

    @classmethod
    def broken_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the keys that do not go together."""
        yield from sink_rules.waiting(data)
        yield from cls.own_rules(data)

    @classmethod
    def own_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong for this type of sink."""
        del data
        yield from ()


class FilesSink(SinkConfig):
    """A directory of files that Spark writes, one subdirectory per epoch."""

    type: Literal["files"]
    format: Annotated[str, BeforeValidator(sink_rules.file_format)] = "parquet"
    path: Location = Field(description="the directory the epochs are written below")
    options: Options = Field(default_factory=dict)


class DeltaSink(SinkConfig):
    """A Delta table, appended to."""

    type: Literal["delta"]
    path: Location = Field(description="the directory of the Delta table")


PostgresMode = Literal["append", "upsert"]


class PostgresSink(SinkConfig):
    """A table in PostgreSQL."""

    type: Literal["postgres"]
    url: Text = Field(
        description='an address such as "postgresql://user:${PASSWORD}@host/database"'
    )
    table: Text = Field(description='the table, for example "public.orders"')
    mode: Annotated[PostgresMode, one_of(PostgresMode)] = "append"
    key: _Columns | None = None
    """The columns that identify a row, for `upsert`."""
    create_table: Flag = True
    epoch_column: OptionalText = None
    """With `append`: a bigint column for the epoch, by which a roll-back removes rows."""

    @classmethod
    def own_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong for this type of sink."""
        return sink_rules.postgres(data)


ValkeyMode = Literal["hash", "stream"]


class ValkeySink(SinkConfig):
    """Hashes or a stream in Valkey or Redis."""

    type: Literal["valkey"]
    url: Text = Field(description='an address such as "valkey://:${PASSWORD}@host:6379/0"')
    mode: Annotated[ValkeyMode, one_of(ValkeyMode)] = "hash"
    key: Text = Field(
        description='the name of the stream, or the pattern of the hashes, "order:{id}"'
    )
    max_length: Annotated[int, whole_number(1)] | None = None
    """With `stream`: about how many entries are kept."""

    @classmethod
    def own_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong for this type of sink."""
        return sink_rules.valkey(data)


class KafkaSink(SinkConfig):
    """A topic in Kafka, written in transactions."""

    type: Literal["kafka"]
    brokers: Text = Field(description='addresses such as "host:9092"')
    topic: Text = Field(description="the topic")
    key: OptionalText = None
    """A Spark SQL expression for the key of a message; none by default."""
    value: OptionalText = None
    """A Spark SQL expression for its value; the row as JSON by default."""
    options: Options = Field(default_factory=dict)

    @classmethod
    def own_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong for this type of sink."""
        return sink_rules.kafka(data)


class HttpSink(SinkConfig):
    """An HTTP endpoint that takes JSON."""

    type: Literal["http"]
    url: Text = Field(description='an address such as "https://host/events"')
    batch_rows: Annotated[int, whole_number(1)] = 1000
    headers: Options = Field(default_factory=dict)
    timeout: Duration = timedelta(seconds=30)
    idempotent: Flag = False
    """The server promises to honour the Idempotency-Key header."""

    @classmethod
    def own_rules(cls, data: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong for this type of sink."""
        return sink_rules.http(data)


class ConsoleSink(SinkConfig):
    """The terminal, for trying things out."""

    type: Literal["console"]
    rows: Annotated[int, whole_number(1)] = 20


class PythonSink(SinkConfig):
    """A function of the user's own."""

    type: Literal["python"]
    function: Function = Field(description='"module:function", called with a DataFrame and a Token')
    idempotent: Flag = False
    """The function promises that a token that comes again changes nothing."""


SINKS: Final[Mapping[str, type[SinkConfig]]] = {
    "files": FilesSink,
    "delta": DeltaSink,
    "postgres": PostgresSink,
    "valkey": ValkeySink,
    "kafka": KafkaSink,
    "http": HttpSink,
    "console": ConsoleSink,
    "python": PythonSink,
}
"""The section behind each `type`."""

AnySink = Annotated[
    FilesSink
    | DeltaSink
    | PostgresSink
    | ValkeySink
    | KafkaSink
    | HttpSink
    | ConsoleSink
    | PythonSink,
    chosen_by_type(SINKS),
]
