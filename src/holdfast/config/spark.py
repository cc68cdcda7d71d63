"""`[spark]`: the session that moves the data."""

from __future__ import annotations

from pydantic import Field

from holdfast.config.options import Options
from holdfast.config.section import Section
from holdfast.config.values import Text


class SparkConfig(Section):
    """The Spark session."""

    master: Text = "local[*]"
    conf: Options = Field(default_factory=dict)
