"""Claiming jobs one after the other, waiting for those that are yet to come."""

from __future__ import annotations

from contextlib import suppress

from brant.feed import Feed
from brant.job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.queue import Queue

# When a claim finds nothing although there seemed to be something: another worker was faster.
_LOST_RACE_PAUSE_S = 0.01
# A fractional lease still holds at the very moment of its end: whoever waits for it must not spin there.
_SHORTEST_WAIT_S = 0.001


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
        if self._likely:
            jobs = self._queue.claim_batch(self.worker_id, 1)
            if jobs:
                return jobs
            self._likely = False
        # A claim was in vain: look (by a read) before the next one, and before waiting.
        with self._storage.reading() as session:
            claimable = session.claimable(self._queue.name)
        self._next_at = claimable.next_at
        if not claimable.now:
            return []
        jobs = self._queue.claim_batch(self.worker_id, 1)
        self._likely = bool(jobs)
        if not jobs:
            self._next_at = self._storage.clock.now() + _LOST_RACE_PAUSE_S
        return jobs

    def _patience(self) -> float | None:
        if self._next_at is None:
            return self._idle_poll_s
        until_due = max(_SHORTEST_WAIT_S, self._next_at - self._storage.clock.now())
        return until_due if self._idle_poll_s is None else min(until_due, self._idle_poll_s)

    def close(self) -> None:
        """End the iteration; a job that was claimed and not handed out goes back, its attempt not counted."""
        super().close()
        left: list[Job] = []
        # One by one: a thread that is just taking a job gets it or this does, never both.
        with self._refilling, suppress(IndexError):
            while True:
                left.append(self._buffer.popleft())
        if left:
            with self._storage.transaction() as session:
                for job in left:
                    session.release([job.id], self.worker_id, job.attempts)
