"""The configuration file `holdfast.toml`: read, checked, and explained when it is wrong."""

from holdfast.config.checks import ChecksConfig, FreshnessConfig, GrowthConfig, SeverityConfig
from holdfast.config.durations import Duration, describe_duration, parse_duration
from holdfast.config.endpoints import FILE_FORMATS, NAMED_FORMATS, Discovery, Source, Target
from holdfast.config.fingerprint import differences, fingerprint, pipeline_document, source_digest
from holdfast.config.limits import STREAM_FILE_FORMATS, source_options
from holdfast.config.loading import load_config
from holdfast.config.overrides import NullWatermark, TableOverride
from holdfast.config.pattern import SchemaPattern, placeholders, render
from holdfast.config.redaction import is_secret
from holdfast.config.replicate import ReplicatePipeline, TableSettings
from holdfast.config.root import AnyPipeline, Config
from holdfast.config.section import Section
from holdfast.config.sinks import (
    AnySink,
    ConsoleSink,
    DeltaSink,
    FilesSink,
    HttpSink,
    KafkaSink,
    PostgresSink,
    PythonSink,
    Retry,
    SinkConfig,
    Spool,
    ValkeySink,
)
from holdfast.config.spark import SparkConfig
from holdfast.config.starter import STARTER, STREAM_STARTER, write_starter
from holdfast.config.state import StateConfig
from holdfast.config.stream import (
    BatchLimits,
    CheckpointConfig,
    Retention,
    SourceRetry,
    StreamPipeline,
    StreamSource,
)

__all__ = [
    "FILE_FORMATS",
    "NAMED_FORMATS",
    "STARTER",
    "STREAM_FILE_FORMATS",
    "STREAM_STARTER",
    "AnyPipeline",
    "AnySink",
    "BatchLimits",
    "CheckpointConfig",
    "ChecksConfig",
    "Config",
    "ConsoleSink",
    "DeltaSink",
    "Discovery",
    "Duration",
    "FilesSink",
    "FreshnessConfig",
    "GrowthConfig",
    "HttpSink",
    "KafkaSink",
    "NullWatermark",
    "PostgresSink",
    "PythonSink",
    "ReplicatePipeline",
    "Retention",
    "Retry",
    "SchemaPattern",
    "Section",
    "SeverityConfig",
    "SinkConfig",
    "Source",
    "SourceRetry",
    "SparkConfig",
    "Spool",
    "StateConfig",
    "StreamPipeline",
    "StreamSource",
    "TableOverride",
    "TableSettings",
    "Target",
    "ValkeySink",
    "describe_duration",
    "differences",
    "fingerprint",
    "is_secret",
    "load_config",
    "parse_duration",
    "pipeline_document",
    "placeholders",
    "render",
    "source_digest",
    "source_options",
    "write_starter",
]
