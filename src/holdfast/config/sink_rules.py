"""The rules over the keys of one sink.

They look at the table as written; a message never shows an address, which may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from pydantic.fields import FieldInfo

from holdfast.config.durations import describe_duration, parse_duration
from holdfast.config.options import option_names
from holdfast.config.section import Finding, expected
from holdfast.config.spelling import closest
from holdfast.config.values import in_words, repeated_items

Table = Mapping[str, Any]

SINK_FILE_FORMATS: Final = ("parquet", "orc", "csv", "json", "avro", "xml", "text")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_CONNINFO: Final = re.compile(r"\s*[a-z_]+\s*=")
"""The other way to write an address of PostgreSQL: `host=... dbname=...`."""
_COLUMN: Final = re.compile(r"\{[^{}]+\}")
_OTHER_SINKS: Final = {
    "delta": 'use type = "delta"',
    "kafka": 'use type = "kafka"',
    "console": 'use type = "console"',
    "jdbc": 'use type = "postgres", or a function of your own with type = "python"',
    "table": 'use type = "delta", or type = "files" with a format',
    "hive": 'use type = "delta", or type = "files" with a format',
    "memory": "it keeps nothing",
    "noop": "it keeps nothing",
}


def sink_name(value: Any) -> str:
    """Accept a name that can be part of a file's name and of a command."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise expected("a name made of letters, digits, _ and -")
    return str(value)


def file_format(value: Any) -> str:
    """Accept a format that Spark writes as files, and say which sink writes another one."""
    lowered = value.lower() if isinstance(value, str) else ""
    if lowered in SINK_FILE_FORMATS:
        return str(lowered)
    if lowered in _OTHER_SINKS:
        message = f'"{lowered}" is not a format of files; {_OTHER_SINKS[lowered]}'
        raise Finding(message=message).as_error()
    meant = closest(lowered, SINK_FILE_FORMATS)
    raise expected(in_words(SINK_FILE_FORMATS), suggestion=f'"{meant}"' if meant else "")


def delays(data: Table, fields: Mapping[str, FieldInfo]) -> Iterator[Finding]:
    """Yield a longest delay that is shorter than the first one."""
    first, longest = (
        parse_duration(data.get(key, fields[key].default)) for key in ("first_delay", "max_delay")
    )
    if first is not None and longest is not None and longest < first:
        key = "max_delay" if "max_delay" in data else "first_delay"
        words = f"max_delay ({describe_duration(longest)}) is shorter than first_delay"
        yield Finding((key,), f"{words} ({describe_duration(first)})")


def waiting(data: Table) -> Iterator[Finding]:
    """Yield a spool for batches that are dropped instead."""
    if data.get("on_failure") == "drop" and "spool" in data:
        yield Finding(("spool",), 'has no meaning with on_failure = "drop": no batch waits')


def postgres(data: Table) -> Iterator[Finding]:
    """Yield what is wrong with a table in PostgreSQL."""
    url, mode = data.get("url"), data.get("mode", "append")
    if _is_known(url):
        if url.lower().startswith("jdbc:"):
            message = "is a JDBC address; write it without `jdbc:` and with the user in it, as in"
            yield Finding(("url",), f'{message} "postgresql://user@host/database"')
        elif _scheme(url) not in ("postgresql", "postgres") and not _CONNINFO.match(url):
            message = 'expected an address such as "postgresql://user@host/database"'
            yield Finding(("url",), message)
    yield from repeated_items("key", data.get("key"))
    if mode == "upsert" and data.get("key") is None:
        message = 'this key is missing; mode "upsert" needs the columns that identify a row,'
        yield Finding(("key",), f'{message} for example key = ["id"]')
    if mode == "append" and data.get("key") is not None:
        yield Finding(("key",), 'has no meaning with mode "append"; use mode = "upsert"')
    if mode == "upsert" and data.get("epoch_column") is not None:
        message = 'has no meaning with mode "upsert": a row that was replaced cannot come back'
        yield Finding(("epoch_column",), message)


def valkey(data: Table) -> Iterator[Finding]:
    """Yield what is wrong with hashes or a stream in Valkey."""
    url, mode, key = data.get("url"), data.get("mode", "hash"), data.get("key")
    schemes = ("valkey", "valkeys", "redis", "rediss", "unix")
    if _is_known(url) and _scheme(url) not in schemes:
        yield Finding(("url",), 'expected an address such as "valkey://host:6379/0"')
    if mode == "hash" and data.get("max_length") is not None:
        yield Finding(("max_length",), 'has no meaning with mode "hash", only with "stream"')
    # A variable that is not set is reported elsewhere: its ${...} is not a column.
    if not _is_known(key):
        return
    rest, columns = _COLUMN.subn("", key)
    if mode == "hash" and ("{" in rest or "}" in rest):
        yield Finding(
            ("key",), f'found "{key}": a {{ or }} has no partner, or no column between them'
        )
    elif mode == "hash" and not columns:
        message = f'found "{key}": every row would be written to the same hash; name the column'
        yield Finding(("key",), f'{message} that tells rows apart, as in "order:{{id}}"')
    elif mode == "stream" and ("{" in key or "}" in key):
        message = f'found "{key}": mode "stream" writes to one stream, whose name has no'
        yield Finding(("key",), f"{message} {{column}} in it")


def kafka(data: Table) -> Iterator[Finding]:
    """Yield options that the sink has keys for, or decides itself."""
    names = option_names(data.get("options"))
    for name, instead in (
        ("bootstrap.servers", "use the key `brokers`"),
        ("kafka.bootstrap.servers", "use the key `brokers`"),
        ("topic", "use the key `topic`"),
    ):
        if name in names:
            yield Finding(("options", names[name]), f"cannot be set here; {instead}")


def http(data: Table) -> Iterator[Finding]:
    """Yield what is wrong with an HTTP endpoint."""
    url = data.get("url")
    if _is_known(url) and not _is_web_address(url):
        yield Finding(("url",), 'expected an address such as "https://host/events"')
    timeout = parse_duration(data.get("timeout", 1))
    if timeout is not None and not timeout:
        yield Finding(("timeout",), "must be longer than 0: no request could ever succeed")


def _scheme(url: str) -> str:
    return url.partition("://")[0].strip().lower() if "://" in url else ""


def _is_known(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip()) and "${" not in value


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
