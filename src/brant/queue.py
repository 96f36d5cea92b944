"""A work queue: jobs are enqueued, claimed under a lease, and acknowledged, retried or failed."""

from __future__ import annotations

from collections.abc import Iterable

from brant.arguments import encode, moment, seconds, storable, text_id, whole
from brant.decorators import TaskVerbs
from brant.errors import InvalidValue
from brant.job import Job
from brant.limit import LimitVerbs, limit_of_jobs
from brant.result import ResultVerbs
from brant.shell import ShellVerbs
from brant.transaction import writing, writing_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Any

    from brant.batch import Batch
    from brant.claims import Claims
    from brant.database import Database
    from brant.inspection import AttemptError, DeadJob, QueueStats
    from brant.limit import Limit
    from brant.storage.session import Session

_PAGE = 1000
# Of so many claimed jobs, one is the one that is due longest, if it has waited for too long.
_TURN = 4


class Queue(LimitVerbs, ResultVerbs, ShellVerbs, TaskVerbs):
    """A named queue of a Database; make one with `db.queue(name)`.

    At least once: a job whose worker dies is claimed again when its lease runs out, until its attempts are used up.
    Every writing call takes `tx=`, a Brant transaction or the caller's own connection, and then commits with it.
    """

    def __init__(
        self,
        db: Database,
        name: str,
        visibility_timeout_s: float = 300,
        max_attempts: int = 3,
        max_wait_s: float | None = 300,
    ) -> None:
        self.db = db
        self.name = name
        self.visibility_timeout_s = seconds(visibility_timeout_s, "visibility_timeout_s", minimum=0)
        self.max_attempts = whole(max_attempts, "max_attempts", minimum=1)
        self.max_wait_s = None if max_wait_s is None else seconds(max_wait_s, "max_wait_s", minimum=0)
        self._claimed = 0

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    def __str__(self) -> str:
        return self.name

    # Adding

    def enqueue(
        self,
        payload: object,
        tx: object | None = None,
        run_at: float | datetime | None = None,
        delay: float | None = None,
        priority: int = 0,
        expires: float | None = None,
        max_attempts: int | None = None,
        *,
        unique_key: str | None = None,
        unique_for: float | None = None,
        limit: Limit | None = None,
        batch: Batch | int | None = None,
    ) -> int:
        """Add a job with a JSON payload; gives its id.

        `delay` (seconds) or `run_at` holds it back, `expires` (seconds) makes it a dead letter if it was not started
        by then, a higher `priority` goes first. With `unique_key`, a job of that key that is still live, or that was
        enqueued less than `unique_for` seconds ago, is answered with instead: its id, and nothing is added. `limit`
        says how many jobs of its key may run at once, or start in a span of time. `batch` counts it among others.
        """
        text = encode(payload)
        if unique_for is not None and unique_key is None:
            raise InvalidValue("unique_for needs a unique_key")
        options = self._options(run_at, delay, priority, expires, max_attempts)
        if unique_key is not None:
            options["unique_key"] = text_id(unique_key, "unique_key")
            options["unique_for"] = None if unique_for is None else seconds(unique_for, "unique_for", above=0)
        if limit is not None:
            options["limit"] = limit_of_jobs(limit)
        if batch is None:
            with writing_once(self.db._storage, tx) as session:
                return session.enqueue(self.name, text, **options)
        with self._adding_to(batch, tx) as (session, members):
            job_id = session.enqueue(self.name, text, **options)
            members.add(session, [job_id])
        return job_id

    def enqueue_many(
        self,
        payloads: Iterable[object],
        tx: object | None = None,
        run_at: float | datetime | None = None,
        delay: float | None = None,
        priority: int = 0,
        expires: float | None = None,
        max_attempts: int | None = None,
        *,
        expires_at: float | datetime | None = None,
        limit: Limit | None = None,
        batch: Batch | int | None = None,
    ) -> list[int]:
        """Add many jobs in one transaction, all of them or none; gives their ids.

        `expires_at` is the moment itself where `expires` counts from now.
        """
        texts = [encode(payload) for payload in payloads]
        if expires is not None and expires_at is not None:
            raise InvalidValue("pass expires or expires_at, not both")
        options = self._options(run_at, delay, priority, expires, max_attempts)
        options["expires_at"] = moment(expires_at, "expires_at")
        if limit is not None:
            options["limit"] = limit_of_jobs(limit)
        if not texts:
            return []
        if batch is None:
            with writing_once(self.db._storage, tx) as session:
                return session.enqueue_many(self.name, texts, **options)
        with self._adding_to(batch, tx) as (session, members):
            ids = session.enqueue_many(self.name, texts, **options)
            members.add(session, ids)
        return ids

    def _adding_to(self, batch: Batch | int, tx: object | None) -> AbstractContextManager[tuple[Session, Batch]]:
        from brant.batch import adding

        return adding(self.db, batch, tx)

    def _options(
        self,
        run_at: float | datetime | None,
        delay: float | None,
        priority: int,
        expires: float | None,
        max_attempts: int | None,
    ) -> dict[str, Any]:
        return {
            "run_at": moment(run_at, "run_at"),
            "delay": None if delay is None else seconds(delay, "delay"),
            "priority": whole(priority, "priority"),
            "expires": None if expires is None else seconds(expires, "expires"),
            "max_attempts": self.max_attempts
            if max_attempts is None
            else whole(max_attempts, "max_attempts", minimum=0),
        }

    # Claiming

    def claim(self, worker_id: str | None = None, idle_poll_s: float | None = 5.0) -> Claims:
        """Jobs as they become due, one at a time, without end: for `for` and for `async for`."""
        from brant.claims import Claims

        worker = self.db.unique_worker_id() if worker_id is None else text_id(worker_id, "worker_id")
        return Claims(self, worker, None if idle_poll_s is None else seconds(idle_poll_s, "idle_poll_s", above=0))

    def claim_one(self, worker_id: str, lease_s: float | None = None, *, tx: object | None = None) -> Job | None:
        """The first due job, or None."""
        jobs = self.claim_batch(worker_id, 1, lease_s, tx=tx)
        return jobs[0] if jobs else None

    def claim_batch(
        self, worker_id: str, n: int, lease_s: float | None = None, *, tx: object | None = None
    ) -> list[Job]:
        """Up to `n` due jobs, highest priority first, leased to this worker for `lease_s` seconds."""
        text_id(worker_id, "worker_id")
        n = whole(n, "n")
        lease = self.visibility_timeout_s if lease_s is None else seconds(lease_s, "lease_s", minimum=0)
        if n <= 0:
            return []
        with writing_once(self.db._storage, tx) as session:
            return self._claimed_in(session, worker_id, n, lease)

    def _claimed_in(self, session: Session, worker_id: str, n: int, lease: float) -> list[Job]:
        overdue = 0 if self.max_wait_s is None else (self._claimed + n) // _TURN - self._claimed // _TURN
        claimed = session.claim(self.name, worker_id, n, lease, overdue=overdue, max_wait=self.max_wait_s or 0)
        self._claimed += len(claimed)
        return [Job(self, row, last_error) for row, last_error in claimed]

    def due_in(self) -> float | None:
        """Seconds until a claim may find a job: 0 when one is due; None when there is none, or the queue is paused.

        Counts delayed jobs, and those whose lease will run out. A read: for whoever waits before the next claim.
        """
        with self.db._storage.reading() as session:
            claimable = session.claimable(self.name)
        if claimable.now:
            return 0.0
        return None if claimable.next_at is None else max(0.0, claimable.next_at - self.db._storage.clock.now())

    # Settling

    def ack(self, job_id: int, worker_id: str, *, attempt: int | None = None, tx: object | None = None) -> bool:
        """Done: the job is gone. False when this worker does not hold it (any more)."""
        claim = _claim(job_id, worker_id)
        with writing_once(self.db._storage, tx) as session:
            return session.ack(*claim, attempt)

    def ack_batch(self, job_ids: Iterable[int], worker_id: str, *, tx: object | None = None) -> int:
        """Ack many in one transaction; tells how many this worker still held."""
        ids = [whole(job_id, "job_id") for job_id in job_ids]
        text_id(worker_id, "worker_id")
        if not ids:
            return 0
        with writing_once(self.db._storage, tx) as session:
            return session.ack_many(ids, worker_id)

    def retry(
        self,
        job_id: int,
        worker_id: str,
        delay_s: float,
        error: str,
        *,
        attempt: int | None = None,
        tx: object | None = None,
    ) -> bool:
        """Again after `delay_s` seconds, or dead with this error when no attempt is left."""
        claim, delay, reason = _claim(job_id, worker_id), seconds(delay_s, "delay_s"), storable(str(error))
        with writing(self.db._storage, tx) as session:
            return session.retry(*claim, delay, reason, attempt)

    def fail(
        self, job_id: int, worker_id: str, error: str, *, attempt: int | None = None, tx: object | None = None
    ) -> bool:
        """Never again: a dead letter with this error."""
        claim, reason = _claim(job_id, worker_id), storable(str(error))
        with writing(self.db._storage, tx) as session:
            return session.fail(*claim, reason, attempt)

    def release(
        self,
        job_id: int,
        worker_id: str,
        delay_s: float | None = None,
        *,
        attempt: int | None = None,
        tx: object | None = None,
    ) -> bool:
        """Give the job back unused: due at once or after `delay_s`, and the attempt does not count.

        False when the claim is lost.
        """
        claimed_id, worker = _claim(job_id, worker_id)
        delay = None if delay_s is None else seconds(delay_s, "delay_s")
        with writing(self.db._storage, tx) as session:
            return session.release([claimed_id], worker, attempt, delay) > 0

    def heartbeat(
        self, job_id: int, worker_id: str, extend_s: float | None = None, *, attempt: int | None = None
    ) -> bool:
        """Keep the job for that long from now. False once the lease has run out, even if nobody took it over."""
        return self._extend(job_id, worker_id, extend_s, attempt) is not None

    def _extend(self, job_id: int, worker_id: str, extend_s: float | None, attempt: int | None) -> float | None:
        lease = self.visibility_timeout_s if extend_s is None else seconds(extend_s, "extend_s")
        claim = _claim(job_id, worker_id)
        with self.db._storage.transaction() as session:
            return session.extend(*claim, lease, attempt)

    def cancel(self, job_id: int, *, tx: object | None = None) -> bool:
        """Remove a job, running or not; a handler that runs goes on, and its ack says that the claim is lost."""
        whole(job_id, "job_id")
        with writing(self.db._storage, tx) as session:
            return session.cancel(job_id)

    def sweep_expired(self, *, tx: object | None = None) -> int:
        """Make dead letters of the jobs that were not started before they expired; tells how many."""
        with writing(self.db._storage, tx) as session:
            return session.sweep_expired(self.name)

    # Looking

    def get_job(self, job_id: int) -> dict[str, Any] | None:
        """The row of a live job, its payload as JSON text; None when it is done, dead or unknown."""
        whole(job_id, "job_id")
        with self.db._storage.reading() as session:
            job = session.get_job(job_id)
        return None if job is None else job._asdict()

    def errors(self, job_id: int) -> list[AttemptError]:
        """Why earlier attempts of a live or dead job failed, oldest first."""
        from brant.inspection import AttemptError

        whole(job_id, "job_id")
        with self.db._storage.reading() as session:
            return [AttemptError(*row) for row in session.attempt_errors(job_id)]

    def stats(self) -> QueueStats:
        from brant.inspection import QueueStats

        with self.db._storage.reading() as session:
            return QueueStats.of(self.name, session.queue_counts(self.name), session.now())

    # Dead letters

    def list_dead(self, limit: int = 100, *, after: int = 0) -> list[DeadJob]:
        """Dead letters by id; for the next page pass the last id as `after`."""
        from brant.inspection import DeadJob

        limit, after = whole(limit, "limit", minimum=1), whole(after, "after")
        with self.db._storage.reading() as session:
            return [DeadJob.of(row) for row in session.list_dead(self.name, after, limit)]

    def get_dead(self, job_id: int) -> DeadJob | None:
        from brant.inspection import DeadJob

        whole(job_id, "job_id")
        with self.db._storage.reading() as session:
            row = session.get_dead(job_id)
        return DeadJob.of(row) if row is not None and row.queue == self.name else None

    def requeue_dead(self, job_id: int | None = None, *, tx: object | None = None) -> int:
        """Put one dead letter back, or all of them: due now, under their old ids, with all their attempts."""
        if job_id is not None:
            whole(job_id, "job_id")
        with writing(self.db._storage, tx) as session:
            if job_id is not None:
                row = session.get_dead(job_id)
                return session.requeue_dead([job_id]) if row is not None and row.queue == self.name else 0
            requeued = 0
            while page := session.list_dead(self.name, 0, _PAGE):
                requeued += session.requeue_dead([row.id for row in page])
            return requeued

    def purge_dead(self, older_than_s: float | None = None, *, tx: object | None = None) -> int:
        """Delete dead letters for good, all or those that died longer ago; tells how many."""
        age = None if older_than_s is None else seconds(older_than_s, "older_than_s", minimum=0)
        with writing(self.db._storage, tx) as session:
            return session.purge_dead(self.name, None if age is None else session.now() - age)

    # Control

    def pause(self, *, tx: object | None = None) -> bool:
        """Hand out nothing more, in any process, until `resume()`; False when it was paused already."""
        with writing(self.db._storage, tx) as session:
            return session.pause_queue(self.name, True)

    def resume(self, *, tx: object | None = None) -> bool:
        with writing(self.db._storage, tx) as session:
            return session.queue_paused(self.name) and session.pause_queue(self.name, False)

    def is_paused(self) -> bool:
        with self.db._storage.reading() as session:
            return session.queue_paused(self.name)

    def record_events(self, record: bool = True, *, tx: object | None = None) -> None:
        """Publish what becomes of this queue's jobs to `db.job_events()`, each in the transaction that does it.

        Events: enqueued, claimed, completed, retried, dead, cancelled. Holds for all processes until switched off.
        """
        with writing(self.db._storage, tx) as session:
            session.record_queue_events(self.name, record)


def _claim(job_id: object, worker_id: object) -> tuple[int, str]:
    return whole(job_id, "job_id"), text_id(worker_id, "worker_id")
