"""Every error a user of Holdfast can meet.

    HoldfastError
    ├── ConfigError              the configuration file is wrong; lists every problem found
    ├── UsageError               a command was given something it cannot use
    ├── LedgerError              the ledger cannot do what was asked
    │   ├── LedgerLocked         another process holds it
    │   ├── LedgerDamaged        its file is not readable as a ledger
    │   ├── LedgerFormatMismatch written by another version of Holdfast
    │   └── VersionConflict      a compare-and-set met another version than expected
    ├── PipelineBusy             another run of the same pipeline is going on
    ├── LeaseLost                this run was fenced out by a newer one
    ├── PlanRefused              a stored plan is missing, spent, or no longer true
    ├── SourceError              the source cannot be read as configured
    │   └── SourceChanged        it changed while it was being read
    ├── TargetError              the target cannot be written as configured
    │   ├── TargetNotEmpty       it has rows Holdfast does not remember writing
    │   └── DiskFull             no space left for the batch, the ledger or the state
    ├── TransformFailed          the pipeline's own SQL or Python failed
    ├── SinkError                a batch could not be delivered to a sink
    │   ├── SinkUnavailable      it may work when it is tried again
    │   └── SinkRefused          it will not, before something is changed
    ├── CheckpointError          a checkpoint cannot do what was asked
    │   ├── CheckpointMissing    there is none of that name, or none at all
    │   └── CheckpointDamaged    its manifest or one of its files is truncated, changed or missing
    ├── ObjectError              a file in a checkpoint location cannot be read or written
    │   ├── ObjectMissing        it is not there
    │   └── ObjectExists         it is there already and is never written twice
    ├── StateError               keyed state cannot do what was asked
    │   ├── StateMismatch        a batch or a stored table has other columns than declared
    │   ├── StateDamaged         a file of the state is truncated, changed or missing
    │   ├── StateFormatMismatch  written by another version of Holdfast
    │   └── StateClosed          used after it was closed, committed, aborted or failed
    ├── SchemaConflict           the source's columns no longer fit the target's
    ├── CheckFailed              a check of severity "fail" stopped a batch
    ├── JavaMissing              Spark needs Java 17 or newer and none was found
    ├── SparkFailed              Spark itself failed in a way Holdfast has no better name for
    └── Interrupted              Ctrl-C or SIGTERM ended the run
        └── Undelivered          before the batch in flight could be delivered

A message says what happened and to what; `hint` says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.model import CheckResult


class HoldfastError(Exception):
    """The root of every error Holdfast raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One mistake in a configuration file."""

    key: str
    """The full dotted key, for example `pipeline.bronze.target.path`."""
    message: str
    """What was found and what was expected."""
    suggestion: str = ""
    """The key or value that was probably meant, or nothing."""

    def __str__(self) -> str:
        text = f"{self.key}: {self.message}" if self.key else self.message
        return f"{text} (did you mean {self.suggestion}?)" if self.suggestion else text


class ConfigError(HoldfastError):
    """The configuration is wrong; `problems` lists every mistake at once."""

    def __init__(
        self, message: str, *, problems: Sequence[ConfigProblem] = (), hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {problem}" for problem in self.problems)]
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class UsageError(HoldfastError):
    """A command or a call was given something it cannot use."""


class LedgerError(HoldfastError):
    """The ledger cannot do what was asked."""


class LedgerLocked(LedgerError):
    """Another process holds the ledger and did not let go in time."""


class LedgerDamaged(LedgerError):
    """The file is not readable as a ledger."""


class LedgerFormatMismatch(LedgerError):
    """The ledger was written by another version of Holdfast."""


class VersionConflict(LedgerError):
    """A compare-and-set met another version of the record than it expected."""


class PipelineBusy(HoldfastError):
    """Another run of the same pipeline is going on."""


class LeaseLost(HoldfastError):
    """This run no longer holds its pipeline: a newer one took it over."""


class PlanRefused(HoldfastError):
    """A stored plan is missing, already applied, or no longer true."""


class SourceError(HoldfastError):
    """The source cannot be read as configured."""


class SourceChanged(SourceError):
    """The source changed while it was being read."""


class TargetError(HoldfastError):
    """The target cannot be written as configured."""


class TargetNotEmpty(TargetError):
    """The target has rows that Holdfast does not remember writing."""


class DiskFull(TargetError):
    """There is no space left where Holdfast has to write."""


class TransformFailed(HoldfastError):
    """The SQL or the Python function of a pipeline failed."""


class SinkError(HoldfastError):
    """A batch could not be delivered to a sink."""


class SinkUnavailable(SinkError):
    """The sink cannot take the batch now; it may when it is tried again."""


class SinkRefused(SinkError):
    """The sink will not take the batch before somebody changes something."""


class CheckpointError(HoldfastError):
    """A checkpoint cannot do what was asked."""


class CheckpointMissing(CheckpointError):
    """There is no such checkpoint."""


class CheckpointDamaged(CheckpointError):
    """A manifest, or a file it names, is truncated, changed or missing."""


class ObjectError(HoldfastError):
    """A file in a checkpoint location could not be read or written."""


class ObjectMissing(ObjectError):
    """There is no such file."""


class ObjectExists(ObjectError):
    """The file exists, and files there are never written twice."""


class StateError(HoldfastError):
    """Keyed state cannot do what was asked."""


class StateMismatch(StateError):
    """A batch, or a table already stored, has other columns than were declared."""


class StateDamaged(StateError):
    """A file of the state is truncated, changed or missing."""


class StateFormatMismatch(StateError):
    """The state was written by another version of Holdfast."""


class StateClosed(StateError):
    """A store or a transaction was used after it had ended."""


class SchemaConflict(HoldfastError):
    """The source's columns no longer fit the target's."""


class CheckFailed(HoldfastError):
    """A check of severity `fail` stopped a batch before it was published."""

    def __init__(
        self, message: str, *, hint: str = "", results: Sequence[CheckResult] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.results = tuple(results)


class JavaMissing(HoldfastError):
    """Spark needs Java 17 or newer and none was found."""


class SparkFailed(HoldfastError):
    """Spark failed in a way Holdfast has no better name for."""


class Interrupted(HoldfastError):
    """The run was ended by Ctrl-C or SIGTERM."""

    exit_code = 130


class Undelivered(Interrupted):
    """A stream was stopped while a sink it had to wait for was down; nothing is lost."""
