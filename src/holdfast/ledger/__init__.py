"""The ledger: durable, versioned records with transactions."""

from holdfast.ledger.contract import (
    ABSENT,
    FORMAT_VERSION,
    Ledger,
    Record,
    Transaction,
    VersionInfo,
)
from holdfast.ledger.json_file import JsonLedger
from holdfast.ledger.memory import MemoryLedger
from holdfast.ledger.migrations import Migration, migrate
from holdfast.ledger.opening import open_ledger
from holdfast.ledger.sqlite import SqliteLedger
from holdfast.ledger.typed import Collection

__all__ = [
    "ABSENT",
    "FORMAT_VERSION",
    "Collection",
    "JsonLedger",
    "Ledger",
    "MemoryLedger",
    "Migration",
    "Record",
    "SqliteLedger",
    "Transaction",
    "VersionInfo",
    "migrate",
    "open_ledger",
]
