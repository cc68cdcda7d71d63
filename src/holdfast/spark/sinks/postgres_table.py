"""The table the rows go to: how it looks, how it is made, how rows get into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from holdfast.errors import SinkRefused
from holdfast.spark.sinks.postgres_place import TableName, check_column_name
from holdfast.spark.sinks.postgres_tokens import take_turn_creating
from holdfast.spark.sinks.postgres_types import postgres_type

if TYPE_CHECKING:
    from psycopg.sql import Composed, Identifier

    from holdfast.spark.sinks.postgres_place import Session

_TABLES = ("r", "p", "f")  # plain, partitioned, foreign


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """A column of the batch, and the one of the table that takes it."""

    field: StructField
    name: str
    """In the table: it may differ in case."""
    kind: str
    """The type it has in the table, in PostgreSQL's words."""


@dataclass(frozen=True, slots=True)
class Target:
    """One table, looked at and changed inside the caller's transaction."""

    name: TableName
    key: tuple[str, ...]
    """Not empty for `upsert`."""
    create: bool
    what: str
    """What messages begin with."""

    def fit(self, session: Session, schema: StructType) -> tuple[FittedColumn, ...]:
        """Make the table fit the columns, or refuse them; say which column goes where."""
        self._refuse_unfit(schema)
        columns = self.columns(session)
        if columns is None or any(match_column(field.name, columns) is None for field in schema):
            if self.create:
                take_turn_creating(session)
                columns = self.columns(session)
            columns = self._made(session, schema, columns)
        fitted = []
        for field in schema:
            name = match_column(field.name, columns)
            assert name is not None, "it was there, or was added"
            fitted.append(FittedColumn(field, name, columns[name]))
        return tuple(fitted)

    def columns(self, session: Session) -> dict[str, str] | None:
        """The types of the table's columns by name; `None` if there is no table."""
        table = self.name.identifier.as_string(session)
        found = session.execute(
            "SELECT oid::bigint, relkind::text FROM pg_class WHERE oid = to_regclass(%s)", (table,)
        ).fetchone()
        if found is None:
            return None
        oid, kind = found
        if kind not in _TABLES:
            raise SinkRefused(
                f"{self.what}: {self.name} is not a table.",
                hint="Name a table; views and the like cannot be written to.",
            )
        rows = session.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (oid,),
        )
        return dict(rows.fetchall())

    def _refuse_unfit(self, schema: StructType) -> None:
        names = [field.name.lower() for field in schema]
        for field in schema:
            check_column_name(field.name, self.what)
            if names.count(field.name.lower()) > 1:
                raise SinkRefused(
                    f"{self.what}: the batch has the column {field.name} twice (names differ at "
                    "most in case).",
                    hint="Rename one of them before the sink.",
                )
            if postgres_type(field.dataType) is None:
                raise SinkRefused(
                    f"{self.what}: the column {field.name} is of the type "
                    f"{field.dataType.simpleString()}, which PostgreSQL does not have.",
                    hint="Cast it before the sink, for example to a string.",
                )
        for name in self.key:
            if match_column(name, schema.names) is None:
                raise SinkRefused(
                    f"{self.what}: the batch has no column {name}, which is part of the key.",
                    hint=f"Its columns are {', '.join(schema.names)}. Correct the sink's key.",
                )

    def _made(
        self, session: Session, schema: StructType, columns: dict[str, str] | None
    ) -> dict[str, str]:
        if columns is None:
            statement = self._create_statement(schema)
            lacking = f"there is no table {self.name}"
        else:
            missing = [field for field in schema if match_column(field.name, columns) is None]
            if not missing:
                return columns
            statement = self._alter_statement(missing)
            names = ", ".join(field.name for field in missing)
            lacking = f"the table {self.name} has no column {names}"
        if not self.create:
            raise SinkRefused(
                f"{self.what}: {lacking}, and create_table is false.",
                hint=f"Make it, or set create_table = true: {statement.as_string(session)}",
            )
        session.execute(statement)
        made = self.columns(session)
        assert made is not None, "it was just made"
        return made

    def _create_statement(self, schema: StructType) -> Composed:
        from psycopg.sql import SQL, Identifier

        parts: list[Any] = [self._definition(field) for field in schema]
        if self.key:
            key = [Identifier(name) for name in self.key_columns(schema.names)]
            parts.append(SQL("PRIMARY KEY ({})").format(SQL(", ").join(key)))
        return SQL("CREATE TABLE {} ({})").format(self.name.identifier, SQL(", ").join(parts))

    def _alter_statement(self, missing: Sequence[StructField]) -> Composed:
        from psycopg.sql import SQL

        added = [SQL("ADD COLUMN {}").format(self._definition(field)) for field in missing]
        return SQL("ALTER TABLE {} {}").format(self.name.identifier, SQL(", ").join(added))

    @staticmethod
    def _definition(field: StructField) -> Composed:
        from psycopg.sql import SQL, Identifier

        kind = postgres_type(field.dataType)
        assert kind is not None, "refused before"
        # One of our own few words, never the user's: only the name needs quoting.
        return SQL("{} {}").format(Identifier(field.name), SQL(kind))

    def insert(
        self, session: Session, columns: Sequence[str], sources: Sequence[Identifier]
    ) -> None:
        """Move the rows of staging tables into the table.

        With a key, a row that is there is replaced. Of several rows of one key in a batch one is
        taken: which, nobody says, for a batch has no order.
        """
        from psycopg.sql import SQL, Identifier

        names = SQL(", ").join(map(Identifier, columns))
        rows = SQL(" UNION ALL ").join(
            SQL("SELECT {} FROM {}").format(names, source) for source in sources
        )
        into = SQL("INSERT INTO {} ({}) ").format(self.name.identifier, names)
        if not self.key:
            session.execute(into + rows)
            return
        key_names = self.key_columns(columns)
        self._refuse_null_keys(session, key_names, rows)
        key = SQL(", ").join(map(Identifier, key_names))
        changes = [
            SQL("{} = EXCLUDED.{}").format(Identifier(name), Identifier(name))
            for name in columns
            if name not in key_names
        ]
        action = SQL("UPDATE SET {}").format(SQL(", ").join(changes)) if changes else SQL("NOTHING")
        session.execute(
            into
            + SQL("SELECT DISTINCT ON ({}) {} FROM ({}) staged ").format(key, names, rows)
            + SQL("ON CONFLICT ({}) DO {}").format(key, action)
        )

    def key_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The key, as the table spells it."""
        return tuple(match_column(name, columns) or name for name in self.key)

    def _refuse_null_keys(self, session: Session, key: Sequence[str], rows: Composed) -> None:
        from psycopg.sql import SQL, Identifier

        for name in key:
            found = session.execute(
                SQL("SELECT 1 FROM ({}) staged WHERE {} IS NULL LIMIT 1").format(
                    rows, Identifier(name)
                )
            ).fetchone()
            if found is not None:
                # A unique index lets any number of them in: every replay would add one more.
                raise SinkRefused(
                    f"{self.what}: there are rows without a value in {name}, which is part of "
                    "the key.",
                    hint="Leave them out before the sink, or give them a value.",
                )


def match_column(name: str, columns: Iterable[str]) -> str | None:
    """Find a column: by its name as it is, or else by the only one that differs just in case."""
    alike = [column for column in columns if column.lower() == name.lower()]
    if name in alike:
        return name
    return alike[0] if len(alike) == 1 else None
