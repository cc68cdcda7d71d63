"""Keyed state: what operators remember per key, per epoch. No Spark in here."""

from holdfast.state.contract import Backend
from holdfast.state.files import Directory
from holdfast.state.keys import Hashes, Keys
from holdfast.state.rows import Hits, Ranges, Rows
from holdfast.state.schema import HOLDFAST_HASHES, SPARK_HASHES, Layout, TableSchema
from holdfast.state.snapshot import Partition, Snapshot, StateFile
from holdfast.state.store import Store, open_store
from holdfast.state.transaction import Lookup, Table, Transaction, TransactionState
from holdfast.state.ttl import TTL, Restart

__all__ = [
    "HOLDFAST_HASHES",
    "SPARK_HASHES",
    "TTL",
    "Backend",
    "Directory",
    "Hashes",
    "Hits",
    "Keys",
    "Layout",
    "Lookup",
    "Partition",
    "Ranges",
    "Restart",
    "Rows",
    "Snapshot",
    "StateFile",
    "Store",
    "Table",
    "TableSchema",
    "Transaction",
    "TransactionState",
    "open_store",
]
