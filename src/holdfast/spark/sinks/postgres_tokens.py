"""The schema `holdfast` in the database: the last token of every sink, and what is staged.

    holdfast.tokens                                          one row per pipeline and sink
    holdfast.s_<owner>_<generation>_<epoch>_<run>_<partition>_<task attempt>
                                                             rows one task staged

`owner` is a hash of pipeline and sink, `run` a random number per delivery: two tries of the same
batch never share a staging table.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.model import Token
from holdfast.spark.sinks.refusals import repeated, rolled_back

if TYPE_CHECKING:
    from holdfast.spark.sinks.postgres_place import Session

SCHEMA = "holdfast"
# Any fixed number: whoever creates things in a database does so one after the other, because
# CREATE ... IF NOT EXISTS fails when two do it at once.
_CREATING = 0x686F6C64
_CREATE_TOKENS = """
CREATE TABLE IF NOT EXISTS holdfast.tokens (
    pipeline text NOT NULL,
    sink text NOT NULL,
    generation bigint,
    epoch bigint,
    batch text NOT NULL DEFAULT '',
    rows bigint,
    delivered_at timestamp with time zone,
    PRIMARY KEY (pipeline, sink)
)
"""
# Tables of the first versions were without it.
_ADD_BATCH = "ALTER TABLE holdfast.tokens ADD COLUMN IF NOT EXISTS batch text NOT NULL DEFAULT ''"
_BATCH = (
    "(SELECT attnum FROM pg_attribute WHERE attrelid = to_regclass('holdfast.tokens') "
    "AND attname = 'batch' AND NOT attisdropped)"
)


def take_turn_creating(session: Session) -> None:
    """Let nobody else of Holdfast create anything in this database until the transaction ends."""
    session.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))


@dataclass(frozen=True, slots=True)
class LastToken:
    """The last token that was taken, and how many rows came under it."""

    token: Token | None
    rows: int | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token of one sink of one pipeline."""

    pipeline: str
    sink: str

    def lock(self, session: Session) -> LastToken:
        """Read the last token; until the transaction ends nobody else can.

        Two processes that deliver to the same sink queue up here, and the second one sees what
        the first did.
        """
        # Asked before, because it locks the table even if there is nothing to add.
        if not _is_there(session, _BATCH):
            take_turn_creating(session)
            # Not IF NOT EXISTS: it asks for a right that a user with a schema need not have.
            if not _is_there(session, "to_regnamespace('holdfast')"):
                session.execute("CREATE SCHEMA holdfast")
            session.execute(_CREATE_TOKENS)
            session.execute(_ADD_BATCH)
        session.execute(
            "INSERT INTO holdfast.tokens (pipeline, sink) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (self.pipeline, self.sink),
        )
        found = session.execute(
            "SELECT generation, epoch, batch, rows FROM holdfast.tokens "
            "WHERE pipeline = %s AND sink = %s FOR UPDATE",
            (self.pipeline, self.sink),
        ).fetchone()
        assert found is not None, "it was inserted, and nobody deletes it while we wait"
        generation, epoch, batch, rows = found
        if generation is None:
            return LastToken(None, None)
        return LastToken(Token(self.pipeline, generation, epoch, batch), rows)

    def repeated(self, token: Token, last: LastToken, after: Token | None) -> bool:
        """Whether `token` is the last one; raises if it must not be taken."""
        return repeated(self.sink, token, last.token, after=after, hint=self._hint())

    def rolled_back(self, to: Token, last: LastToken) -> bool:
        """Whether a roll-back was heard of before; raises if a newer run has begun."""
        return rolled_back(self.sink, to, last.token, hint=self._hint())

    def _hint(self) -> str:
        pipeline, sink = (name.replace("'", "''") for name in (self.pipeline, self.sink))
        return (
            "If the pipeline was started from nothing on purpose: DELETE FROM "
            f"holdfast.tokens WHERE pipeline = '{pipeline}' AND sink = '{sink}'"
        )

    def write(self, session: Session, token: Token, rows: int | None) -> None:
        """Make `token` the last one."""
        session.execute(
            "UPDATE holdfast.tokens SET generation = %s, epoch = %s, batch = %s, rows = %s, "
            "delivered_at = clock_timestamp() WHERE pipeline = %s AND sink = %s",
            (token.generation, token.epoch, token.batch, rows, self.pipeline, self.sink),
        )

    def new_prefix(self, token: Token) -> str:
        """What the names of the staging tables of one try of a delivery begin with."""
        run = secrets.token_hex(4)
        return f"{self._owner}_{token.generation}_{token.epoch}_{run}_"

    def drop_staged(self, session: Session, up_to: Token) -> None:
        """Drop what earlier tries left behind; what a newer process is staging stays.

        What was staged under `up_to` itself goes too: were it kept, a batch that is tried again
        for hours would fill the server's disk. Only call it with the token locked.
        """
        from psycopg.sql import SQL, Identifier

        names = session.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('holdfast') "
            "AND relkind = 'r' AND starts_with(relname, %s)",
            (f"{self._owner}_",),
        ).fetchall()
        pattern = re.compile(rf"{self._owner}_(\d+)_(\d+)_")
        for (name,) in names:
            match = pattern.match(name)
            if match is None or (int(match[1]), int(match[2])) > (up_to.generation, up_to.epoch):
                continue
            session.execute(SQL("DROP TABLE {}").format(Identifier(SCHEMA, name)))

    @property
    def _owner(self) -> str:
        text = f"{self.pipeline}\0{self.sink}".encode()
        return "s_" + hashlib.blake2b(text, digest_size=6).hexdigest()


def _is_there(session: Session, what: str) -> bool:
    row = session.execute(f"SELECT {what} IS NOT NULL".encode()).fetchone()
    return row is not None and bool(row[0])
