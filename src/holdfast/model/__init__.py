"""The values that cross layers: frozen, typed, and free of behaviour that needs I/O."""

from holdfast.model.batch import Batch, BatchManifest, Reason, Strategy
from holdfast.model.checkpoint import (
    BatchSchema,
    Checkpoint,
    CheckpointEntry,
    Guarantee,
    Head,
    Intent,
    OperatorState,
    Pin,
    RollBack,
    SchemaEntry,
    SinkPosition,
    SourcePosition,
    SparkLog,
    SpoolEntry,
    StoredFile,
    Waiting,
)
from holdfast.model.checks import CheckName, CheckResult, CheckStatus, Severity
from holdfast.model.lease import Lease
from holdfast.model.live import Live, LiveState
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
from holdfast.model.token import Token

__all__ = [
    "Batch",
    "BatchManifest",
    "BatchSchema",
    "CheckName",
    "CheckResult",
    "CheckStatus",
    "Checkpoint",
    "CheckpointEntry",
    "Contents",
    "Failure",
    "Guarantee",
    "Head",
    "Intent",
    "Lease",
    "Live",
    "LiveState",
    "OperatorState",
    "Pin",
    "Plan",
    "PlannedTable",
    "Position",
    "Reason",
    "RollBack",
    "RowCount",
    "Run",
    "RunStatus",
    "SchemaEntry",
    "Severity",
    "SinkPosition",
    "SourceColumns",
    "SourcePosition",
    "SparkLog",
    "SpoolEntry",
    "StoredFile",
    "Strategy",
    "TableName",
    "TableOutcome",
    "TableSchema",
    "TableStatus",
    "Token",
    "Waiting",
    "Watermark",
]
