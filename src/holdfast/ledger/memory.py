"""A ledger that lives as long as its process: the simplest one, and the model for the others."""

from __future__ import annotations

from holdfast.clock import Clock, utc_now
from holdfast.ledger.book import Book, BookTransaction
from holdfast.ledger.guarding import GuardedLedger, GuardedTransaction
from holdfast.ledger.waiting import Deadline, WriterTurn


class MemoryStore:
    """What several handles on one memory ledger share."""

    def __init__(self) -> None:
        self.book = Book()
        self.turn = WriterTurn()

    def publish(self, book: Book) -> None:
        """Make the next book the current one; whoever reads the old one keeps it."""
        self.book = book


class MemoryLedger(GuardedLedger):
    """A ledger in memory, gone with the process.

    Handles made with the same `store` are handles on the same records.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        timeout_s: float = 10.0,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(":memory:", timeout_s=timeout_s, clock=clock)
        self._store = MemoryStore() if store is None else store

    def _writer_turn(self) -> WriterTurn:
        return self._store.turn

    def _begin(self, turn: WriterTurn | None, deadline: Deadline) -> GuardedTransaction:
        return BookTransaction(self, self._store.book, turn, publish=self._store.publish)

    def _close(self) -> None:
        pass

    def _after_fork(self) -> None:
        self._store.turn = WriterTurn()
