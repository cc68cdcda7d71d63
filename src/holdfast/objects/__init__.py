"""Immutable files under keys: where the files of checkpoints are kept."""

from holdfast.objects.contract import ObjectInfo, ObjectStore, describe
from holdfast.objects.local import STEPS, LocalObjects
from holdfast.objects.memory import MemoryObjects
from holdfast.objects.opening import open_objects

__all__ = [
    "STEPS",
    "LocalObjects",
    "MemoryObjects",
    "ObjectInfo",
    "ObjectStore",
    "describe",
    "open_objects",
]
