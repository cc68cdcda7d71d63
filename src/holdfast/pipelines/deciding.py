"""Where a table's next batch starts, and why: a pure function of what is remembered and there."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import TargetError, TargetNotEmpty
from holdfast.model import Contents, Position, Reason, Strategy, Watermark


@dataclass(frozen=True, slots=True)
class Start:
    """From where to read, and what of the target the batch stands in for."""

    reason: Reason
    low: Position | None
    replaces_all: bool = False
    replaces: tuple[str, ...] = ()


def decide_start(
    table: str,
    location: str,
    *,
    strategy: Strategy,
    watermark: Watermark | None,
    contents: Contents,
    full_refresh: bool,
    adoption: str,
) -> Start:
    """Decide where to start, or refuse where going on would lose or double rows.

    `adoption` says how files that Holdfast did not write could be kept; empty if they cannot.
    """
    if full_refresh:
        return Start("refresh", None, replaces_all=True)
    if watermark is None:
        return _first(table, location, strategy, contents, adoption)
    if contents == "foreign":
        raise _foreign(table, location, adoption)
    if watermark.position is None or strategy == "full_refresh":
        reason: Reason = "deleted" if watermark.cause == "delete" else "refresh"
        return Start(reason, None, replaces_all=True)
    # A watermark that a person set may stand for rows that were never copied here.
    if contents in ("absent", "empty") and watermark.cause != "set":
        raise TargetError(
            f"{table}: the target {location} is gone, but its rows up to {watermark.position} "
            "were copied there.",
            hint="Bring it back, or copy everything again: "
            f"holdfast run --full-refresh --table {table}",
        )
    if strategy == "merge" and watermark.batch and watermark.batch.strategy == "incremental":
        raise TargetError(
            f"{table}: the target {location} was copied by `incremental` and may hold several "
            "versions of a row, of which a merge keeps one.",
            hint=f"Copy it again as it is now: holdfast run --full-refresh --table {table}",
        )
    reason = "rewound" if watermark.cause == "rewind" else "watermark"
    return Start(reason, watermark.position, replaces=watermark.retire)


def _first(
    table: str, location: str, strategy: Strategy, contents: Contents, adoption: str
) -> Start:
    if contents == "foreign":
        raise _foreign(table, location, adoption)
    if contents == "ours" and strategy != "full_refresh":
        raise TargetNotEmpty(
            f"{table}: the target {location} has rows, but the ledger remembers no watermark; "
            "copying from the beginning would double them.",
            hint="Say how far they reach: "
            f"holdfast state set {table} VALUE\n"
            "or replace them by a new copy: "
            f"holdfast run --full-refresh --table {table}",
        )
    return Start("first_run", None, replaces_all=contents == "ours")


def _foreign(table: str, location: str, adoption: str) -> TargetNotEmpty:
    replace = f"replace them by a new copy: holdfast run --full-refresh --table {table}"
    keep = f"{adoption}, then: holdfast state set {table} VALUE\nor " if adoption else ""
    return TargetNotEmpty(
        f"{table}: the target {location} has files that Holdfast did not write.",
        hint=f"{keep}{replace}" if keep else f"Choose another target, or {replace}",
    )
