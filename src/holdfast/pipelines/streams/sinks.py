"""Sinks for `Stream.to`, one function each; the keys are those of the configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.model import Token
    from holdfast.spark.session import DataFrame


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink as it would stand in the configuration file."""

    type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[[DataFrame, Token], object] | None = None


def files(
    path: str, *, format: str = "parquet", options: Mapping[str, str] | None = None
) -> SinkSpec:
    """Files that Spark writes, one directory per epoch. Exactly once."""
    return _spec("files", path=str(path), format=format, options=options)


def delta(path: str) -> SinkSpec:
    """A Delta table, appended to. Exactly once."""
    return _spec("delta", path=str(path))


def postgres(
    url: str,
    table: str,
    *,
    mode: Literal["append", "upsert"] = "append",
    key: Sequence[str] | None = None,
    create_table: bool = True,
    epoch_column: str | None = None,
) -> SinkSpec:
    """A table in PostgreSQL. Exactly once."""
    return _spec(
        "postgres",
        url=url,
        table=table,
        mode=mode,
        key=None if key is None else list(key),
        create_table=create_table,
        epoch_column=epoch_column,
    )


def valkey(
    url: str,
    key: str,
    *,
    mode: Literal["hash", "stream"] = "hash",
    max_length: int | None = None,
) -> SinkSpec:
    """Hashes or a stream in Valkey or Redis. Exactly once."""
    return _spec("valkey", url=url, key=key, mode=mode, max_length=max_length)


def kafka(
    brokers: str,
    topic: str,
    *,
    key: str | None = None,
    value: str | None = None,
    options: Mapping[str, str] | None = None,
) -> SinkSpec:
    """A topic in Kafka, written in transactions. Exactly once for readers of committed rows."""
    return _spec("kafka", brokers=brokers, topic=topic, key=key, value=value, options=options)


def http(
    url: str,
    *,
    batch_rows: int = 1000,
    headers: Mapping[str, str] | None = None,
    timeout: str = "30s",
    idempotent: bool = False,
) -> SinkSpec:
    """An HTTP endpoint that takes JSON. At least once, unless it honours the Idempotency-Key."""
    return _spec(
        "http",
        url=url,
        batch_rows=batch_rows,
        headers=headers,
        timeout=timeout,
        idempotent=idempotent,
    )


def console(*, rows: int = 20) -> SinkSpec:
    """The terminal, for trying things out."""
    return _spec("console", rows=rows)


def python(function: Callable[[DataFrame, Token], object], *, idempotent: bool = False) -> SinkSpec:
    """A function of your own, called with the rows and their token."""
    # The rules of the file want the name of a function; this one needs none.
    spec = _spec("python", function="given:function", idempotent=idempotent)
    return SinkSpec(spec.type, spec.settings, function)


def _spec(kind: str, **settings: Any) -> SinkSpec:
    return SinkSpec(kind, {key: value for key, value in settings.items() if value is not None})
