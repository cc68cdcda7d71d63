"""The file `holdfast init` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.errors import UsageError

STARTER: Final = """\
# What Holdfast copies, from where, to where. Paths start at this file's directory.
# "${VAR}" and "${VAR:-default}" are taken from the environment.

[state]                                # what Holdfast remembers: the ledger
backend = "local"                      # one file on this machine
path = ".holdfast/ledger.db"

[spark]
master = "local[*]"                    # every core of this machine, or a cluster's address
conf = { "spark.sql.shuffle.partitions" = 4 }

[pipeline.bronze]                      # `bronze` is a name of your choice
type = "replicate"
source = { format = "csv", path = "data/shop", options = { header = true, inferSchema = true } }
target = { format = "parquet", path = "lake/bronze" }
tables = ["orders", "customers"]       # or: discovery = { include = ["*"], exclude = ["tmp_*"] }
watermark = "updated_at"               # the column that tells new rows from old ones
strategy = "incremental"               # incremental: add new rows
                                       # merge: keep the latest row per primary_key
                                       # full_refresh: replace everything
# primary_key = ["id"]                 # what identifies a row; needed by merge
# overlap = "1 hour"                   # with merge: read again this far back, for late rows
concurrency = 4                        # tables copied side by side

[pipeline.bronze.checks]
row_count = true                       # as many rows written as read
anomaly_threshold_pct = 50             # how far a row count may be from its moving average
freshness = { threshold_seconds = 86400 }   # how old the newest row may be

# [pipeline.bronze.table.customers]    # what one table does differently
# strategy = "merge"
# primary_key = ["id"]
"""


def write_starter(path: Path, force: bool = False) -> Path:
    """Write the starter file; an existing file is kept unless `force` is given."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        # "x" refuses a file that somebody else wrote since it was looked for.
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(STARTER)
    except FileExistsError:
        raise _already_exists(path) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def _already_exists(path: Path) -> UsageError:
    return UsageError(
        f"{path} already exists.", hint="Use --force to replace it with a starter file."
    )
