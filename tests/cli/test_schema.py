"""`holdfast schema`: the columns of a stream and when they changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .events import CHECKPOINT, LAKE, STREAM, Events, run_to_three
from .harness import Commands

pytestmark = pytest.mark.spark

TOP = {"format", "command", "pipeline"}
ENTRY = {"name", "fingerprint", "since", "changes"}
SINCE = {"version", "checkpoint_id", "epoch", "generation", "seen_at"}


@pytest.fixture
def changed(tmp_path: Path, spark_cli: Commands) -> Events:
    """A stream that delivers one column more since version 4."""
    events = run_to_three(tmp_path)
    wider = 'on_schema_change = "continue"\nselect = ["id", "note", "id * 2 as twice"]\n'
    events.configure(STREAM + wider, LAKE)
    events.add(4)
    done = spark_cli("run", "--once")
    assert done.code == 0, done.said
    return events


def test_a_change_is_listed_shown_and_dated(changed: Events, cli: Commands) -> None:
    """Every schema has the version it came with; old ones can still be shown."""
    document = cli("schema", "list", "-o", "json").json

    assert set(document) == TOP | {"schemas"}
    assert all(set(each) == ENTRY for each in document["schemas"])
    assert all(set(each["since"]) == SINCE for each in document["schemas"])
    outputs = [each for each in document["schemas"] if each["name"] == "output"]
    assert [each["since"]["version"] for each in outputs] == [1, 4]
    assert outputs[0]["changes"] == []
    (change,) = outputs[1]["changes"]
    assert "twice (bigint)" in change
    assert change in cli("schema", "list", "payments").out

    newest = cli("schema", "show", "-o", "json").json
    assert set(newest) == TOP | ENTRY | {"columns"}
    assert newest["fingerprint"] == outputs[1]["fingerprint"]
    assert [column["name"] for column in newest["columns"]] == ["id", "note", "twice"]

    older = cli("schema", "show", outputs[0]["fingerprint"][:8])
    assert older.code == 0, older.said
    assert "since version 1 (epoch 0)" in older.out
    assert "twice" not in older.out
    nobody = cli("schema", "show", "payments", "ffffff")
    assert nobody.code == 1
    assert outputs[0]["fingerprint"] in nobody.err

    then = cli("schema", "at", "3", "-o", "json").json
    assert set(then) == TOP | {"checkpoint", "schemas"}
    assert set(then["checkpoint"]) == CHECKPOINT
    assert set(then["schemas"]) == {"input", "output"}
    assert then["schemas"]["output"]["fingerprint"] == outputs[0]["fingerprint"]
    now = cli("schema", "at", "payments", "latest").out
    assert "twice" in now
    assert "payments output" in now
    assert cli("schema", "at", "payments").code == 1
