"""Whether a sink could write, seen without writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.spark.sinks.postgres_table import Target

if TYPE_CHECKING:
    from holdfast.spark.sinks.postgres_place import Session


def check_place(session: Session, target: Target, epoch_column: str | None) -> None:
    """Raise what a delivery would, as far as that can be known beforehand."""
    _check_bookkeeping(session, target)
    _check_tokens(session, target)
    columns = target.columns(session)
    if columns is None:
        _check_creation(session, target)
        return
    table = target.name.identifier.as_string(session)
    needed = ["INSERT", "SELECT"]
    needed += ["UPDATE"] if target.key else []
    needed += ["DELETE"] if epoch_column else []
    for privilege in needed:
        if not _holds(session, "has_table_privilege(%s, %s)", table, privilege):
            user = _user(session)
            raise SinkUnavailable(
                f"{target.what}: the user {user} may not {privilege} on {target.name}.",
                hint=f"GRANT {', '.join(needed)} ON {table} TO {user}",
            )
    check_key(session, target)


def _check_bookkeeping(session: Session, target: Target) -> None:
    if _holds(session, "pg_is_in_recovery()"):
        raise SinkUnavailable(
            f"{target.what}: the server is a standby and takes no writes.",
            hint="Point the sink's url at the primary.",
        )
    if _holds(session, "to_regnamespace('holdfast') IS NULL"):
        allowed = _holds(session, "has_database_privilege(current_database(), 'CREATE')")
    else:
        allowed = _holds(session, "has_schema_privilege('holdfast', 'CREATE')")
    if not allowed:
        raise SinkUnavailable(
            f"{target.what}: the user {_user(session)} may not create tables in the schema "
            "holdfast, where the sink keeps its last token.",
            hint="Let an administrator: CREATE SCHEMA IF NOT EXISTS holdfast; "
            f"GRANT ALL ON SCHEMA holdfast TO {_user(session)}",
        )


def _check_tokens(session: Session, target: Target) -> None:
    if _holds(session, "to_regclass('holdfast.tokens') IS NULL"):
        return
    for privilege in ("SELECT", "INSERT", "UPDATE"):
        if not _holds(session, "has_table_privilege('holdfast.tokens', %s)", privilege):
            user = _user(session)
            raise SinkUnavailable(
                f"{target.what}: the user {user} may not {privilege} on holdfast.tokens, where "
                "the sink keeps its last token.",
                hint=f"GRANT SELECT, INSERT, UPDATE ON holdfast.tokens TO {user}",
            )


def _check_creation(session: Session, target: Target) -> None:
    from psycopg.sql import Identifier

    if not target.create:
        raise SinkRefused(
            f"{target.what}: there is no table {target.name}, and create_table is false.",
            hint="Create it, or set create_table = true.",
        )
    schema = target.name.schema
    if schema is None:
        missing = _holds(session, "current_schema() IS NULL")
    else:
        quoted = Identifier(schema).as_string(session)
        missing = _holds(session, "to_regnamespace(%s) IS NULL", quoted)
    if missing:
        name = schema or "public"
        raise SinkRefused(
            f"{target.what}: there is no schema {name}.",
            hint=f"Create it: CREATE SCHEMA {Identifier(name).as_string(session)}",
        )
    if not _holds(
        session,
        "has_schema_privilege(coalesce(%s::text, current_schema()::text), 'CREATE')",
        schema,
    ):
        raise SinkUnavailable(
            f"{target.what}: the user {_user(session)} may not create a table there.",
            hint="Grant CREATE on the schema, or create the table and grant INSERT on it.",
        )


def check_key(session: Session, target: Target) -> None:
    """Raise unless something in the table keeps the key unique; it has to be there."""
    from psycopg import errors
    from psycopg.sql import SQL, Identifier

    if not target.key:
        return
    columns = target.columns(session) or {}
    key = SQL(", ").join(map(Identifier, target.key_columns(tuple(columns))))
    table = target.name.identifier
    try:
        # Planned, not run: PostgreSQL itself says whether the key is one.
        session.execute(
            SQL("EXPLAIN INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO NOTHING").format(
                table, key, key, table, key
            )
        )
    except errors.InvalidColumnReference:
        statement = SQL("CREATE UNIQUE INDEX ON {} ({})").format(table, key)
        raise SinkRefused(
            f"{target.what}: the table has no unique index on its key, {', '.join(target.key)}.",
            hint=f"Make one: {statement.as_string(session)}",
        ) from None


def _holds(session: Session, condition: str, *values: str | None) -> bool:
    row = session.execute(f"SELECT {condition}".encode(), values or None).fetchone()
    return row is not None and bool(row[0])


def _user(session: Session) -> str:
    row = session.execute("SELECT quote_ident(current_user)").fetchone()
    return str(row[0]) if row is not None else "of the sink's url"
