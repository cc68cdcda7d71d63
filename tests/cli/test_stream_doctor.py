"""`doctor` looks at streams: their checkpoints, their sources, their sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from postgres.server import free_port

from .events import LAKE, SPARK, STREAM
from .harness import Commands

pytestmark = pytest.mark.spark

NOBODY = """\
[[pipeline.payments.sinks]]
name = "{name}"
type = "http"
url = "http://127.0.0.1:{port}/events"
required = {required}
"""


def findings(done: Any, check: str) -> list[tuple[str, str]]:
    """What a check said, with its status."""
    return [
        (entry["status"], entry["message"])
        for entry in done.json["findings"]
        if entry["check"] == check
    ]


def test_a_healthy_stream(tmp_path: Path, spark_cli: Commands) -> None:
    """One line for each thing a run needs, before and after the first."""
    (tmp_path / "holdfast.toml").write_text(SPARK + STREAM + LAKE)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text('{"id": 1, "note": "a"}\n')

    before = spark_cli("doctor", "-o", "json")
    assert spark_cli("run", "payments", "--once").code == 0
    after = spark_cli("doctor", "-o", "json")

    assert (before.code, after.code) == (0, 0)
    assert "no version yet" in findings(before, "checkpoints")[0][1]
    assert "version 1 is whole" in findings(after, "checkpoints")[0][1]
    assert findings(after, "sources")[0][0] == "ok"
    assert "parquet files in" in findings(after, "sinks")[0][1]


def test_a_stream_in_trouble(tmp_path: Path, spark_cli: Commands) -> None:
    """Damage, and a required sink that is down, are critical; an optional sink is a warning."""
    (tmp_path / "holdfast.toml").write_text(SPARK + STREAM + LAKE)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text('{"id": 1, "note": "a"}\n')
    assert spark_cli("run", "payments", "--once").code == 0
    (file,) = (tmp_path / ".holdfast/checkpoints/payments/files").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    port = free_port()
    down = [
        NOBODY.format(name="needed", port=port, required="true"),
        NOBODY.format(name="spare", port=port, required="false").replace("/events", "/other"),
    ]
    (tmp_path / "holdfast.toml").write_text(SPARK + STREAM + LAKE + "".join(down))

    done = spark_cli("doctor", "-o", "json")

    assert done.code == 3
    assert findings(done, "checkpoints")[0][0] == "critical"
    assert [status for status, _ in findings(done, "sinks")] == ["ok", "critical", "warn"]
