"""Keyed state: what operators remember per key, per epoch. No Spark in here.

`open_store` is the way in; `contract.py` is what a backend must do.
"""

from holdfast.state.catalogue import Catalogue
from holdfast.state.collections import Entries, ListState, MapState
from holdfast.state.contract import Backend
from holdfast.state.files import Directory
from holdfast.state.keys import Hashes, Keys
from holdfast.state.owners import Owners
from holdfast.state.rows import Hits, Ranges, Rows
from holdfast.state.savepoint import read_savepoint, seal_savepoint
from holdfast.state.schema import HOLDFAST_HASHES, SPARK_HASHES, Layout, TableSchema
from holdfast.state.snapshot import Partition, Snapshot, StateFile
from holdfast.state.store import Store, open_store
from holdfast.state.tables import Lookup, Table
from holdfast.state.timers import Due, Timers
from holdfast.state.transaction import Transaction, TransactionState
from holdfast.state.ttl import TTL, Restart

__all__ = [
    "HOLDFAST_HASHES",
    "SPARK_HASHES",
    "TTL",
    "Backend",
    "Catalogue",
    "Directory",
    "Due",
    "Entries",
    "Hashes",
    "Hits",
    "Keys",
    "Layout",
    "ListState",
    "Lookup",
    "MapState",
    "Owners",
    "Partition",
    "Ranges",
    "Restart",
    "Rows",
    "Snapshot",
    "StateFile",
    "Store",
    "Table",
    "TableSchema",
    "Timers",
    "Transaction",
    "TransactionState",
    "open_store",
    "read_savepoint",
    "seal_savepoint",
]
