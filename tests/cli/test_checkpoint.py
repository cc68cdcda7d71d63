"""`holdfast checkpoint`: the versions of a stream, through the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .events import CHECKPOINT, COPY, LAKE, STREAM, Events, once_each, run_to_three, three_versions
from .harness import HOLDFAST, Commands

pytestmark = pytest.mark.spark

TOP = {"format", "command", "pipeline"}
VERSION = CHECKPOINT | {"head", "abandoned", "kept"}
PIN = {"version", "checkpoint_id", "note", "actor", "created_at"}
FILE = {"key", "bytes", "checksum"}
SINK = {"guarantee", "delivered", "spool", "dropped", "dropped_count"}


@pytest.fixture
def streamed(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, spark: object) -> Events:
    """A stream at version 3 that has delivered three events."""
    return three_versions(tmp_path_factory, tmp_path)


def test_list(streamed: Events, cli: Commands) -> None:
    """Versions are listed newest first, with the head marked, as many as are asked for."""
    said = cli("checkpoint", "list", "payments", "--limit", "2")
    document = cli("checkpoint", "list", "-o", "json").json

    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[2].split()[:3] == ["3", "head", "2"]
    assert lines[3].split()[:2] == ["2", "1"]
    assert lines[4] == "1 older ones: --limit 3"
    assert set(document) == TOP | {"total", "checkpoints"}
    assert document["total"] == 3
    assert [set(each) for each in document["checkpoints"]] == [VERSION] * 3
    assert [(c["version"], c["head"], c["rows"]) for c in document["checkpoints"]] == [
        (3, True, 1),
        (2, False, 1),
        (1, False, 1),
    ]


def test_before_the_first_run(tmp_path: Path, cli: Commands) -> None:
    """A stream that has not run has no versions, and looking at it makes no ledger."""
    Events(tmp_path).configure()

    assert "payments has no checkpoint yet" in cli("checkpoint", "list").out
    assert "has not seen any rows yet" in cli("schema", "list").out
    for words in (("show",), ("verify",), ("create",), ("rollback", "1", "--yes")):
        done = cli("checkpoint", *words)
        assert done.code == 1, words
        assert "no checkpoint" in done.err, words
    assert not (tmp_path / ".holdfast" / "checkpoints").exists()


def test_show(streamed: Events, cli: Commands) -> None:
    """A version is shown with its positions, schemas, sinks and files, by any name it has."""
    document = cli("checkpoint", "show", "payments", "2", "-o", "json").json
    text = cli("checkpoint", "show", document["checkpoint_id"]).out

    assert set(document) == TOP | VERSION | {
        "run_id",
        "event_time",
        "positions",
        "schemas",
        "sinks",
        "operators",
        "manifest",
        "files",
    }
    (position,) = document["positions"]
    assert (position["start"], position["end"]) == ({"logOffset": 0}, {"logOffset": 1})
    assert document["schemas"]["output"]["columns"] == [
        {"name": "id", "type": "bigint", "nullable": True},
        {"name": "note", "type": "string", "nullable": True},
    ]
    assert set(document["sinks"]["lake"]) == SINK
    assert document["sinks"]["lake"]["delivered"] == {"generation": 1, "epoch": 1}
    assert set(document["manifest"]) == FILE
    assert all(set(file) == FILE for file in document["files"])
    assert document["operators"] == []
    for said in ('after {"logOffset":0}, up to {"logOffset":1}', "id bigint, note string"):
        assert said in text
    assert document["manifest"]["key"] in text
    assert cli("checkpoint", "show", "-o", "json").json["version"] == 3


def test_keeping_one(streamed: Events, cli: Commands) -> None:
    """A version that is kept on purpose says why, until it is released."""
    kept = cli("checkpoint", "create", "--note", "before [bold] the change", "-o", "json").json

    assert set(kept) == TOP | {"kept"}
    assert set(kept["kept"]) == PIN
    assert kept["kept"]["version"] == 3
    assert "before [bold] the change" in cli("checkpoint", "list").out

    assert cli("checkpoint", "release", "3").code == 0
    again = cli("checkpoint", "release", "payments", "3")
    assert again.code == 1
    assert "Version 3 is not kept on purpose" in again.err


def test_diff(streamed: Events, cli: Commands) -> None:
    """What moved between two versions is said in epochs, rows, positions and sinks."""
    document = cli("checkpoint", "diff", "payments", "1", "latest", "-o", "json").json

    assert set(document) == TOP | {
        "from",
        "to",
        "epochs",
        "rows",
        "same_source",
        "positions",
        "schemas",
        "operators",
        "sinks",
    }
    assert (document["epochs"], document["rows"], document["same_source"]) == (2, 2, True)
    assert (document["from"]["version"], document["to"]["version"]) == (1, 3)
    assert document["sinks"]["lake"]["after"]["delivered"]["epoch"] == 2
    text = cli("checkpoint", "diff", "1", "3").out
    assert '{"logOffset":0} -> {"logOffset":2}' in text
    assert "nothing moved" in cli("checkpoint", "diff", "3", "3").out
    assert cli("checkpoint", "diff", "3").code == 1


def test_rollback(tmp_path: Path, spark_cli: Commands) -> None:
    """It says what it would do and asks; then what every sink did; and the next run goes on."""
    streamed = run_to_three(tmp_path)
    declined = spark_cli("checkpoint", "rollback", "1", answer="n\n")

    assert declined.code == 1
    for said in (
        "from version 3 (epoch 2)",
        "to version 1 (epoch 0)",
        "2 epochs with 2 rows: read and delivered again",
        '{"logOffset":2} -> {"logOffset":0}',
        "sink lake Epochs after it are moved",
    ):
        assert said in declined.said
    assert streamed.delivered() == once_each([1, 2, 3])

    done = spark_cli("checkpoint", "rollback", "payments", "1", "--note", "why", answer="y\n")

    assert done.code == 0, done.said
    assert "rolled back from version 3 to 1 (epoch 0, generation 2)" in done.said
    assert "sink lake Moved epochs 1 to 2" in done.said
    assert streamed.delivered() == once_each([1])
    listed = spark_cli("checkpoint", "list", "-o", "json").json["checkpoints"]
    assert [(c["version"], c["head"], c["abandoned"]) for c in listed] == [
        (3, False, True),
        (2, False, True),
        (1, True, False),
    ]
    abandoned = spark_cli("checkpoint", "rollback", "3", "--yes")
    assert abandoned.code == 1
    assert "was abandoned by a roll-back" in abandoned.err

    assert spark_cli("run", "--once").code == 0
    assert streamed.delivered() == once_each([1, 2, 3])


def test_rollback_document(streamed: Events, spark_cli: Commands) -> None:
    """The document of a roll-back is its record for audit."""
    done = spark_cli("checkpoint", "rollback", "2", "--yes", "--note", "why", "-o", "json").json

    assert set(done) == TOP | {
        "from",
        "to",
        "epoch",
        "generation",
        "actor",
        "note",
        "at",
        "effects",
        "untold",
    }
    assert (done["from"]["version"], done["to"]["version"]) == (3, 2)
    assert (done["epoch"], done["generation"], done["note"]) == (1, 2, "why")
    assert list(done["effects"]) == ["lake"]
    assert done["untold"] == {}


def test_damage_is_found_and_mended(streamed: Events, cli: Commands) -> None:
    """A manifest that was changed fails `verify`, is written again, and then passes."""
    whole = cli("checkpoint", "verify", "--all", "-o", "json")
    assert whole.code == 0
    assert set(whole.json) == TOP | {"checkpoints"}
    assert [set(each) for each in whole.json["checkpoints"]] == [
        {"version", "checkpoint_id", "whole", "files", "bytes", "findings"}
    ] * 3
    streamed.manifests()[1].write_text("{}")

    assert cli("checkpoint", "verify").code == 0
    damaged = cli("checkpoint", "verify", "2")
    assert damaged.code == 1
    assert "version 2 (epoch 1): damaged" in damaged.out
    assert "holdfast checkpoint repair payments" in damaged.out
    assert cli("checkpoint", "verify", "2", "--all").code == 1
    assert cli("checkpoint", "show", "2").code == 1

    mended = cli("checkpoint", "repair", "-o", "json")
    assert mended.code == 0
    assert set(mended.json) == TOP | {"done", "problems", "head", "newest_whole"}
    assert set(mended.json["head"]) == CHECKPOINT
    assert len(mended.json["done"]) == 1
    assert cli("checkpoint", "verify", "--all").code == 0
    assert "nothing to repair" in cli("checkpoint", "repair").out


def test_a_lost_file_cannot_be_mended(streamed: Events, cli: Commands) -> None:
    """What is gone for good stays a problem: exit code 1, and the version to fall back to."""
    newest = cli("checkpoint", "show", "-o", "json").json["files"][-1]["key"]
    (streamed.root / ".holdfast" / "checkpoints" / newest).unlink()

    done = cli("checkpoint", "repair")

    assert done.code == 1
    assert "Version 3 is damaged" in done.out
    assert "The newest whole one is version 2" in done.out


def test_a_lost_ledger_is_rebuilt(streamed: Events, cli: Commands) -> None:
    """Without its ledger a stream is not said to be new; `repair` rebuilds the records."""
    for path in (streamed.root / ".holdfast").glob("ledger.db*"):
        path.unlink()

    lost = cli("checkpoint", "list")
    assert lost.code == 1
    assert "holdfast checkpoint repair" in lost.err

    assert cli("checkpoint", "repair", "payments").code == 0
    assert cli("checkpoint", "list", "-o", "json").json["total"] == 3


def test_gc(streamed: Events, cli: Commands) -> None:
    """Files that no checkpoint names are listed by a dry run and removed by a real one."""
    left = streamed.root / ".holdfast" / "checkpoints" / "payments" / "files" / "left"
    left.write_bytes(b"by a crash")

    looked = cli("checkpoint", "gc", "--dry-run", "-o", "json").json
    assert set(looked) == TOP | {"dry_run", "files", "bytes"}
    assert (looked["files"], looked["bytes"]) == (["payments/files/left"], 10)
    assert left.exists()

    assert "1 file, 10 B removed" in cli("checkpoint", "gc").out
    assert not left.exists()
    assert "nothing to remove" in cli("checkpoint", "gc").out
    assert cli("checkpoint", "verify", "--all").code == 0


def test_which_pipeline(tmp_path: Path, cli: Commands) -> None:
    """The name is needed where there are several streams, and must be that of one."""
    events = Events(tmp_path)
    other = STREAM.replace("payments", "refunds"), LAKE.replace("payments", "refunds")
    events.configure(STREAM, LAKE, other[0], other[1].replace('"lake"', '"other"'), COPY)

    for words in (("list",), ("show", "3"), ("rollback", "3"), ("diff", "1", "3"), ("gc",)):
        done = cli("checkpoint", *words)
        assert done.code == 1, words
        assert "There are payments, refunds." in done.err, words
    copies = cli("checkpoint", "list", "shop")
    assert "shop is a replicate pipeline" in copies.err
    assert "Did you mean payments?" in cli("checkpoint", "show", "paymens").err
    events.configure(COPY)
    assert "There is no stream pipeline." in cli("checkpoint", "list").err


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("checkpoint", "list"),
        ("checkpoint", "show"),
        ("checkpoint", "diff", "1", "2"),
        ("checkpoint", "create"),
        ("checkpoint", "verify", "--all"),
        ("checkpoint", "repair"),
        ("checkpoint", "gc"),
        ("schema", "at", "2"),
    ],
    ids=" ".join,
)
def test_spark_is_not_even_imported(streamed: Events, words: tuple[str, ...]) -> None:
    """Only a roll-back, which talks to the sinks, needs Spark."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", HOLDFAST, *words],
        cwd=streamed.root,
        capture_output=True,
        text=True,
        check=False,
    )

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0, done.stdout
    assert [name for name in imported if name.split(".")[0] in ("pyspark", "py4j")] == []
