"""What the executors do: copy their rows into staging tables of their own.

A task that has little does not bother: it hands its rows to the driver, which copies them itself.
For small batches that saves a connection and a table per task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T

from holdfast.spark.sinks.postgres_errors import Failure
from holdfast.spark.sinks.postgres_place import Place, TableName, prepare_transaction
from holdfast.spark.sinks.postgres_tokens import SCHEMA

if TYPE_CHECKING:
    from psycopg.sql import Composed as Statement

    from holdfast.spark.sinks.postgres_place import Session

INLINE_BYTES: Final = 512 * 1024
"""Up to this much a task hands to the driver."""

STAGED: Final = T.StructType(
    [
        T.StructField("stage", T.StringType()),
        T.StructField("rows", T.LongType()),
        T.StructField("lines", T.BinaryType()),
        T.StructField("failure", T.StringType()),
    ]
)
"""What a task answers: a staging table or lines, with the number of rows; or why not."""


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """What a task needs to know."""

    place: Place
    table: TableName
    """The target; the columns of a staging table have the types they have there."""
    columns: tuple[str, ...]
    prefix: str
    inline_bytes: int


def stager(plan: StagingPlan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function Spark runs over the lines of each partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return stage(plan, batches)

    return run


def stage(plan: StagingPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take the lines of one partition, and answer with one row, or none for no lines."""
    rows, held, kept = 0, 0, list[bytes]()
    chunks = ((batch.num_rows, joined_lines(batch.column(0))) for batch in batches)
    for count, lines in chunks:
        rows, held = rows + count, held + len(lines)
        kept.append(lines)
        if held > plan.inline_bytes:
            yield _stage_rest(plan, rows, kept, chunks)
            return
    if rows:
        yield _answer(rows=rows, lines=b"".join(kept))


def _stage_rest(
    plan: StagingPlan, rows: int, kept: list[bytes], chunks: Iterator[tuple[int, bytes]]
) -> pa.RecordBatch:
    context = TaskContext.get()
    assert context is not None, "only Spark runs this"
    name = f"{plan.prefix}{context.partitionId()}_{context.taskAttemptId()}"
    own = TableName(SCHEMA, name)
    try:
        from psycopg import Error
    except ImportError as error:
        return _answer(failure=Failure("", f"an executor cannot load psycopg: {error}").to_json())
    # Answered, not raised: Spark would print the stack and try again by itself, several times.
    try:
        with plan.place.connect() as session, session.transaction():
            prepare_transaction(session)
            _create_stage(session, own, plan)
            with session.cursor().copy(copy_statement(own, plan.columns)) as copy:
                for lines in kept:
                    copy.write(lines)
                kept.clear()
                for count, lines in chunks:
                    rows += count
                    copy.write(lines)
    except Error as error:
        return _answer(failure=Failure.of(error).to_json())
    return _answer(stage=name, rows=rows)


def _create_stage(session: Session, own: TableName, plan: StagingPlan) -> None:
    """Make a table like the target, without its rules: they are the target's to check."""
    from psycopg.sql import SQL, Identifier

    session.execute(
        SQL("CREATE UNLOGGED TABLE {} AS SELECT {} FROM {} WITH NO DATA").format(
            own.identifier,
            SQL(", ").join(map(Identifier, plan.columns)),
            plan.table.identifier,
        )
    )


def copy_statement(table: TableName, columns: Iterable[str]) -> Statement:
    """`COPY table (columns) FROM STDIN`."""
    from psycopg.sql import SQL, Identifier

    names = SQL(", ").join(map(Identifier, columns))
    return SQL("COPY {} ({}) FROM STDIN").format(table.identifier, names)


def joined_lines(column: pa.Array) -> bytes:
    """The characters of all strings of a column, which lie one after the other already."""
    if not len(column):
        return b""
    wide = pa.types.is_large_string(column.type)
    _, offsets, characters = column.buffers()
    ends = memoryview(offsets).cast("q" if wide else "i")
    first, last = ends[column.offset], ends[column.offset + len(column)]
    return bytes(memoryview(characters)[first:last])


def _answer(
    stage: str | None = None,
    rows: int = 0,
    lines: bytes | None = None,
    failure: str | None = None,
) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([stage], pa.string()),
            pa.array([rows], pa.int64()),
            pa.array([lines], pa.binary()),
            pa.array([failure], pa.string()),
        ],
        names=STAGED.names,
    )
