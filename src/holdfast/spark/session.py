"""Starting and stopping Spark, quietly."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import IO

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import SparkFailed
from holdfast.spark.java import find_java

__all__ = ["DataFrame", "SparkSession", "has_session", "start_session", "stop_session"]

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"

_DEFAULTS = {
    # Watermarks are compared and stored in UTC, whatever the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Its bar would be drawn over ours.
    "spark.ui.showConsoleProgress": "false",
    # Tables copied side by side share the cores: a small one does not wait for a large one.
    "spark.scheduler.mode": "FAIR",
    # Spark's 200 is made for clusters: on a few cores most of those tasks would be empty.
    "spark.sql.shuffle.partitions": "4",
}

# No options for the JVM's compiler or collector. Measured on 2 cores over 20 small tables and
# 2M rows: -XX:TieredStopAtLevel=1 starts up to 1 s sooner but then takes twice as long over the
# rows, and -XX:+UseSerialGC makes no difference.
_LOCAL_DEFAULTS = {
    # Without these Spark looks up the machine's host name, which in a container or on a laptop
    # behind a VPN may not resolve to an address the driver can listen on.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # In local mode the driver does all the work; Spark's 1g is tight for several tables at once.
    "spark.driver.memory": "2g",
}

_LAST_WORDS_LINES = 10
_NOISE = re.compile(r"^\tat |^WARNING: | WARN ")
_starting = threading.Lock()


def start_session(
    master: str, conf: Mapping[str, str], *, app_name: str, log_path: Path | None
) -> SparkSession:
    """Return a running session on `master`, with Spark's own output kept off the terminal.

    Warnings and errors of Spark are appended to `log_path`, or dropped where it is `None`.
    `conf` wins over Holdfast's defaults. A session that is already active is returned, with
    those settings applied that can still change; its log stays where it was.
    """
    # pyspark prints every query it does not understand, with its trace, besides raising it.
    for noisy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    with _starting:
        settings = _settings(master, conf)
        try:
            if not has_session():
                _start_context(master, settings, app_name, log_path)
            else:
                # Only what was asked for: our defaults must not undo the owner's choices.
                settings = dict(conf)
            builder = SparkSession.builder
            for key, value in settings.items():
                builder = builder.config(key, value)
            return builder.getOrCreate()
        except (Py4JError, PySparkException) as error:
            raise SparkFailed(
                f"Spark could not start on {master}: {_reason(error)}",
                hint=_hint(log_path),
            ) from error


def has_session() -> bool:
    """Whether Spark runs in this process already, started by whomever."""
    return SparkContext._active_spark_context is not None


def stop_session(session: SparkSession) -> None:
    """Stop the session and its Spark application; stopping twice is allowed."""
    session.stop()


def _settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    settings = dict(_DEFAULTS)
    if _is_local(master):
        settings |= _LOCAL_DEFAULTS
    settings |= conf
    # Added to the user's own options. A URI, because Spark splits the options at spaces.
    log4j = f"-Dlog4j2.configurationFile={_logging_configuration().as_uri()}"
    # A database's times without a zone pass through the JVM's own zone on their way to Spark.
    zone = "-Duser.timezone=UTC"
    settings[_JAVA_OPTIONS] = f"{log4j} {zone} {settings.get(_JAVA_OPTIONS, '')}".strip()
    settings[_EXECUTOR_OPTIONS] = f"{zone} {settings.get(_EXECUTOR_OPTIONS, '')}".strip()
    return settings


def _start_context(
    master: str, settings: Mapping[str, str], app_name: str, log_path: Path | None
) -> None:
    _prepare_environment(master)
    conf = SparkConf().setMaster(master).setAppName(app_name).setAll(list(settings.items()))
    # A JVM outlives the sessions in it; under spark-submit it was there before us.
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        _start_jvm(master, conf, log_path)
    with _keeping_interrupts():
        SparkContext(conf=conf)


@contextmanager
def _keeping_interrupts() -> Iterator[None]:
    """Put back the handler of Ctrl-C that Spark replaces by one of its own.

    Spark's calls into the JVM from inside the signal, which a call that is under way there does
    not survive.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_jvm(master: str, conf: SparkConf, log_path: Path | None) -> None:
    """Start the JVM with its output in the log.

    Spark's launcher and the JVM print before, and beside, Spark's logging. Redirecting the whole
    process is the only way to keep all of that off the terminal without losing it.
    """
    os.environ["JAVA_HOME"] = str(find_java().home)
    with _open_log(log_path) as log:
        begin = log.seek(0, os.SEEK_END)
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]  # pyspark leaves it untyped
                conf, popen_kwargs={"stdout": log, "stderr": log}
            )
        except PySparkException as error:
            raise SparkFailed(
                f"Spark could not start on {master}: its Java process ended too early."
                + _last_words(log, begin),
                hint=_hint(log_path),
            ) from error
    SparkContext._ensure_initialized(gateway=gateway)


def _prepare_environment(master: str) -> None:
    # Without it, Spark's Python workers would be whatever `python3` is first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _logging_configuration() -> Path:
    return Path(str(files("holdfast.spark").joinpath("log4j2.properties"))).resolve()


def _open_log(log_path: Path | None) -> IO[bytes]:
    """Open the log for appending: the JVM and later runs add to it, none cuts it short."""
    if log_path is None:
        # Not the null device: when the JVM cannot start, its last words are the explanation.
        return tempfile.TemporaryFile()
    log_path.parent.mkdir(parents=True, exist_ok=True)
    return log_path.open("a+b")


def _last_words(log: IO[bytes], begin: int) -> str:
    """Return what was logged since `begin`, less warnings and stack traces, for a message."""
    log.seek(begin)
    lines = log.read().decode(errors="replace").splitlines()
    telling = [line for line in lines if line.strip() and not _NOISE.search(line)]
    return "".join(f"\n  {line.strip()}" for line in telling[-_LAST_WORDS_LINES:])


def _reason(error: Exception) -> str:
    """Return the one line of a Java exception that says what is wrong."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.getMessage()) if java_exception is not None else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def _hint(log_path: Path | None) -> str:
    check = "Check the master and the settings of Spark."
    return f"{check} Its log is {log_path}." if log_path else check
