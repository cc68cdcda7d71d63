"""A Delta table that every batch is appended to by one commit, without a Delta jar in Spark.

Spark writes the rows as Parquet files into the table's directory, where no reader sees them before
the log names them. The commit that does so also says, as an application transaction, which token
it was. `delta_layout.py` draws what lies where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.config.sinks import DeltaSink as DeltaConfig
from holdfast.errors import SinkRefused, TargetError
from holdfast.failpoints import reach
from holdfast.model import Guarantee, Token
from holdfast.spark.drift import Drift
from holdfast.spark.filesystem import is_local, local_path
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.files_columns import drift_of, same_columns
from holdfast.spark.sinks.files_failures import delivering, refusing
from holdfast.spark.sinks.files_writing import FAST_COMMITTER
from holdfast.spark.sinks.refusals import overtaken, repeated

if TYPE_CHECKING:
    from holdfast.spark.sinks.delta_layout import DeltaLayout
    from holdfast.spark.sinks.delta_table import TokenTable


class DeltaSink(Sink):
    """A Delta table in a directory this process and Spark both see as local."""

    def __init__(self, config: DeltaConfig, *, pipeline: str, spark: SparkSession) -> None:
        super().__init__(config.name)
        self._pipeline = pipeline
        self._path = config.path
        # Elsewhere Spark and deltalake would need two sets of credentials; and deltalake takes
        # %20 for a space, where Spark does not.
        if not is_local(spark, config.path) or "%" in config.path:
            raise SinkRefused(
                f"{self.name}: a Delta table cannot be written to {config.path}.",
                hint='Choose a local path without "%", or a sink of type "files".',
            )
        self._layout, self._table = _open(config, pipeline)
        self._tidy = False
        """Nothing of an earlier try lies in staging."""

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once"

    @property
    def description(self) -> str:
        return f"Delta table {self._path}"

    @property
    def takes_back(self) -> str:
        return "The files of epochs after it are removed from the table by one commit."

    def check(self) -> None:
        with delivering(f"{self.name}: looking at {self._path}"):
            self._look()

    def deliver(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        with delivering(f"{self.name}: writing epoch {token.epoch} to {self._path}"):
            try:
                if self._stands(delivery, self._look()):
                    return self._repeated(token)
                return self._take(delivery)
            except BaseException:
                self._table.forget()
                self._tidy = False
                raise

    def roll_back(self, to: Token) -> str:
        with delivering(f"{self.name}: rolling {self._path} back to epoch {to.epoch}"):
            last = self._look()
            columns = self._table.columns
            if columns is None:
                return f"There is no table at {self._path} yet: nothing to take back."
            if last is not None and not to.follows(last):
                if to.generation < last.generation:
                    raise overtaken(self.name, to, last)
                self._layout.drop_records(to)
                return f"{self._path} is at epoch {to.epoch} or past it again: nothing to do."
            files = self._table.files()
            if last is not None:
                self._refuse_rewritten({file.path for file in files}, to, last)
            removes = self._layout.after(files, to.epoch)
            self._table.commit(to, columns, removes=removes)
            reach("delta.rolled_back", self.name)
            self._layout.drop_records(to)
            self._table.forget()
        if not removes:
            return f"{self._path} had no rows after epoch {to.epoch}: nothing to take back."
        return (
            f"Removed {len(removes)} files of epochs after {to.epoch} from {self._path} in one "
            "commit; earlier versions of the table still have them."
        )

    def _look(self) -> Token | None:
        """Open the newest version of the table, and say what it took last."""
        self._layout.refuse_foreign()
        self._table.open()
        with refusing():
            self._table.refuse_unsupported()
        return self._table.last_token()

    def _take(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        if not self._tidy:
            self._layout.staging.clear(token)
            self._tidy = True
        columns = self._columns(delivery.schema)
        staged = self._layout.staging.new(token)
        _fitted(delivery, columns).write.options(**FAST_COMMITTER).parquet(staged)
        reach("delta.written", self.name)
        files = self._layout.move_in(staged, token)
        reach("delta.moved", self.name)
        self._layout.write_record(token, files)
        reach("delta.recorded", self.name)
        if self._table.add_columns(columns, token):
            reach("delta.columns", self.name)
            self._table.forget()
            self._stands(delivery, self._look())
        self._table.commit(token, columns, adds=files)
        reach("delta.committed", self.name)
        return Receipt(sum(file.rows for file in files))

    def _columns(self, schema: StructType) -> StructType:
        """The table's columns after a batch; refuses one that does not fit."""
        with refusing():
            incoming = self._table.as_stored(schema)
        known = self._table.columns
        if known is None:
            return incoming
        drift = self._drift(known, incoming)
        given = {field.name.lower(): field for field in schema}
        strict = [
            field.name
            for field in known
            if not field.nullable
            and (field.name.lower() not in given or given[field.name.lower()].nullable)
        ]
        if strict:
            raise SinkRefused(
                f"{self.name}: the table {self._path} takes no nulls in {', '.join(strict)}, and "
                "the rows may have some.",
                hint="Let the table's columns be null, or fill them in the stream.",
            )
        return StructType([*known.fields, *(drift.schema[name] for name in drift.added)])

    def _drift(self, known: StructType, incoming: StructType) -> Drift:
        drift = drift_of(known, incoming, sink=self.name)
        if drift.widened:
            types = {field.name.lower(): field.dataType.simpleString() for field in incoming}
            wide = [f"{n} ({types[n.lower()]})" for n in drift.widened]
            raise SinkRefused(
                f"{self.name}: the table {self._path} has narrower types than the rows for "
                f"{', '.join(wide)}.",
                hint="Cast them in the stream, or choose another path.",
            )
        return drift

    def _repeated(self, token: Token) -> Receipt:
        record = self._layout.read_record(token)
        if record is None:
            return Receipt(None, repeated=True)
        # The log has no room for the batch.
        repeated(self.name, token, record.parsed_token)
        return Receipt(record.rows, repeated=True)

    def _stands(self, delivery: Delivery, last: Token | None) -> bool:
        """Whether the table has this batch; raises if it must not be taken."""
        token = delivery.token
        if token.pipeline != self._pipeline:
            raise SinkRefused(
                f"{self.name}: the batch {token} is not of the pipeline {self._pipeline}."
            )
        return repeated(self.name, token, last, after=delivery.after)

    def _refuse_rewritten(self, live: set[str], to: Token, last: Token) -> None:
        """Refuse to take back rows that other writers have put into other files."""
        gone = [
            tries[0].parsed_token.epoch
            for tries in self._layout.records_after(to.epoch, last)
            if not any(live.issuperset(found.files) for found in tries)
        ]
        if gone:
            which = ", ".join(map(str, gone))
            raise SinkRefused(
                f"{self.name}: files of epoch {which} in {self._path} were rewritten or removed by "
                "another writer (OPTIMIZE, DELETE, UPDATE), so their rows cannot be told apart.",
                hint="Restore the table to a version before they were rewritten, then roll back "
                "again. If the rows of an epoch are gone from the table altogether, say so by "
                f"removing its record below {self._layout.records}.",
            )


def _open(config: DeltaConfig, pipeline: str) -> tuple[DeltaLayout, TokenTable]:
    try:
        from holdfast.spark.sinks.delta_layout import DeltaLayout
        from holdfast.spark.sinks.delta_table import TokenTable
    except (ImportError, TargetError) as error:
        raise SinkRefused(
            f"{config.name}: a Delta sink needs the package deltalake, 1.6.6 or newer.",
            hint="Install the extra `delta` of Holdfast, or: pip install 'deltalake>=1.6.6'",
        ) from error
    return (
        DeltaLayout(config.path, sink=config.name, pipeline=pipeline),
        TokenTable(local_path(config.path), sink=config.name, pipeline=pipeline),
    )


def _fitted(delivery: Delivery, columns: StructType) -> DataFrame:
    if same_columns(delivery.schema, columns):
        return delivery.frame
    return delivery.frame.to(columns)
