"""What jobs answered, kept by job id for whoever asks."""

from __future__ import annotations

from brant.arguments import decode, encode, seconds, whole
from brant.errors import TaskFailed
from brant.transaction import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from brant.database import Database

# Answers come with a commit, which wakes the waiter; this is for the case that a wake-up is lost.
_SAFETY_POLL_S = 5.0


class ResultVerbs:
    """Results are independent of jobs: an id need not belong to one."""

    db: Database

    def save_result(self, job_id: int, value: object, ttl: float | None = None, tx: object | None = None) -> None:
        """Store a JSON value as the job's answer, for `ttl` seconds, or for good when that is None or 0."""
        text = encode(value)
        keep = 0 if ttl is None else seconds(ttl, "ttl")
        whole(job_id, "job_id")
        with writing(self.db._storage, tx) as session:
            session.save_result(job_id, text, keep)

    def get_result(self, job_id: int) -> tuple[bool, Any]:
        """(True, value), or (False, None) when there is none (any more)."""
        whole(job_id, "job_id")
        with self.db._storage.reading() as session:
            found, text = session.get_result(job_id)
        return found, None if text is None else decode(text)

    async def wait_result(self, job_id: int, timeout: float | None = None) -> Any:
        """The job's answer as soon as there is one; TaskFailed when the job is dead, TimeoutError when time is over."""
        import asyncio

        deadline = Deadline(self.db, timeout, f"no result of job {job_id}")
        subscription = self.db._storage.subscribe()
        try:
            while not (answer := await asyncio.to_thread(self._answer, job_id)):
                await subscription.wait_async(deadline.next_wait())
            return answer[0]
        finally:
            subscription.close()

    def wait_result_sync(self, job_id: int, timeout: float | None = None) -> Any:
        """The same for a thread."""
        deadline = Deadline(self.db, timeout, f"no result of job {job_id}")
        subscription = self.db._storage.subscribe()
        try:
            while not (answer := self._answer(job_id)):
                subscription.wait(deadline.next_wait())
            return answer[0]
        finally:
            subscription.close()

    def _answer(self, job_id: int) -> tuple[Any] | None:
        found, value = self.get_result(job_id)
        if found:
            return (value,)
        with self.db._storage.reading() as session:
            dead = session.get_dead(job_id)
        if dead is None:
            return None
        raise TaskFailed(
            f"job {job_id} failed after {dead.attempts} attempts: {dead.last_error}",
            error=dead.last_error,
            attempts=dead.attempts,
        )

    def sweep_results(self, *, tx: object | None = None) -> int:
        """Delete the results whose time is over, of all queues; tells how many."""
        with writing(self.db._storage, tx) as session:
            return session.sweep_results()


class Deadline:
    """How long one more look may be waited for; `missing` says what was not there in time."""

    def __init__(self, db: Database, timeout: float | None, missing: str) -> None:
        self._monotonic = db._storage.clock.monotonic
        self._missing = missing
        self._timeout = timeout if timeout is None else seconds(timeout, "timeout")
        self._end = None if timeout is None else self._monotonic() + timeout

    def next_wait(self) -> float:
        """How long to wait now; TimeoutError when time is over."""
        if self._end is None:
            return _SAFETY_POLL_S
        left = self._end - self._monotonic()
        if left <= 0:
            raise TimeoutError(f"{self._missing} within {self._timeout} s")
        return min(left, _SAFETY_POLL_S)
