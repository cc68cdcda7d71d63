"""What Parquet files say of themselves: how many rows, which columns.

Reading the footers of a few files on this machine takes a millisecond or two; the Spark job by
which columns are learned, and another that counts, take fifty each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.spark.filesystem import local_path

FILE_LIMIT: Final = 5_000
"""With more files than this, Spark's executors are quicker."""
_ONE_BY_ONE: Final = 16
_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True, slots=True)
class Footers:
    """The footers of all files of a table."""

    rows: int
    kinds: tuple[str, ...]
    """A digest of each different set of columns among the files, sorted."""


def read_footers(files: Sequence[str]) -> Footers | None:
    """Read the footers of files on this machine; `None` if that is not worth it or not possible.

    A file that cannot be read is left to Spark, whose message names it.
    """
    # Imported late: it is slow to load, and only Parquet needs it.
    from pyarrow import ArrowException

    if not 0 < len(files) <= FILE_LIMIT:
        return None
    paths = [local_path(file) for file in files]
    try:
        if len(paths) <= _ONE_BY_ONE:
            found = [_footer(path) for path in paths]
        else:
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(_footer, paths))
    except (ArrowException, OSError):
        return None
    return Footers(sum(rows for rows, _ in found), tuple(sorted({kind for _, kind in found})))


def _footer(path: Path) -> tuple[int, str]:
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    # The first line of the text is the address of the object.
    columns = str(metadata.schema).partition("\n")[2].encode()
    written_by_spark = (metadata.metadata or {}).get(_SPARK_SCHEMA, b"")
    digest = hashlib.sha256(columns + b"\0" + written_by_spark).hexdigest()
    return int(metadata.num_rows), digest[:32]
