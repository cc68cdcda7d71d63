"""Ctrl-C and SIGTERM end a run cleanly, and the next run goes on where it was.

The run that is interrupted first is in a terminal, so this is also where its bar is looked at.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import compute, parquet

from holdfast.ledger import open_ledger
from holdfast.ledger.leases import Leases

from .harness import HOLDFAST, Commands, Shop, Terminal, at, visible_files, wait_until

pytestmark = pytest.mark.spark

MANY = 1_000_000


def make_slow_table(path: Path) -> None:
    """Write rows that take seconds to copy: random bytes, which the target has to compress."""
    path.parent.mkdir(parents=True)
    payload = pa.Array.from_buffers(
        pa.binary(32), MANY, [None, pa.py_buffer(os.urandom(32 * MANY))]
    )
    ids = pa.array(range(MANY), pa.int64())
    moments = compute.add(ids, 1_767_225_600_000_000).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({"id": ids, "updated_at": moments, "payload": payload})
    # One row group is one task, which nothing can speed up.
    parquet.write_table(table, path, row_group_size=MANY, compression="none")


def content(files: list[Path]) -> pa.Table:
    """The rows of some files in one order."""
    read = [parquet.read_table(f, partitioning=None, columns=["id", "payload"]) for f in files]
    wanted = pa.schema([("id", pa.int64()), ("payload", pa.binary())])
    return pa.concat_tables([table.cast(wanted) for table in read]).sort_by("id")


def assert_bar_was_shown(terminal: Terminal) -> None:
    """A bar said what was going on, in one line, and gave the cursor back."""
    for text in ("starting Spark", "copying", "━", "0/2", "1/2"):
        assert text in terminal.raw
    assert re.search(r"shop\.(orders|slow) \(\w+ing\)", terminal.raw)
    assert terminal.raw.count("\x1b[?25h") >= terminal.raw.count("\x1b[?25l") > 0


def test_interrupted_twice_and_nothing_is_lost(shop: Shop, spark_cli: Commands) -> None:
    """Stopped in the middle of a copy, a run exits with 130 and leaves no half of a batch."""
    shop.configure(
        tables=["orders", "slow"],
        target='{ path = "lake", options = { compression = "gzip" } }',
    )
    shop.add("orders", "b", [(6, at(6.000001), "a moment that needs all of its digits")])
    slow = shop.root / "source" / "slow" / "a.parquet"
    make_slow_table(slow)
    staging = shop.root / "lake" / ".holdfast" / "staging" / "shop.slow"

    terminal = Terminal(shop.root, "run")

    def writing() -> bool:
        # The quick table is done and said to be, the slow one is half way.
        return any(staging.rglob("*.parquet")) and "1/2" in terminal.raw

    wait_until(lambda: writing() or not terminal.running, "the copy has begun")
    terminal.send(signal.SIGINT)

    assert terminal.wait() == 130
    assert visible_files(shop.root / "lake" / "slow") == []
    assert_bar_was_shown(terminal)
    report = "\n".join(terminal.lines).partition("shop: run ")[2]
    assert "2026-01-01T00:00:06.000001Z" in report
    assert "interrupted: 6 rows in 2 tables" in report
    assert "Traceback" not in terminal.raw
    assert not {"…", "━"} & set(report)

    tried = set(staging.iterdir())
    process = subprocess.Popen(
        [HOLDFAST, "run", "--resume", "-o", "json"],
        cwd=shop.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(
        lambda: (
            any(any(d.rglob("*.parquet")) for d in set(staging.iterdir()) - tried)
            or process.poll() is not None
        ),
        "the copy has begun again",
    )
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert visible_files(shop.root / "lake" / "slow") == []
    assert '"status": "interrupted"' in out
    assert "Traceback" not in err
    assert "holdfast run shop --resume" in spark_cli("status").out

    finished = spark_cli("run", "--resume")

    assert finished.code == 0
    assert "shop.orders" not in finished.out
    assert content(visible_files(shop.root / "lake" / "slow")).equals(content([slow]))
    assert shop.copy() == shop.source()
    assert list(staging.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_spark_starts(shop: Shop, number: signal.Signals) -> None:
    """Before the first table has begun it is exit code 130 as well, without a trace."""
    terminal = Terminal(shop.root, "run")
    wait_until(lambda: "starting Spark" in terminal.raw, "Spark is being started")

    terminal.send(number)

    assert terminal.wait() == 130
    assert "Traceback" not in terminal.raw
    assert not (shop.root / "lake").exists()
    with open_ledger(shop.ledger) as ledger:
        assert Leases(ledger).holder("shop") is None
