"""The values that cross layers: frozen, typed, and free of behaviour that needs I/O."""

from holdfast.model.batch import Batch, BatchManifest, Reason, Strategy
from holdfast.model.checks import CheckName, CheckResult, CheckStatus, Severity
from holdfast.model.lease import Lease
from holdfast.model.plan import Plan, PlannedTable
from holdfast.model.position import Position
from holdfast.model.run import Failure, Run, RunStatus, TableOutcome, TableStatus
from holdfast.model.table import (
    Contents,
    RowCount,
    SourceColumns,
    TableName,
    TableSchema,
    Watermark,
)

__all__ = [
    "Batch",
    "BatchManifest",
    "CheckName",
    "CheckResult",
    "CheckStatus",
    "Contents",
    "Failure",
    "Lease",
    "Plan",
    "PlannedTable",
    "Position",
    "Reason",
    "RowCount",
    "Run",
    "RunStatus",
    "Severity",
    "SourceColumns",
    "Strategy",
    "TableName",
    "TableOutcome",
    "TableSchema",
    "TableStatus",
    "Watermark",
]
