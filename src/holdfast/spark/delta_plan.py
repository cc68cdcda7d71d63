"""The commit a staged batch is to become, written beside its files.

Moving the files into the table takes several steps: whoever finishes them after a crash reads
here which they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import TypeAdapter

from holdfast.errors import TargetError
from holdfast.spark.delta_log import Change, LiveFile, NewFile, Snapshot
from holdfast.spark.filesystem import Files, join
from holdfast.spark.schemas import parse_schema

PLAN_FORMAT: Final = 1
_PLAN = "_delta.json"


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """One commit, decided when the batch was staged."""

    format: int
    kind: Literal["create", "append", "overwrite"]
    version: int | None
    """The version of the table it was made from; `None` if there was no table."""
    columns: str
    """The table's columns after it, as Spark writes a schema in JSON."""
    adds: tuple[NewFile, ...]
    removes: tuple[LiveFile, ...]

    @property
    def change(self) -> Change:
        """What the commit does."""
        return Change(
            columns=parse_schema(self.columns),
            adds=self.adds,
            removes=self.removes,
            overwrite=self.kind == "overwrite",
        )

    @property
    def builds_on_version(self) -> bool:
        """Whether it is wrong after any other commit, because it replaces what it has read."""
        return self.kind == "overwrite" or bool(self.removes)

    def fits(self, snapshot: Snapshot | None, *, since: int = 0) -> bool:
        """Whether it can still be made, `since` commits of its own later."""
        if snapshot is None or self.version is None:
            return snapshot is None and self.version is None
        return not self.builds_on_version or snapshot.version == self.version + since


_PLANS: Final = TypeAdapter(CommitPlan)


def write_plan(files: Files, place: str, plan: CommitPlan) -> None:
    """Write a plan into the directory of its batch."""
    files.write_text(join(place, _PLAN), _PLANS.dump_json(plan, indent=2).decode())


def read_plan(files: Files, place: str, table: str) -> CommitPlan | None:
    """Read the plan of a batch; `None` if it was never staged so far."""
    text = files.read_text(join(place, _PLAN))
    if text is None:
        return None
    try:
        return _PLANS.validate_json(text)
    except ValueError as error:
        raise TargetError(
            f"{table}: the plan {join(place, _PLAN)} is damaged.",
            hint=f"Remove {place}: its rows are copied again.",
        ) from error
