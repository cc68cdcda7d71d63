"""A pipeline that runs in a thread of the test until it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdfast.pipelines.leasing import leased
from holdfast.pipelines.streams.job import StreamResult
from holdfast.pipelines.streams.opening import make_job
from holdfast.pipelines.streams.running import StreamRunner

from .world import Watcher, World


class Background:
    """A continuous run."""

    def __init__(self, world: World) -> None:
        self._project = world.project()
        self.watcher = Watcher()
        self.result: StreamResult | None = None
        self.error: Exception | None = None
        self._runner: StreamRunner | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        project = self._project
        settings = project.config.stream_named("pay")
        try:
            with leased(project.records, "pay") as lease:
                job = make_job(
                    "pay",
                    settings,
                    project.records,
                    ledger_path=project.ledger_path,
                    lease=lease,
                    spark=project.spark,
                )
                self._runner = StreamRunner(job, self.watcher)
                self.result = self._runner.run()
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something to become true."""
        end = time.monotonic() + seconds
        while not condition():
            assert self._thread.is_alive(), self.error
            assert time.monotonic() < end, "too slow"
            time.sleep(0.02)

    def until_epochs(self, count: int) -> None:
        """Wait for epochs to be committed."""
        self.until(lambda: len(self.watcher.epochs) >= count)

    def stop(self) -> None:
        """End it."""
        assert self._runner is not None
        self._runner.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
