"""Checkpoints: commit, restore, roll back, retain, verify, repair, compare."""

from holdfast.checkpoint.book import Checkpoints, next_version
from holdfast.checkpoint.collecting import gc
from holdfast.checkpoint.committing import STEPS
from holdfast.checkpoint.comparing import Difference, Moved, MovedSink, MovedState, diff
from holdfast.checkpoint.manifest import manifest_key
from holdfast.checkpoint.outdated import refuse_old_copy
from holdfast.checkpoint.repairing import repair
from holdfast.checkpoint.schemas import schema_changes, type_name
from holdfast.checkpoint.values import Removed, Repair, Restored, Verification
from holdfast.checkpoint.verifying import verify, verify_all

__all__ = [
    "STEPS",
    "Checkpoints",
    "Difference",
    "Moved",
    "MovedSink",
    "MovedState",
    "Removed",
    "Repair",
    "Restored",
    "Verification",
    "diff",
    "gc",
    "manifest_key",
    "next_version",
    "refuse_old_copy",
    "repair",
    "schema_changes",
    "type_name",
    "verify",
    "verify_all",
]
