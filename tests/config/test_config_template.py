"""`holdfast init --template stream`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.app import app


def test_a_stream_can_be_started_from_a_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is written validates, and is described by its sinks."""
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert run(app, ["init", "--template", "stream"]).exit_code == 0
    assert "payments: stream of json to lake" in run(app, ["validate"]).output
    document = json.loads(run(app, ["validate", "-o", "json"]).output)
    assert document["pipelines"] == [{"name": "payments", "sinks": ["lake"]}]
