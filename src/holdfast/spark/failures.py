"""Spark's failures in words a user can act on.

Spark wraps the cause of a failure several exceptions deep. Each rule below looks for one cause
anywhere in the chain; the first that fits names the error. What no rule knows is passed on with
Spark's own first line, never with a stack trace.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from holdfast.errors import (
    DiskFull,
    HoldfastError,
    Interrupted,
    SourceChanged,
    SourceError,
    SparkFailed,
    TargetError,
    TransformFailed,
    UsageError,
)

_NOTHING_LOST = "Nothing was committed; run again once that is done."


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    build: Callable[[str, re.Match[str]], HoldfastError]


def _rule(pattern: str, build: Callable[[str, re.Match[str]], HoldfastError]) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE | re.DOTALL), build)


def _csv_header(what: str, header: str, file: str | None) -> SourceError:
    names = [name.strip().lower() for name in header.split(",")]
    for name in names:
        if names.count(name) > 1:
            # Spark tells such columns apart by a number, and then misses the names it made up.
            return _column_twice(what, name)
    where = f" ({file} differs)" if file else ""
    return SourceError(
        f"{what}: the CSV files do not all have the same header{where}.",
        hint="Give the newer columns to all files, or read each set of files as a table.",
    )


def _column_twice(what: str, name: str) -> SourceError:
    return SourceError(
        f"{what}: the source has the column {name} twice (names differ at most in case).",
        hint="Rename one of them at the source.",
    )


_RULES = (
    _rule(
        r"No space left on device|Disk quota exceeded",
        lambda what, _: DiskFull(
            f"{what}: no space left on the disk.", hint=f"Free some space. {_NOTHING_LOST}"
        ),
    ),
    _rule(
        # Not the bare word: a table may be called cancelled_orders.
        r"SPARK_JOB_CANCELLED|Job \d+ cancelled|SparkContext (was|has been) shut ?down",
        lambda what, _: Interrupted(f"{what} was interrupted.", hint="Run again to go on."),
    ),
    _rule(
        r"FILE_NOT_EXIST\]?.*?(?:file|path)[: ]+(\S+)|FileNotFoundException: (?:File )?(\S+)",
        lambda what, m: SourceChanged(
            f"{what}: a file disappeared during the read: {m.group(1) or m.group(2)}.",
            hint="Something rewrote the source while it was read. " + _NOTHING_LOST,
        ),
    ),
    _rule(
        r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.? ",
        lambda what, m: SourceError(
            f"{what}: there is nothing at {m.group(1)}.", hint="Check the configured path."
        ),
    ),
    _rule(
        r"Wrong basePath (\S+) for the root path: (\S+)",
        lambda what, m: UsageError(
            f"{what}: the files were read below another path before ({m.group(2)}, now "
            f"{m.group(1)}).",
            hint="A file is remembered by its full path. Put the files back, or give the stream "
            "another name, which starts from the beginning.",
        ),
    ),
    _rule(
        r"UNABLE_TO_INFER_SCHEMA",
        lambda what, _: SourceError(
            f"{what}: there is no readable file from which to learn the columns.",
            hint="Check the path and format, or give the table a `schema`.",
        ),
    ),
    _rule(
        r"DATA_SOURCE_NOT_FOUND\] Failed to find the data source: (\S+?)\. ",
        lambda what, m: SourceError(
            f"{what}: Spark has no format called {m.group(1)}.",
            hint="Check the spelling, or add its package with spark.jars or spark.jars.packages "
            "under [spark] conf.",
        ),
    ),
    _rule(
        r"TABLE_OR_VIEW_NOT_FOUND\] The table or view (\S+) cannot",
        lambda what, m: SourceError(
            f"{what}: there is no table {m.group(1)} in the catalog.",
            hint="Check the table's name and source.namespace.",
        ),
    ),
    _rule(
        r"No suitable driver|ClassNotFoundException: \S+Driver"
        r"|NoSuchMethodException: \S+DriverWrapper",
        lambda what, _: SourceError(
            f"{what}: Spark has no JDBC driver for this database.",
            hint='Add its jar under [spark]: conf = { "spark.jars" = "/path/to/driver.jar" }, '
            "and name its class in source.options.driver.",
        ),
    ),
    _rule(
        r"(Connection to \S+ refused|Connection refused|UnknownHostException: \S+"
        r"|The connection attempt failed|Communications link failure)",
        lambda what, m: SourceError(
            f"{what}: the database cannot be reached ({m.group(1)}).",
            hint="Check that it runs and that source.options.url is right. " + _NOTHING_LOST,
        ),
    ),
    _rule(
        r"(password authentication failed for user \S+|Access denied for user \S+)",
        lambda what, m: SourceError(
            f"{what}: the database refused the login ({m.group(1)}).",
            hint="Check source.options.user and password.",
        ),
    ),
    _rule(
        r"(?:PSQLException|SQL\w*Exception): (?:ERROR: )?([^\n]*does ?n[o']t exist[^\n]*)",
        lambda what, m: SourceError(
            f"{what}: the database says: {m.group(1).strip()}.",
            hint="Check the table's name and source.namespace.",
        ),
    ),
    _rule(
        r"AccessDeniedException: (\S+)|(\S+) \(Permission denied\)|Permission denied: (\S+)",
        lambda what, m: SourceError(
            f"{what}: permission denied: {next(g for g in m.groups() if g)}.",
            hint="Give this user access to it.",
        ),
    ),
    # Before the next ones: Spark may report these as a failure to read a file.
    _rule(
        r"(?:CSV header does not conform to the schema|number of columns in CSV header)"
        r"(?:.*?Header: (?P<header>[^\n]*))?(?:.*?CSV file: (?P<file>\S+))?",
        lambda what, m: _csv_header(what, m["header"] or "", m["file"]),
    ),
    _rule(
        r'Found duplicate field\(s\) "?(\w+)"?: [^\n]*? in case-insensitive mode',
        lambda what, m: _column_twice(what, m.group(1)),
    ),
    _rule(
        r"CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE\][^\n]*? data types (\S+) and (\S+?)\.? ",
        lambda what, m: SourceError(
            f"{what}: the files do not agree on the type of a column: {m.group(1)} in some, "
            f"{m.group(2)} in others.",
            hint="Write the older files again with the newer type. " + _NOTHING_LOST,
        ),
    ),
    _rule(
        r"ParentNotDirectoryException: [^\n]*?: (\S+)",
        lambda what, m: TargetError(
            f"{what}: {m.group(1)} is a file, not a directory.",
            hint="Choose another target.path, or move the file out of the way.",
        ),
    ),
    _rule(
        r"(?:CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE[.\w]*)\][^\n]*?file[: ]+(\S+?)\.?(?:\s|$)",
        lambda what, m: SourceError(
            f"{what}: cannot read {m.group(1)}: it is damaged or not of the configured format.",
            hint="Replace or remove the file, or correct source.format. " + _NOTHING_LOST,
        ),
    ),
    _rule(
        # The last line of the Python trace, which is the user's own exception.
        r"(?:PythonException|from the Python worker).*?Traceback \(most recent call last\):"
        r".*?\n((?:\w+\.)*\w+(?:Error|Exception|Exit|Interrupt|Warning)\b[^\n]*)",
        lambda what, m: TransformFailed(
            f"{what}: a Python function raised {m.group(1).strip()}.",
            hint="Its trace is in Spark's log. Mend the function. " + _NOTHING_LOST,
        ),
    ),
    _rule(
        r"is not a Parquet file|MALFORMED_ORC_FILE|Malformed ORC file",
        lambda what, _: SourceError(
            f"{what}: a file is damaged or not of the configured format.",
            hint="Replace or remove the file, or correct source.format. " + _NOTHING_LOST,
        ),
    ),
    _rule(
        r"UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE\] ([^\n]+?)(?: SQLSTATE|\n|$)",
        lambda what, m: TargetError(
            f"{what}: {m.group(1)}", hint="Write to parquet, or flatten the column at the source."
        ),
    ),
    _rule(
        r"COLUMN_ALREADY_EXISTS\] The column (\S+) already exists",
        lambda what, m: _column_twice(what, m.group(1)),
    ),
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what Spark or the disk raises inside into an error that says what to do."""
    try:
        yield
    except HoldfastError:
        raise
    except (PySparkException, Py4JError) as error:
        raise explain(what, error) from error
    except OSError as error:
        raise explain_os(what, error) from error


def explain(what: str, error: Exception) -> HoldfastError:
    """Name a Spark failure."""
    if isinstance(error, Py4JNetworkError):
        return SparkFailed(
            f"{what}: Spark's Java process has ended.",
            hint="Nothing is lost. See its log for why, then run again.",
        )
    chain = "\n".join(_chain(error))
    for rule in _RULES:
        match = rule.pattern.search(chain)
        if match:
            return rule.build(what, match)
    return SparkFailed(
        f"{what} failed in Spark: {_first_line(chain)}",
        hint="Spark's log has the details.",
    )


def explain_os(what: str, error: OSError) -> HoldfastError:
    """Name a failure of the file system."""
    place = error.filename or ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"{what}: no space left on the disk.", hint=f"Free some space. {_NOTHING_LOST}"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return TargetError(
            f"{what}: permission denied: {place}.", hint="Give this user access to it."
        )
    return TargetError(f"{what}: {error.strerror or error} ({place}).", hint=_NOTHING_LOST)


def _chain(error: Exception) -> Iterator[str]:
    yield str(error).split("\nJVM stacktrace", maxsplit=1)[0].split("\n\tat ", maxsplit=1)[0]
    origin = getattr(error, "_origin", None) or error
    cause: Any = origin.java_exception if isinstance(origin, Py4JJavaError) else origin
    if not hasattr(cause, "getCause"):
        return
    for _ in range(20):
        if cause is None:
            return
        yield str(cause.toString()).split("\n\tat ", maxsplit=1)[0]
        cause = cause.getCause()


def _first_line(text: str) -> str:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith(("An error occurred while calling", ":")):
            return re.sub(r"\s*SQLSTATE: \w+", "", stripped)[:400]
    return "no message"
