"""The configuration file `holdfast.toml`: read, checked, and explained when it is wrong."""

from holdfast.config.checks import ChecksConfig, FreshnessConfig, GrowthConfig, SeverityConfig
from holdfast.config.durations import Duration, describe_duration, parse_duration
from holdfast.config.endpoints import FILE_FORMATS, NAMED_FORMATS, Discovery, Source, Target
from holdfast.config.fingerprint import differences, fingerprint, pipeline_document
from holdfast.config.loading import load_config
from holdfast.config.overrides import NullWatermark, TableOverride
from holdfast.config.pattern import SchemaPattern, placeholders, render
from holdfast.config.redaction import is_secret
from holdfast.config.replicate import ReplicatePipeline, TableSettings
from holdfast.config.root import Config
from holdfast.config.section import Section
from holdfast.config.spark import SparkConfig
from holdfast.config.starter import STARTER, write_starter
from holdfast.config.state import StateConfig

__all__ = [
    "FILE_FORMATS",
    "NAMED_FORMATS",
    "STARTER",
    "ChecksConfig",
    "Config",
    "Discovery",
    "Duration",
    "FreshnessConfig",
    "GrowthConfig",
    "NullWatermark",
    "ReplicatePipeline",
    "SchemaPattern",
    "Section",
    "SeverityConfig",
    "Source",
    "SparkConfig",
    "StateConfig",
    "TableOverride",
    "TableSettings",
    "Target",
    "describe_duration",
    "differences",
    "fingerprint",
    "is_secret",
    "load_config",
    "parse_duration",
    "pipeline_document",
    "placeholders",
    "render",
    "write_starter",
]
