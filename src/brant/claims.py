"""Claiming jobs one after the other, waiting for those that are yet to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brant.feed import Feed
from brant.job import Job

if TYPE_CHECKING:
    from brant.queue import Queue

# When a claim finds nothing although there seemed to be something: another worker was faster.
_LOST_RACE_PAUSE_S = 0.01


class Claims(Feed[Job]):
    """The jobs of a queue as they become due, claimed one at a time.

    Wakes by commits, and by itself when a delayed job or an abandoned one becomes due; a wake-up for nothing costs
    one read and no write.
    """

    def __init__(self, queue: Queue, worker_id: str, idle_poll_s: float | None) -> None:
        super().__init__(queue.db._storage)
        self._queue = queue
        self.worker_id = worker_id
        self._idle_poll_s = idle_poll_s
        self._likely = True
        self._next_at: float | None = None

    def _fetch(self) -> list[Job]:
        if not self._likely:
            with self._storage.reading() as session:
                claimable = session.claimable(self._queue.name)
            self._next_at = claimable.next_at
            if not claimable.now:
                return []
        jobs = self._queue.claim_batch(self.worker_id, 1)
        if not jobs:
            # Known only now that a claim was in vain: look (by a read) before the next one, and before waiting.
            self._next_at = self._storage.clock.now() + (_LOST_RACE_PAUSE_S if not self._likely else 0)
        self._likely = bool(jobs)
        return jobs

    def _patience(self) -> float | None:
        if self._next_at is None:
            return self._idle_poll_s
        until_due = max(0.0, self._next_at - self._storage.clock.now())
        return until_due if self._idle_poll_s is None else min(until_due, self._idle_poll_s)

    def close(self) -> None:
        """End the iteration; a job that was claimed and not handed out goes back, its attempt not counted."""
        super().close()
        with self._refilling:
            left = [job.id for job in self._buffer]
            self._buffer.clear()
        if left:
            with self._storage.transaction() as session:
                session.release(left, self.worker_id)
