"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Sooner ready, slower over many rows: the right trade for tests, the wrong one for users.
FAST_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
# Where Debian puts it; a session that is running cannot be given a jar for its databases.
POSTGRES_JDBC = Path("/usr/share/java/postgresql.jar")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests of a process, with nothing left in the working directory."""
    from holdfast.spark.session import start_session, stop_session

    home: Path = tmp_path_factory.mktemp("spark")
    conf = {
        **FAST_START,
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
    }
    if POSTGRES_JDBC.exists():
        conf["spark.jars"] = str(POSTGRES_JDBC)
    session = start_session("local[2]", conf, app_name="tests", log_path=home / "spark.log")
    yield session
    stop_session(session)
