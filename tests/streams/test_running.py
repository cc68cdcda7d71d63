"""A stream delivers every event, remembers where it got to, and goes on from there."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from holdfast import failpoints
from holdfast.config.sinks import SinkConfig
from holdfast.errors import (
    CheckpointMissing,
    HoldfastError,
    PipelineBusy,
    SourceError,
    TransformFailed,
    UsageError,
)

from .background import Background
from .world import FILES, SCHEMA, World, sink

pytestmark = pytest.mark.spark


def test_delivers_what_is_there_and_ends(world: World) -> None:
    """With `once`, every file becomes an epoch, every epoch a version, every event one row."""
    for _ in range(3):
        world.add()

    result = world.run()

    assert (result.epochs, result.rows) == (3, 15)
    assert result.head is not None
    assert (result.head.version, result.head.epoch) == (3, 2)
    assert world.lake() == world.expected()


def test_goes_on_where_it_got_to(world: World) -> None:
    """A second run reads only what arrived since, whatever became of Spark's own directory."""
    world.add()
    world.run()
    world.add(3)
    shutil.rmtree(world.root / ".holdfast" / "spark", ignore_errors=True)

    result = world.run()

    assert (result.epochs, result.rows) == (1, 3)
    assert world.lake() == world.expected()


def test_a_run_without_news_commits_nothing(world: World) -> None:
    """Nothing new is no epoch and no version."""
    world.add()
    world.run()

    assert world.run().epochs == 0


def test_starts_from_a_checkpoint_alone(world: World) -> None:
    """With Spark's own directory gone, across compactions of its log, no event is read twice."""
    for _ in range(23):
        world.add(1)
    world.run()
    for _ in range(3):
        world.add(1)

    result = world.run()

    assert result.epochs == 3
    assert world.lake() == world.expected()


def test_takes_all_files_at_once_without_a_limit(world: World) -> None:
    """Without limits, what is there is one epoch."""
    world.configure(batch="")
    for _ in range(4):
        world.add()

    assert world.run().epochs == 1
    assert world.lake() == world.expected()


def test_select_and_where(world: World) -> None:
    """Rows and columns are chosen in SQL."""
    world.configure(keys="where = \"paise >= 20\"\nselect = ['id', 'paise / 10 as rupees']")
    world.add(5)

    world.run()

    assert world.lake("id", "rupees") == {(i, float(i)): 1 for i in (2, 3, 4)}


def test_a_query_over_each_batch(world: World) -> None:
    """A query sees one micro-batch as the view `batch`."""
    world.configure(keys='sql = "select merchant, count(*) as n from batch group by merchant"')
    world.add(6)
    world.add(3)

    world.run()

    assert world.lake("merchant", "n") == {("m0", 2): 1, ("m1", 2): 1, ("m2", 2): 1} | {
        ("m0", 1): 1,
        ("m1", 1): 1,
        ("m2", 1): 1,
    }


def test_a_python_function(world: World) -> None:
    """A function of a module beside the configuration takes and returns a DataFrame."""
    (world.root / "shaping.py").write_text(
        "def doubled(frame):\n    return frame.selectExpr('id', 'paise * 2 as paise')\n"
    )
    world.configure(keys='python = "shaping:doubled"')
    world.add(2)

    world.run()

    assert world.lake("id", "paise") == {(0, 0): 1, (1, 20): 1}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('select = ["no_such_column"]', "no_such_column"),
        ('sql = "select nothing from batch"', "nothing"),
        ('python = "no_such_module:f"', "no_such_module"),
    ],
)
def test_a_wrong_transform_is_named(world: World, keys: str, said: str) -> None:
    """A mistake in SQL or Python ends the run with its words, and nothing is delivered."""
    world.configure(keys=keys)
    world.add()

    with pytest.raises(TransformFailed, match=said):
        world.run()
    assert world.lake() == {}


def test_a_function_that_raises_is_named(world: World) -> None:
    """The user's own exception is told with the place it was raised at."""
    (world.root / "failing.py").write_text("def f(frame):\n    return 1 / 0\n")
    world.configure(keys='python = "failing:f"')
    world.add()

    with pytest.raises(TransformFailed, match=r"ZeroDivisionError.*failing\.py:2"):
        world.run()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("def f(frame):\n    return frame.select('nope')\n", r"nope.*wrong\.py:2"),
        ("def f(frame:\n", r"SyntaxError.*wrong\.py"),
        ("raise NameError('x')\n", r"NameError: x.*wrong\.py:1"),
        ("import sys\ndef f(frame):\n    sys.exit(3)\n", r"SystemExit: 3.*wrong\.py:3"),
        ("f = 3\n", r"wrong:f is a int, not a function"),
        ("def g(frame): ...\n", r"has no f"),
    ],
)
def test_mistakes_in_a_users_module_are_the_users(world: World, module: str, said: str) -> None:
    """Whatever is wrong with it is told with its place, and never called a mistake of ours."""
    (world.root / "wrong.py").write_text(module)
    world.configure(keys='python = "wrong:f"')
    world.add()

    with pytest.raises(TransformFailed, match=said):
        world.run()


def test_a_missing_source_is_refused_at_first(world: World) -> None:
    """A path that never was there is a mistake, not an outage."""
    world.configure(source='{ format = "json", path = "nowhere", schema = "id long" }')

    with pytest.raises(SourceError, match="nowhere"):
        world.run()


def test_another_source_is_refused(world: World) -> None:
    """Offsets of one source are not given to another, unless the user says it is the same."""
    world.add()
    world.run()
    world.configure(
        source=f'{{ format = "json", path = "events", schema = "{SCHEMA}", '
        'options = { pathGlobFilter = "*.json" } }'
    )
    world.add()

    with pytest.raises(UsageError, match="another source"):
        world.run()
    world.run(accept_source=True)
    assert world.lake() == world.expected()


def test_files_that_moved_are_refused(world: World) -> None:
    """A file is remembered by its path: under another one it would be read again."""
    world.add()
    world.run()
    shutil.copytree(world.root / "events", world.root / "moved")
    world.configure(source=f'{{ format = "json", path = "moved", schema = "{SCHEMA}" }}')

    with pytest.raises(UsageError, match="another path"):
        world.run(accept_source=True)


def test_fail_if_no_checkpoint(world: World) -> None:
    """A pipeline that must go on refuses to start from nothing."""
    world.configure(checkpoint="fail_if_no_checkpoint = true")
    world.add()

    with pytest.raises(CheckpointMissing, match="fail_if_no_checkpoint"):
        world.run()


def test_runs_until_it_is_stopped(world: World) -> None:
    """Files are delivered as they arrive; a stop lets the batch in flight commit."""
    world.add()
    running = Background(world)
    running.until_epochs(1)
    world.add(2)
    running.until_epochs(2)
    running.stop()

    assert running.error is None
    assert running.result is not None
    assert running.result.run.status == "success"
    assert world.lake() == world.expected()
    world.add()
    assert world.run().epochs == 1
    assert world.lake() == world.expected()


def test_two_runs_of_one_pipeline_are_refused(world: World) -> None:
    """The second is told who runs it."""
    world.add()
    running = Background(world)
    running.until_epochs(1)
    try:
        with pytest.raises(PipelineBusy):
            world.run()
    finally:
        running.stop()


def test_a_directory_that_is_gone_for_a_while(world: World) -> None:
    """A source directory that goes away and comes back loses nothing."""
    world.add()
    running = Background(world)
    running.until_epochs(1)
    (world.root / "events").rename(world.root / "gone")
    time.sleep(1)
    (world.root / "gone").rename(world.root / "events")
    world.add()
    running.until_epochs(2)
    running.stop()

    assert world.lake() == world.expected()


def test_a_source_that_fails_is_waited_for(world: World) -> None:
    """What cannot be read is tried again until it can, under the same epoch; all can see why."""
    world.configure(
        source=f'{{ format = "parquet", path = "events", schema = "{SCHEMA}" }}',
        keys='source_retry = { first_delay = "100ms", max_delay = "200ms" }',
    )
    rows = [{"id": 1, "merchant": "m", "paise": 2}]
    parquet.write_table(pa.Table.from_pylist(rows), world.root / "events" / "0.parquet")
    running = Background(world)
    running.until_epochs(1)
    (world.root / "events" / "1.parquet").write_bytes(b"not yet written")
    running.until(lambda: bool(running.watcher.waits))
    with world.project() as project, project.ledger.reading() as view:
        live = project.records.live.get(view, "pay")
    parquet.write_table(pa.Table.from_pylist(rows), world.root / "events" / "1.parquet")
    running.until_epochs(2)
    running.stop()

    assert "1.parquet" in running.watcher.waits[0]["source"].message
    assert live is not None
    assert live.state == "waiting_for_source"
    assert world.lake() == {(1, "m", 2): 2}


def test_several_sinks_get_the_same_rows(world: World) -> None:
    """What is computed once reaches every sink."""
    world.configure(FILES, sink("second", "files", path="second"))
    world.add()
    world.add()

    world.run()

    assert world.lake() == world.expected()
    assert world.lake(path="second") == world.expected()


def test_sinks_have_the_settings_they_are_given(world: World) -> None:
    """A sink is required and spooled unless the configuration says otherwise."""
    with world.project() as project:
        (found,) = project.config.stream_named("pay").sinks
    assert isinstance(found, SinkConfig)
    assert (found.required, found.on_failure) == (True, "spool")


def test_the_scratch_directory_is_removed(world: World, tmp_path: Path) -> None:
    """Nothing of Spark's own directory stays behind."""
    world.add()
    world.run()

    assert not list((tmp_path / ".holdfast" / "spark" / "pay").iterdir())


def test_a_source_without_files_goes_on(world: World) -> None:
    """Any streaming source is gone on from: here numbers made at a steady rate."""
    world.configure(
        source='{ format = "rate-micro-batch", options = { rowsPerBatch = 10 } }',
        keys='select = ["value as id"]',
        batch="",
    )
    for _ in range(2):
        running = Background(world)
        running.until_epochs(2)
        running.stop()

    found = world.lake("id")
    assert found == {(i,): 1 for i in range(len(found))}
    with world.project() as project:
        (position,) = (
            project.checkpoints("pay").load(project.checkpoints("pay").resolve("latest")).positions
        )
    assert position.end["offset"] == len(found)


def test_a_file_that_is_gone_can_be_given_up(world: World) -> None:
    """An epoch whose file was deleted waits, says how to go on, and a roll-back gives it up."""
    world.configure(keys='source_retry = { first_delay = "50ms", give_up_after = "1ms" }')
    world.add()
    world.run()
    gone = world.add()

    def vanish(step: str, _subject: str) -> None:
        if step == "stream.intended":
            (world.root / "events" / "00001.json").unlink(missing_ok=True)

    failpoints.observe(vanish)
    with pytest.raises(SourceError, match=r"00001\.json") as caught:
        world.run()
    failpoints.observe(None)
    assert "holdfast checkpoint rollback pay latest" in caught.value.hint

    with world.project() as project:
        project.roll_back("pay", "latest")
    world.add()
    world.run()
    expected = world.expected()
    for event in gone:
        del expected[(event["id"], event["merchant"], event["paise"])]
    assert world.lake() == expected


@pytest.mark.parametrize("name", ["with space", "50%", "a%20ü"])
def test_odd_project_names(tmp_path: Path, spark: SparkSession, name: str) -> None:
    """A project may be anywhere; nothing is written beside it."""
    root = tmp_path / name
    root.mkdir()
    world = World(root, spark)
    world.configure()
    world.add()
    world.run()
    world.add()
    world.run()

    files = list(root.glob("lake/holdfast_epoch=*/*.parquet"))
    assert sum(parquet.read_metadata(file).num_rows for file in files) == 10
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_source_with_brackets_in_its_name_is_no_pattern(world: World) -> None:
    """A path that is there as it is written means itself; others may be patterns."""
    (world.root / "events").rename(world.root / "in [x] {a,b}")
    world.configure(source=f'{{ format = "json", path = "in [x] {{a,b}}", schema = "{SCHEMA}" }}')
    place = world.root / "in [x] {a,b}" / "0.json"
    place.write_text('{"id": 1, "merchant": "m", "paise": 2}\n')
    world.run()
    assert world.lake() == {(1, "m", 2): 1}
    (world.root / "holdfast.toml").write_text(
        (world.root / "holdfast.toml").read_text().replace("in [x] {a,b}", "eve*s")
    )
    (world.root / "events" / "1.json").write_text('{"id": 2, "merchant": "m", "paise": 2}\n')
    world.run(accept_source=True)
    assert world.lake() == {(1, "m", 2): 1, (2, "m", 2): 1}


def test_a_function_on_the_workers_keeps_its_words(world: World) -> None:
    """What a user's function on Spark's workers raises is told, not that it raised."""
    (world.root / "working.py").write_text(
        "from pyspark.sql import functions as F\n"
        "@F.udf('long')\n"
        "def broken(x):\n    raise ValueError('no such luck')\n"
        "def f(frame):\n    return frame.withColumn('id', broken('id'))\n"
    )
    world.configure(keys='python = "working:f"')
    world.add()

    with pytest.raises(TransformFailed, match="ValueError: no such luck"):
        world.run()


def test_stopped_while_the_source_is_away(world: World) -> None:
    """An epoch that was begun is said to be open."""
    world.configure(
        source=f'{{ format = "parquet", path = "events", schema = "{SCHEMA}" }}',
        keys='source_retry = { first_delay = "100ms" }',
    )
    rows = pa.Table.from_pylist([{"id": 1, "merchant": "m", "paise": 2}])
    parquet.write_table(rows, world.root / "events" / "0.parquet")
    running = Background(world)
    running.until_epochs(1)
    (world.root / "events" / "1.parquet").write_bytes(b"not yet written")
    running.until(lambda: bool(running.watcher.waits))
    running.stop()

    assert running.result is not None
    assert running.result.run.status == "partial"
    assert "Epoch 1" in running.result.notes[-1]


def test_odd_file_names(world: World) -> None:
    """A file may be called what it likes, also when its epoch is run a second time."""
    world.add()
    world.run()
    world.add()
    odd = world.root / "events" / "a b%20c[1]ü.json"
    (world.root / "events" / "00001.json").rename(odd)
    failpoints.observe(_fail_at("stream.decided"))
    with pytest.raises(HoldfastError, match="on purpose"):
        world.run()
    failpoints.observe(None)
    world.run()

    assert world.lake() == world.expected()


def _fail_at(step: str) -> failpoints.Observer:
    def observe(reached: str, _subject: str) -> None:
        if reached == step:
            raise HoldfastError("on purpose")

    return observe
