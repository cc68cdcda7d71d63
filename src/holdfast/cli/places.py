"""Positions, short."""

from __future__ import annotations

from holdfast.model import Position


def place(position: Position | None) -> str:
    """A position in the shortest form that says as much."""
    if position is None:
        return ""
    return ", ".join(
        value.replace(".000000", "") if kind.startswith("timestamp") else value
        for value, kind in zip(position.values, position.types, strict=True)
    )
