"""`holdfast run` on streams: deliver, go on, go back, stop."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.stream_progress import Log

from .events import CHECKPOINT, COPY, LAKE, STREAM, Events, once_each
from .harness import HOLDFAST, Commands, Terminal, wait_until

pytestmark = pytest.mark.spark

RUN = {
    "run_id",
    "pipeline",
    "status",
    "stopped",
    "started_at",
    "finished_at",
    "actor",
    "generation",
    "epochs",
    "rows",
    "head",
    "notes",
    "failure",
}
SLOW = """
import pathlib, time

def deliver(frame, token):
    rows = [row.id for row in frame.collect()]
    pathlib.Path("begun").touch()
    time.sleep(2)
    with open("taken", "a") as taken:
        taken.write("".join(f"{row}\\n" for row in rows))
    return len(rows)
"""
STOPPING = """
import os, signal

def deliver(frame, token):
    os.kill(os.getpid(), signal.SIGTERM)
    return frame.count()
"""
DOWN = """
import pathlib

def deliver(frame, token):
    if pathlib.Path("down").exists():
        raise ConnectionError("nobody answers")
    with open("taken", "a") as taken:
        taken.write("".join(f"{row.id}\\n" for row in frame.collect()))
"""


def sink(module: str, keys: str = "") -> str:
    """The TOML of a sink that is a function of the test's own."""
    name = '[[pipeline.payments.sinks]]\nname = "caller"\ntype = "python"\n'
    return f'{name}function = "{module}:deliver"\n{keys}\n'


@pytest.fixture
def events(tmp_path: Path) -> Events:
    """A stream that has not run, with two events."""
    events = Events(tmp_path)
    events.configure()
    events.add(1, 2)
    return events


def test_once_delivers_what_is_there_and_ends(events: Events, spark_cli: Commands) -> None:
    """A first run says what it did; a second one goes on where the first got to."""
    first = spark_cli("run", "payments", "--once")

    assert first.code == 0, first.said
    assert "done: 2 epochs, 2 rows" in first.out
    assert "at version 2 (epoch 1)" in first.out
    assert "payments: starting from the beginning" in first.err
    assert "payments: version 2, epoch 1, 1 row" in first.err

    events.add(3)
    second = spark_cli("run", "--once", "-o", "json")

    assert second.code == 0, second.said
    assert set(second.json) == {"format", "command", "runs", "errors"}
    (run,) = second.json["runs"]
    assert set(run) == RUN
    assert (run["status"], run["stopped"], run["epochs"], run["rows"]) == ("success", False, 1, 1)
    assert set(run["head"]) == CHECKPOINT
    assert (run["head"]["version"], run["head"]["epoch"]) == (3, 2)
    assert "going on after version 2 (epoch 1)" in second.err
    assert events.delivered() == once_each([1, 2, 3])


def test_the_same_source_under_another_address(events: Events, spark_cli: Commands) -> None:
    """Another source is refused until it is said to be the same; then nothing comes twice."""
    assert spark_cli("run", "--once").code == 0
    elsewhere = STREAM.replace('path = "events"', f'path = "file://{events.root}/events"')
    events.configure(elsewhere, LAKE)

    refused = spark_cli("run", "--once")
    accepted = spark_cli("run", "--once", "--accept-source")

    assert refused.code == 1
    assert "holdfast run payments --accept-source" in refused.err
    assert "Traceback" not in refused.said
    assert accepted.code == 0, accepted.said
    assert "done: 0 epochs, 0 rows" in accepted.out
    assert events.delivered() == once_each([1, 2])


def test_starting_from_an_old_version(events: Events, spark_cli: Commands) -> None:
    """`--from` goes back first; what came after is delivered again and is there once."""
    assert spark_cli("run", "--once").code == 0

    again = spark_cli("run", "payments", "--from", "1", "--once", "-o", "json")

    assert again.code == 0, again.said
    (run,) = again.json["runs"]
    assert run["epochs"] == 1
    assert run["notes"] == ["Rolled back from version 2 to 1."]
    assert events.delivered() == once_each([1, 2])
    assert "payments: Rolled back from version 2 to 1." in again.err


def test_a_version_that_is_not_there(events: Events, spark_cli: Commands) -> None:
    """`--from` something nobody knows is refused, and nothing is delivered."""
    done = spark_cli("run", "payments", "--from", "7", "--once")

    assert done.code == 1
    assert "no checkpoint '7'" in done.err
    assert not (events.root / "lake").exists()


def test_a_source_that_is_not_there(events: Events, spark_cli: Commands) -> None:
    """A first run whose source is missing fails with a message."""
    events.configure(STREAM.replace('path = "events"', 'path = "nowhere"'), LAKE)

    done = spark_cli("run", "--once")

    assert done.code == 1
    assert "nowhere" in done.err
    assert "Traceback" not in done.said
    assert "payments: failed" in spark_cli("status").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("payments", "--table", "orders"), "--table is for pipelines that copy tables"),
        (("payments", "--full-refresh"), "--full-refresh is for pipelines that copy tables"),
        (("payments", "--resume"), "--resume is for pipelines that copy tables"),
        (("payments", "--allow-failed-checks"), "--allow-failed-checks is for pipelines that"),
        (("shop", "--once"), "--once is for streams; shop copies tables"),
        (("shop", "--from", "latest"), "--from is for streams; shop copies tables"),
        (("shop", "--accept-source"), "--accept-source is for streams; shop copies tables"),
        (("--once", "--from", "3"), "holdfast run payments --from"),
        (("--once", "--resume"), "holdfast run shop --resume"),
        ((), "holdfast run --once"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_of_the_other_kind(
    events: Events, cli: Commands, words: tuple[str, ...], said: str
) -> None:
    """An option a pipeline cannot use is refused by its name, before anything runs."""
    events.configure(COPY, STREAM, LAKE)

    done = cli("run", *words)

    assert done.code == 1
    assert said in done.said
    assert not (events.root / "lake").exists()


def test_everything_in_turn(events: Events, spark_cli: Commands) -> None:
    """With `--once` a stream takes its turn between pipelines that copy tables."""
    events.configure(STREAM, LAKE, COPY)
    events.add_table()

    done = spark_cli("run", "--once", "-o", "json")

    assert done.code == 0, done.said
    stream, copy = done.json["runs"]
    assert (stream["pipeline"], stream["epochs"]) == ("payments", 2)
    assert (copy["pipeline"], copy["rows"]) == ("shop", 2)
    both = spark_cli("status", "-o", "json").json["pipelines"]
    assert [("sinks" in each, "tables" in each) for each in both] == [(True, False), (False, True)]


def test_stopped_before_the_next_in_turn(events: Events, spark_cli: Commands) -> None:
    """Stopping a stream that others would follow ends them all, and says which did not run."""
    events.configure(STREAM, sink("stopping_caller"), COPY)
    (events.root / "stopping_caller.py").write_text(STOPPING)

    done = spark_cli("run", "--once")

    assert done.code == 130, done.said
    assert "stopped: 1 epoch, 1 row" in done.out
    assert "Not run: shop." in done.err
    assert not (events.root / "copies").exists()


def test_a_log_is_not_flooded(capsys: pytest.CaptureFixture[str]) -> None:
    """Of many lines within a second the first and the last are written, and all that must be."""
    log = Log("payments")
    for number in range(100):
        log.show(f"version {number}")
    log.say("stopping")
    log.show("version 100")
    log.close()

    said = capsys.readouterr().err.splitlines()
    assert said == [
        "payments: version 0",
        "payments: version 99",
        "payments: stopping",
        "payments: version 100",
    ]


def test_a_quiet_log_catches_up(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that was held back is written within the second, though nothing comes after it."""
    log = Log("payments")
    log.show("version 1")
    log.show("version 2")
    written = ""

    def caught_up() -> bool:
        nonlocal written
        written += capsys.readouterr().err
        return "version 2" in written

    wait_until(caught_up, "the second line is written", seconds=5)
    log.close()


def test_commands_for_tables_say_what_to_use_instead(events: Events, cli: Commands) -> None:
    """`plan` of a stream is refused and names the stream's own commands."""
    done = cli("plan", "payments")

    assert done.code == 1
    assert "payments is a stream pipeline" in done.err
    assert "holdfast checkpoint list payments" in done.err


def test_sigterm_finishes_the_batch_in_flight(events: Events, spark_cli: Commands) -> None:
    """Told to end during a batch, a continuous run delivers it, exits with 0, and is gone on."""
    events.configure(STREAM, sink("slow_caller"))
    (events.root / "slow_caller.py").write_text(SLOW)
    taken = events.root / "taken"
    process = subprocess.Popen(
        [HOLDFAST, "run"],
        cwd=events.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = events.root / "begun"
    wait_until(lambda: begun.exists() or process.poll() is not None, "a batch is in flight")
    running = spark_cli("status").out
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=90)

    assert process.returncode == 0, err
    assert "payments: running for" in running
    assert "stopped: 1 epoch, 1 row" in out
    assert "payments: stopping as soon as the batch in flight is delivered" in err
    assert "Traceback" not in err
    assert taken.read_text().split() == ["1"]

    rest = spark_cli("run", "--once")

    assert rest.code == 0, rest.said
    assert "going on after version 1 (epoch 0)" in rest.err
    assert taken.read_text().split() == ["1", "2"]


def test_ctrl_c_while_a_sink_is_down(events: Events, spark_cli: Commands) -> None:
    """Waiting for its sink a run says so in one line; stopped, it ends with 2, losing nothing."""
    retry = 'retry = { attempts = 1, first_delay = "200ms", max_delay = "1s" }'
    events.configure(STREAM, sink("broken_caller", retry))
    (events.root / "broken_caller.py").write_text(DOWN)
    (events.root / "down").touch()

    terminal = Terminal(events.root, "run", "payments", columns=120)
    wait_until(
        lambda: "waiting for caller, next try at" in terminal.raw or not terminal.running,
        "it waits for the sink",
    )
    waiting = spark_cli("status")
    (shown,) = spark_cli("status", "-o", "json").json["pipelines"]
    busy = spark_cli("checkpoint", "gc")
    terminal.send(signal.SIGINT)

    assert terminal.wait() == 2, terminal.raw
    assert "payments: waiting for sink caller for" in waiting.out
    assert "nobody answers" in waiting.out
    assert (shown["state"], list(shown["waiting"])) == ("waiting_for_sink", ["caller"])
    assert "nobody answers" in shown["sinks"][0]["error"]
    assert busy.code == 1
    assert "is being run by process" in busy.err
    report = "\n".join(terminal.lines)
    assert "payments: starting from the beginning" in report
    assert "partial: 0 epochs, 0 rows" in report
    assert "could not be delivered to caller" in report
    assert "Traceback" not in terminal.raw
    stopped = spark_cli("status").out
    assert "epoch 0 was begun and is not committed" in stopped
    assert "holdfast run payments" in stopped

    (events.root / "down").unlink()
    rest = spark_cli("run", "--once")

    assert rest.code == 0, rest.said
    assert (events.root / "taken").read_text().split() == ["1", "2"]
