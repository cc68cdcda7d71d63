"""From the configuration of a sink to the sink."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.config.sinks import SINKS, SinkConfig
from holdfast.errors import ConfigError
from holdfast.spark.sinks.opening import open_sink

pytestmark = pytest.mark.spark

SETTINGS = {
    "files": {"path": "files"},
    "delta": {"path": "delta"},
    "postgres": {"url": "postgresql://me:s3cret@127.0.0.1:1/shop", "table": "orders"},
    "valkey": {"url": "valkey://:s3cret@127.0.0.1:1/0", "key": "order:{id}"},
    "kafka": {"brokers": "127.0.0.1:1", "topic": "orders"},
    "http": {"url": "http://me:s3cret@127.0.0.1:1/events"},
    "console": {},
    "python": {"function": "holdfast.testing.sinks:token"},
}


@pytest.mark.parametrize("kind", SINKS)
def test_every_type_opens(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Every type of the configuration has a sink, which opens before its server is needed."""
    settings = {key: value for key, value in SETTINGS[kind].items() if key != "path"}
    if "path" in SETTINGS[kind]:
        settings["path"] = str(tmp_path / kind)
    config = SINKS[kind].model_validate({"name": "out", "type": kind, **settings})
    sink = open_sink(config, pipeline="shop", spark=spark)
    assert type(sink).__name__ == type(config).__name__
    assert sink.name == "out"
    assert "s3cret" not in sink.description
    sink.close()


def test_a_type_without_a_sink(spark: SparkSession) -> None:
    """A section that no sink is for is refused in plain words."""
    with pytest.raises(ConfigError, match="there is no sink for a SinkConfig"):
        open_sink(SinkConfig(name="out"), pipeline="shop", spark=spark)


def test_clients_are_imported_when_used() -> None:
    """Importing every sink imports none of the optional clients."""
    modules = ["opening", *SINKS]
    program = f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module("holdfast.spark.sinks." + name)
print(sorted(set(sys.modules) & {{"valkey", "confluent_kafka", "psycopg", "deltalake"}}))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"
