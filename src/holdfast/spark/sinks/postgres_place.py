"""Where the rows go: a server, a database and a table, and how they are named without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigError, SinkRefused

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Identifier

    Session = Connection[tuple[Any, ...]]

_NAME_BYTES = 63
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True, slots=True)
class Place:
    """A database; this value travels to the executors."""

    url: str = field(repr=False)
    address: str
    """`postgresql://host:port/database`"""

    @classmethod
    def parse(cls, url: str, sink: str) -> Place:
        """Read a `postgresql://` URL or a `key=value` conninfo."""
        require_client()
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict

        try:
            parts = conninfo_to_dict(url)
        except Error:
            # What psycopg says about it may show the password.
            raise ConfigError(
                f"Sink {sink}: its url is not one of PostgreSQL.",
                hint="Write it like postgresql://user:${PASSWORD}@host:5432/database, with special "
                "characters of the password percent-encoded.",
            ) from None
        host = str(parts.get("host") or parts.get("hostaddr") or "localhost")
        port = str(parts.get("port") or 5432)
        database = str(parts.get("dbname") or parts.get("user") or "")
        return cls(url, f"postgresql://{host}:{port}/{database}")

    def connect(self) -> Session:
        """Open a connection in which every statement commits by itself."""
        from psycopg import connect
        from psycopg.conninfo import conninfo_to_dict

        given = conninfo_to_dict(self.url)
        usual: dict[str, Any] = {
            "connect_timeout": 10,
            "application_name": "holdfast",
            # While Spark works the connection is idle, and a firewall may forget it.
            "keepalives_idle": 30,
        }
        settings = {key: value for key, value in usual.items() if key not in given}
        # Prepared statements would not survive a pooler between us and the server.
        return connect(self.url, autocommit=True, prepare_threshold=None, **settings)


def prepare_transaction(session: Session) -> None:
    """Make this transaction read times as we write them, and wait for no lock for ever."""
    session.execute(
        "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; "
        "SET LOCAL client_encoding = 'UTF8'; SET LOCAL lock_timeout = '30s'"
    )


@dataclass(frozen=True, slots=True)
class TableName:
    """`table` or `schema.table`, as it is in the database: upper case stays upper case."""

    schema: str | None
    table: str

    @classmethod
    def parse(cls, text: str, sink: str) -> TableName:
        """Read the name; a part with a dot in it is put in double quotes."""
        parts: list[str] = []
        position = 0
        while match := _PART.match(text, position):
            parts.append(match[1].replace('""', '"') if match[1] else match[2])
            position = match.end()
            if position == len(text) or text[position] != ".":
                break
            position += 1
        if position != len(text) or text.endswith(".") or not 1 <= len(parts) <= 2:
            raise ConfigError(
                f"Sink {sink}: {text} is not the name of a table.",
                hint='Write it like orders or public.orders; a part with a dot in it like "a.b".',
            )
        for part in parts:
            if len(part.encode()) > _NAME_BYTES or "\0" in part:
                raise ConfigError(
                    f"Sink {sink}: {part} is too long for a name in PostgreSQL.",
                    hint=f"Names have at most {_NAME_BYTES} bytes.",
                )
        return cls(parts[0] if len(parts) == 2 else None, parts[-1])

    @property
    def identifier(self) -> Identifier:
        """The name, quoted for a statement."""
        from psycopg.sql import Identifier

        return Identifier(self.schema, self.table) if self.schema else Identifier(self.table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


def check_column_name(name: str, what: str) -> None:
    """Refuse a name that PostgreSQL would cut short."""
    if len(name.encode()) > _NAME_BYTES:
        raise SinkRefused(
            f"{what}: the column {name} has too long a name for PostgreSQL.",
            hint=f"Rename it: names have at most {_NAME_BYTES} bytes.",
        )


def require_client() -> None:
    """See that psycopg is there."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"A postgres sink needs psycopg, which cannot be loaded: {error}.",
            hint="Install the extra `postgres` of Holdfast, or: pip install 'psycopg[binary]'",
        ) from error
