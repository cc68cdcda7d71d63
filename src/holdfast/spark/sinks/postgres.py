"""A table in PostgreSQL, exactly once: the rows and the token are one transaction.

    1 prepare   lock the token; a repeated batch ends here; drop what earlier tries left; make the
                table fit the columns
    2 stage     Spark's tasks copy their rows into staging tables of their own, side by side, or
                hand them over if they are few; a task that was repeated has staged twice, and
                only the table its job answered with counts
    3 deliver   one transaction: lock the token again, move the rows into the table, write the
                token, drop the staging tables

A crash at any point leaves the table as it was before the batch, or with all of it and its token.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from holdfast import failpoints
from holdfast.config.sinks import PostgresSink as PostgresConfig
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model import Guarantee, Token
from holdfast.spark.sinks import postgres_staging as staging
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.postgres_batches import Batches, Staged
from holdfast.spark.sinks.postgres_checks import check_key, check_place
from holdfast.spark.sinks.postgres_errors import explained
from holdfast.spark.sinks.postgres_place import Place, TableName, prepare_transaction
from holdfast.spark.sinks.postgres_table import FittedColumn, Target, match_column
from holdfast.spark.sinks.postgres_tokens import SCHEMA, LastToken, Tokens

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from holdfast.spark.sinks.postgres_place import Session


class PostgresSink(Sink):
    """A table in PostgreSQL.

    With `epoch_column` a roll-back deletes rows by their epoch: such a table belongs to one sink.
    """

    def __init__(self, config: PostgresConfig, *, pipeline: str, spark: SparkSession) -> None:
        super().__init__(config.name)
        del spark  # A batch brings the session it was made in.
        assert config.key or config.mode == "append", "the configuration sees to it"
        self._mode = config.mode
        self._epoch_column = config.epoch_column
        self._place = Place.parse(config.url, config.name)
        self._table = TableName.parse(config.table, config.name)
        self._what = f"Sink {config.name} ({self._table} in {self._place.address})"
        self._target = Target(self._table, config.key or (), config.create_table, self._what)
        self._batches = Batches(self._what)
        self._tokens = Tokens(pipeline, config.name)

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once"

    @property
    def description(self) -> str:
        return f"table {self._table} in {self._place.address} ({self._mode})"

    @property
    def takes_back(self) -> str:
        if self._epoch_column:
            return f"Rows of later epochs are deleted from {self._table}, by {self._epoch_column}."
        if self._mode == "upsert":
            return (
                f"Rows stay in {self._table}; delivering again overwrites them by their key. "
                "Keys that do not come again keep their newer rows."
            )
        return (
            f"Rows stay in {self._table}; delivering again adds them a second time. "
            "Set epoch_column to have them deleted."
        )

    def check(self) -> None:
        with explained(self._what), closing(self._place.connect()) as session:
            check_place(session, self._target, self._epoch_column)

    def deliver(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        frame = self._with_epoch(delivery.frame, token)
        # psycopg's `with` on a connection would hide the error that broke it.
        with explained(self._what), closing(self._place.connect()) as session:
            with session.transaction():
                last = self._lock(session)
                if self._tokens.repeated(token, last, delivery.after):
                    return Receipt(last.rows, repeated=True)
                self._tokens.drop_staged(session, up_to=token)
                columns = self._target.fit(session, frame.schema)
                check_key(session, self._target)
            staged = self._batches.stage(frame, columns, self._plan(columns, token))
            failpoints.reach("postgres.staged", self.name)
            with session.transaction():
                last = self._lock(session)
                if self._tokens.repeated(token, last, delivery.after):
                    # Another process delivered the same batch meanwhile.
                    return Receipt(last.rows, repeated=True)
                self._load(session, [column.name for column in columns], staged)
                self._tokens.write(session, token, staged.rows)
                failpoints.reach("postgres.before_commit", self.name)
            failpoints.reach("postgres.after_commit", self.name)
        return Receipt(staged.rows)

    def roll_back(self, to: Token) -> str:
        with (
            explained(self._what),
            closing(self._place.connect()) as session,
            session.transaction(),
        ):
            last = self._lock(session)
            if not self._tokens.rolled_back(to, last):
                self._tokens.drop_staged(session, up_to=to)
                self._tokens.write(session, to, None)
            if not self._epoch_column:
                return self.takes_back
            return self._delete_after(session, self._epoch_column, to.epoch)

    def _lock(self, session: Session) -> LastToken:
        prepare_transaction(session)
        return self._tokens.lock(session)

    def _with_epoch(self, frame: DataFrame, token: Token) -> DataFrame:
        name = self._epoch_column
        if not name:
            return frame
        if name.lower() in (column.lower() for column in frame.columns):
            raise SinkRefused(
                f"{self._what}: the batch has a column {name} of its own, where the epoch goes.",
                hint="Name another epoch_column, or rename the column before the sink.",
            )
        return frame.withColumn(name, F.lit(token.epoch).cast(T.LongType()))

    def _plan(self, columns: Sequence[FittedColumn], token: Token) -> staging.StagingPlan:
        return staging.StagingPlan(
            self._place,
            self._table,
            tuple(column.name for column in columns),
            self._tokens.new_prefix(token),
            staging.INLINE_BYTES,
        )

    def _load(self, session: Session, columns: Sequence[str], staged: Staged) -> None:
        from psycopg.sql import SQL, Identifier

        self._refuse_incomplete(session, staged.tables)
        sources = [Identifier(SCHEMA, name) for name in staged.tables]
        if staged.lines and not self._target.key:
            _copy(session, staging.copy_statement(self._table, columns), staged.lines)
        elif staged.lines:
            own = TableName("pg_temp", "holdfast_staged")
            session.execute(
                SQL(
                    "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
                ).format(
                    own.identifier,
                    SQL(", ").join(map(Identifier, columns)),
                    self._table.identifier,
                )
            )
            _copy(session, staging.copy_statement(own, columns), staged.lines)
            sources.append(own.identifier)
        if sources:
            self._target.insert(session, columns, sources)
        for name in staged.tables:
            session.execute(SQL("DROP TABLE {}").format(Identifier(SCHEMA, name)))

    def _refuse_incomplete(self, session: Session, tables: dict[str, int]) -> None:
        from psycopg.sql import SQL, Identifier

        for name, rows in tables.items():
            found = session.execute(
                "SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('holdfast') "
                "AND relname = %s",
                (name,),
            ).fetchone()
            if found is not None:
                counting = SQL("SELECT count(*) FROM {}").format(Identifier(SCHEMA, name))
                found = session.execute(counting).fetchone()
            # A server that crashed comes back with such tables, which it does not log, empty.
            if found is None or found[0] != rows:
                raise SinkUnavailable(
                    f"{self._what}: staged rows are gone: the server crashed, or another process "
                    "is delivering the same batch.",
                    hint="Nothing was written; the next try stages the batch again.",
                )

    def _delete_after(self, session: Session, column: str, epoch: int) -> str:
        from psycopg.sql import SQL, Identifier, Literal

        columns = self._target.columns(session)
        if columns is None:
            return f"There is no table {self._table}: nothing to delete."
        name = match_column(column, columns)
        if name is None:
            return f"Rows stay in {self._table}: it has no column {column} to tell epochs by."
        deleted = session.execute(
            SQL("DELETE FROM {} WHERE {} > {}").format(
                self._table.identifier, Identifier(name), Literal(epoch)
            )
        ).rowcount
        return f"{deleted} rows of epochs after {epoch} were deleted from {self._table}."


def _copy(session: Session, statement: Composed, lines: Sequence[bytes]) -> None:
    with session.cursor() as cursor, cursor.copy(statement) as copy:
        for part in lines:
            copy.write(part)
