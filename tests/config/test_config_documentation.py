"""The reference page says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_files import Load

from holdfast.config import (
    BatchLimits,
    CheckpointConfig,
    ChecksConfig,
    Config,
    Discovery,
    FreshnessConfig,
    GrowthConfig,
    ReplicatePipeline,
    Retention,
    Retry,
    Section,
    SeverityConfig,
    SinkConfig,
    Source,
    SourceRetry,
    SparkConfig,
    Spool,
    StateConfig,
    StreamPipeline,
    StreamSource,
    TableOverride,
    Target,
)
from holdfast.config.sinks import SINKS

PAGE = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text(encoding="utf-8")
HEADINGS: dict[str, type[Section]] = {
    "`[state]`": StateConfig,
    "`[spark]`": SparkConfig,
    "`[pipeline.<name>]` of type `replicate`": ReplicatePipeline,
    "`source`": Source,
    "`target`": Target,
    "`discovery`": Discovery,
    "`[pipeline.<name>.table.<table>]`": TableOverride,
    "`checks`": ChecksConfig,
    "`freshness`": FreshnessConfig,
    "`growth`": GrowthConfig,
    "`severity`": SeverityConfig,
    "`[pipeline.<name>]` of type `stream`": StreamPipeline,
    "`source` of a stream": StreamSource,
    "`batch`": BatchLimits,
    "`retry`": Retry,
    "`spool`": Spool,
    "`checkpoint`": CheckpointConfig,
    "`retain`": Retention,
    "`source_retry`": SourceRetry,
}


def documented_keys(heading: str) -> list[str]:
    """Return the keys in the table below a heading."""
    [body] = re.findall(rf"^##+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.M)
    return re.findall(r"^\| `(\w+)` \|", body, re.M)


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_key_is_documented_and_nothing_else(heading: str) -> None:
    """The table of each section has its keys, in their order."""
    assert documented_keys(heading) == list(HEADINGS[heading].keys())


def test_what_every_sink_has_is_documented_once() -> None:
    """The keys that all types share stand in one table, beside `type`."""
    assert documented_keys("`[[pipeline.<name>.sinks]]`") == ["type", *SinkConfig.keys()]


@pytest.mark.parametrize("kind", SINKS)
def test_the_own_keys_of_every_sink_are_documented(kind: str) -> None:
    """Each type of sink has a table with what it does not share."""
    keys = SINKS[kind].keys()
    own = [key for key in keys if key not in ("type", *SinkConfig.keys())]
    assert documented_keys(f'`type = "{kind}"`') == own


def test_every_section_has_a_heading() -> None:
    """A section that is added must be documented."""
    sections = {kind for kind in Section.__subclasses__() if kind.__module__.startswith("holdfast")}
    assert sections == {*HEADINGS.values(), Config, SinkConfig}
    assert {*SinkConfig.__subclasses__()} == {*SINKS.values()}


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_every_example_loads(load: Load, block: str) -> None:
    """Examples can be copied."""
    assert load(block).pipeline


def test_the_shown_report_is_the_real_one(load: Load) -> None:
    """The page shows problems as they are printed."""
    [report] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    text = (
        '[pipeline.bronze]\ntype = "replicate"\nsource = { format = "csv", path = "x" }\n'
        'target = { path = "y" }\ntables = ["a"]\nwatermrk = "ts"\nstrategy = "merg"\n'
        "checks = { anomaly_threshold_pct = -5 }\n"
    )
    with pytest.raises(Exception, match="has 3 problems") as caught:
        load(text)
    assert str(caught.value).splitlines()[1:] == report.splitlines()[1:]
