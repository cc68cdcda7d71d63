"""A stream delivers every event, remembers where it got to, and goes on from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from holdfast.config.sinks import SinkConfig
from holdfast.errors import (
    CheckpointMissing,
    PipelineBusy,
)

from .background import Background
from .world import FILES, World, sink

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
