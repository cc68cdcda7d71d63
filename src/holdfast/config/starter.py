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

STREAM_STARTER: Final = """\
# What Holdfast delivers, from where, to where. Paths start at this file's directory.
# "${VAR}" and "${VAR:-default}" are taken from the environment.

[state]                                # what Holdfast remembers: the ledger
backend = "local"                      # one file on this machine
path = ".holdfast/ledger.db"

[spark]
master = "local[*]"                    # every core of this machine, or a cluster's address
conf = { "spark.sql.shuffle.partitions" = 4 }

[pipeline.payments]                    # `payments` is a name of your choice
type = "stream"
where = "paise > 0"                    # which rows to deliver
select = ["merchant", "paise / 100 as rupees", "ts"]

[pipeline.payments.source]             # a directory to which files are added
format = "json"
path = "events"
schema = "merchant string, paise long, ts timestamp"

[pipeline.payments.batch]
max_files = 100                        # how much goes into one batch
# max_ms = 1000                        # start a batch this often; at once by default
commit_policy = "required"             # required: every required sink has the batch
                                       # all: every sink has it
                                       # quorum: `quorum` sinks have it, and every required one

[[pipeline.payments.sinks]]            # where every batch goes; there may be several
name = "lake"
type = "files"                         # or: delta, postgres, valkey, kafka, http, console, python
format = "parquet"
path = "lake/payments"

# [[pipeline.payments.sinks]]
# name = "screen"
# type = "console"
# required = false                     # the others do not wait for it

[pipeline.payments.checkpoint]
location = ".holdfast/checkpoints"
retain = { min_count = 100, min_age = "1 hour" }
"""

STARTERS: Final = {"replicate": STARTER, "stream": STREAM_STARTER}
"""The starter file for each type of pipeline."""


def write_starter(path: Path, force: bool = False, *, template: str = "replicate") -> Path:
    """Write the starter file; an existing file is kept unless `force` is given."""
    if template not in STARTERS:
        raise UsageError(
            f"There is no template {template}.", hint=f"There are {', '.join(STARTERS)}."
        )
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        # "x" refuses a file that somebody else wrote since it was looked for.
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(STARTERS[template])
    except FileExistsError:
        raise _already_exists(path) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def _already_exists(path: Path) -> UsageError:
    return UsageError(
        f"{path} already exists.", hint="Use --force to replace it with a starter file."
    )
