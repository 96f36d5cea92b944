"""Claiming for the free slots of a bench, in a transaction of its own or in that which settles what ran in them."""

from __future__ import annotations

from brant.job import Job
from brant.queue import Queue
from brant.storage.session import Session


class Claim:
    """One claim: made once, and undone when the transaction is."""

    def __init__(self, queue: Queue, worker_id: str, slots: int) -> None:
        self.slots = slots
        self.jobs: list[Job] | None = None
        self.made_at = 0.0
        self.was_tried = False
        self._queue = queue
        self._worker_id = worker_id

    def make(self, session: Session) -> None:
        self.was_tried = True
        self.jobs = self._queue._claimed_in(session, self._worker_id, self.slots, self._queue.visibility_timeout_s)
        self.made_at = session.leased_at  # behind the wait for the write lock, or for those of a server

    def undo(self) -> None:
        self.jobs = None
