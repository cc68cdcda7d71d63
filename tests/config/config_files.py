"""Texts of configuration files that the tests start from."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.config import Config

Load = Callable[..., Config]
Problems = Callable[..., list[str]]

PIPELINE = """
[pipeline.bronze]
type = "replicate"
source = { format = "csv", path = "data/shop" }
target = { path = "lake" }
"""
"""A pipeline that lacks only its tables and its watermark."""

TABLES = 'tables = ["orders", "customers"]\n'

COMPLETE = PIPELINE + TABLES + 'watermark = "updated_at"\n'
"""A pipeline that loads; keys and tables can be added below it."""

STREAM = """
[pipeline.payments]
type = "stream"
source = { format = "json", path = "events", schema = "id long, ts timestamp" }
"""
"""A stream that lacks only its sinks."""

SINK = """
[[pipeline.payments.sinks]]
name = "lake"
type = "files"
path = "lake/payments"
"""
"""A sink that has all it needs; keys can be added below it."""
