"""Event-time windows: tumbling, sliding and session windows over keyed state."""

from holdfast.state.windows.memory import DEFAULT_MAX_PENDING, PendingCounts, WindowMemory
from holdfast.state.windows.merging import Merge
from holdfast.state.windows.results import Added, Windows
from holdfast.state.windows.specs import Assigned, Session, Sliding, Tumbling, WindowSpec
from holdfast.state.windows.state import WindowState

__all__ = [
    "DEFAULT_MAX_PENDING",
    "Added",
    "Assigned",
    "Merge",
    "PendingCounts",
    "Session",
    "Sliding",
    "Tumbling",
    "WindowMemory",
    "WindowSpec",
    "WindowState",
    "Windows",
]
