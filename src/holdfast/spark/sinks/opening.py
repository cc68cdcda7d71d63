"""From the configuration of a sink to the sink."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.config import sinks as config_of
from holdfast.errors import ConfigError
from holdfast.spark.sinks.contract import Sink


def open_sink(config: config_of.SinkConfig, *, pipeline: str, spark: SparkSession) -> Sink:
    """Make the sink a configuration describes; only its own client is imported."""
    match config:
        case config_of.FilesSink():
            from holdfast.spark.sinks.files import FilesSink

            return FilesSink(config, pipeline=pipeline, spark=spark)
        case config_of.DeltaSink():
            from holdfast.spark.sinks.delta import DeltaSink

            return DeltaSink(config, pipeline=pipeline, spark=spark)
        case config_of.PostgresSink():
            from holdfast.spark.sinks.postgres import PostgresSink

            return PostgresSink(config, pipeline=pipeline, spark=spark)
        case config_of.ValkeySink():
            from holdfast.spark.sinks.valkey import ValkeySink

            return ValkeySink(config, pipeline=pipeline, spark=spark)
        case config_of.KafkaSink():
            from holdfast.spark.sinks.kafka import KafkaSink

            return KafkaSink(config, pipeline=pipeline, spark=spark)
        case config_of.HttpSink():
            from holdfast.spark.sinks.http import HttpSink

            return HttpSink(config, pipeline=pipeline, spark=spark)
        case config_of.ConsoleSink():
            from holdfast.spark.sinks.console import ConsoleSink

            return ConsoleSink(config, pipeline=pipeline, spark=spark)
        case config_of.PythonSink():
            from holdfast.spark.sinks.python import PythonSink

            return PythonSink.configured(config)
        case _:
            raise ConfigError(
                f"{config.name}: there is no sink for a {type(config).__name__}.",
                hint="Choose one of the types files, delta, postgres, valkey, kafka, http, "
                "console and python.",
            )
