"""A run: one immutable file of sorted rows of one table.

A run is an Arrow IPC stream, readable by any Arrow library as it is, with a footer behind it:

    Arrow stream    schema message; one record-batch message a page, at most about a million
                    rows each; end-of-stream marker
    footer          JSON, UTF-8 (below)
    8 bytes         xxh3_64 of the footer, little-endian
    4 bytes         length of the footer, little-endian
    8 bytes         "HFRUN", then the format version as three digits: HFRUN001

The columns of a page, sorted by `__code`, rows of equal code never in two pages:

    __code            int64   see `codes.py`
    __partition_hash  int32   Spark's hash(keys), or Holdfast's own
    __dead            bool    only in pages with deletions
    __stamp           int64   only in stamped tables: milliseconds since 1970, last touched
    key columns, then value columns, under their own names, in the engine's storage types

The footer:

    {"table": the table's declaration, "rows": 500000, "dead": 0,
     "schema": {"bytes": 512, "checksum": "xxh3_64 of the schema message, hexadecimal"},
     "pages": [{"offset": 512, "bytes": 18000448, "rows": 500000, "dead": 0,
                "first": -9223, "last": 9223, "checksum": "xxh3_64 of the page"}]}

The footer is checked when a run is opened, a page when something in it is first needed: what
was truncated or changed is refused by name before a single row of it is used.
"""

from holdfast.state.runs.layout import NEVER_MS
from holdfast.state.runs.reading import Run, open_run
from holdfast.state.runs.writing import write_run

__all__ = ["NEVER_MS", "Run", "open_run", "write_run"]
