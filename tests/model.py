"""What queues and streams promise, in plain Python: dicts, lists and sorting, and no thought of speed.

`test_model.py` drives the product and this side by side. Times are floats; a whole number of seconds counts from the
beginning of the current second, a fraction from this very moment.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, Self

from tests.model_streams import StreamModel

LEASE_RAN_OUT = "the lease ran out: the worker died or stalled"


@dataclass
class Failure:
    attempt: int
    worker: str
    error: str
    at: int


@dataclass
class Job:
    id: int
    queue: str
    payload: str
    priority: int
    run_at: float
    max_attempts: int
    created_at: int
    expires_at: float | None
    attempts: int = 0
    worker_id: str | None = None
    claim_expires_at: float | None = None
    failures: list[Failure] = field(default_factory=list)

    @property
    def leased(self) -> bool:
        """Whether it was claimed and not settled; the lease may have run out."""
        return self.claim_expires_at is not None

    def order(self) -> tuple[int, float, int]:
        return (-self.priority, self.run_at, self.id)

    def row(self) -> dict[str, Any]:
        row = asdict(self) | {"state": "processing" if self.leased else "pending"}
        del row["failures"]
        return row


@dataclass
class DeadLetter:
    job: Job
    last_error: str
    died_at: int

    def row(self) -> dict[str, Any]:
        row = self.job.row() | {"last_error": self.last_error, "died_at": self.died_at}
        for name in ("state", "worker_id", "claim_expires_at", "expires_at"):
            del row[name]
        return row


@dataclass
class Key:
    """Of a unique job: who has it, and until when at least."""

    holder: int
    until: float | None


class Model(StreamModel):
    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.live: dict[int, Job] = {}
        self.dead: dict[int, DeadLetter] = {}
        self.last_id = 0
        self.keys: dict[tuple[str, str], Key] = {}
        self.known_queues: set[str] = set()
        self.paused: set[str] = set()

    def copy(self) -> Self:
        return copy.deepcopy(self)

    # Time

    def after(self, seconds: float) -> float:
        return self.second + seconds if seconds == int(seconds) else self.now + seconds

    def moments(self) -> set[float]:
        """Where a job becomes due, expires or loses its lease, or a key is free."""
        times = {time for job in self.live.values() for time in (job.run_at, job.expires_at, job.claim_expires_at)}
        return {time for time in times | {key.until for key in self.keys.values()} if time is not None}

    def lease_holds(self, job: Job) -> bool:
        """A lease that ends on a whole second holds through that second."""
        if job.claim_expires_at is None:
            return False
        if job.claim_expires_at == int(job.claim_expires_at):
            return self.second <= job.claim_expires_at
        return self.now <= job.claim_expires_at

    def expired(self, job: Job) -> bool:
        return job.expires_at is not None and job.expires_at <= self.now

    # Adding

    def enqueue(
        self,
        queue: str,
        payload: str,
        *,
        delay: float | None = None,
        run_at: float | None = None,
        priority: int = 0,
        expires: float | None = None,
        max_attempts: int,
        unique_key: str | None = None,
        unique_for: float | None = None,
    ) -> int:
        if unique_key is not None:
            self.let_keys_go()
            if (queue, unique_key) in self.keys:
                return self.keys[queue, unique_key].holder
        if delay is not None:
            run_at = self.after(delay)
        self.last_id = max(int(self.now * 1_000_000), self.last_id + 1)
        self.live[self.last_id] = Job(
            id=self.last_id,
            queue=queue,
            payload=payload,
            priority=priority,
            run_at=self.second if run_at is None else run_at,
            max_attempts=max_attempts,
            created_at=self.second,
            expires_at=None if expires is None else self.after(expires),
        )
        if unique_key is not None:
            until = None if unique_for is None else self.now + unique_for
            self.keys[queue, unique_key] = Key(self.last_id, until)
        self.known_queues.add(queue)
        return self.last_id

    def let_keys_go(self) -> None:
        """A key is held while its job is live, and until its time is over; then for good, should the clock go back."""
        for name, key in list(self.keys.items()):
            if key.until is not None and key.until <= self.now:
                key.until = None
            if key.until is None and key.holder not in self.live:
                del self.keys[name]

    # Choosing

    def in_queue(self, queue: str) -> list[Job]:
        return [job for job in self.live.values() if job.queue == queue]

    def due(
        self, queue: str, after: int | None = None, before: int | None = None, message_id: int | None = None
    ) -> list[Job]:
        """What a claim or a read may take once leases that ran out are freed, in order."""
        found = [
            job
            for job in self.in_queue(queue)
            if not self.lease_holds(job)
            and job.run_at <= self.now
            and job.attempts < job.max_attempts
            and not self.expired(job)
            and (after is None or job.id > after)
            and (before is None or job.id < before)
            and message_id in (None, job.id)
        ]
        return sorted(found, key=Job.order)

    def tidy(self, queue: str) -> None:
        """What every claim, read and move does first."""
        for job in self.in_queue(queue):
            if job.leased and not self.lease_holds(job):
                job.failures.append(Failure(job.attempts, job.worker_id or "", LEASE_RAN_OUT, self.second))
                if job.attempts >= job.max_attempts:
                    self.bury(job, "max attempts exceeded")
                elif self.expired(job):
                    self.bury(job, "expired")
                else:
                    self.free(job)
            elif not job.leased and job.attempts >= job.max_attempts and job.run_at <= self.now:
                self.bury(job, "max attempts exceeded")

    def bury(self, job: Job, error: str) -> None:
        del self.live[job.id]
        self.free(job)
        self.dead[job.id] = DeadLetter(job, error, self.second)

    @staticmethod
    def free(job: Job) -> None:
        job.worker_id = job.claim_expires_at = None

    # Claiming and settling

    def claim(self, queue: str, worker: str, limit: int, lease: float) -> list[tuple[Job, str | None]]:
        """The jobs, each with the error of the attempt before."""
        if limit <= 0:
            return []
        self.tidy(queue)
        chosen = [] if queue in self.paused else self.due(queue)[:limit]
        for job in chosen:
            job.attempts += 1
            job.worker_id = worker
            job.claim_expires_at = self.after(lease)
        return [(job, job.failures[-1].error if job.attempts > 1 and job.failures else None) for job in chosen]

    def owned(self, job_id: int, worker: str, attempt: int | None) -> Job | None:
        job = self.live.get(job_id)
        if job is None or job.worker_id != worker or not self.lease_holds(job):
            return None
        return job if attempt is None or job.attempts == attempt else None

    def ack(self, job_id: int, worker: str, attempt: int | None = None) -> bool:
        job = self.owned(job_id, worker, attempt)
        if job is not None:
            del self.live[job.id]
        return job is not None

    def retry(self, job_id: int, worker: str, delay: float, error: str, attempt: int | None = None) -> bool:
        job = self.owned(job_id, worker, attempt)
        if job is None:
            return False
        job.failures.append(Failure(job.attempts, worker, error, self.second))
        if job.attempts >= job.max_attempts:
            self.bury(job, error)
        else:
            self.free(job)
            job.run_at = self.after(delay)
        return True

    def fail(self, job_id: int, worker: str, error: str, attempt: int | None = None) -> bool:
        job = self.owned(job_id, worker, attempt)
        if job is None:
            return False
        job.failures.append(Failure(job.attempts, worker, error, self.second))
        self.bury(job, error)
        return True

    def heartbeat(self, job_id: int, worker: str, lease: float, attempt: int | None = None) -> bool:
        job = self.owned(job_id, worker, attempt)
        if job is not None:
            job.claim_expires_at = self.after(lease)
        return job is not None

    def cancel(self, job_id: int) -> bool:
        return self.live.pop(job_id, None) is not None

    def sweep_expired(self, queue: str) -> int:
        late = [job for job in self.in_queue(queue) if not job.leased and self.expired(job)]
        for job in late:
            self.bury(job, "expired")
        return len(late)

    # The shell

    def read(self, queue: str, limit: int, **chosen: int) -> list[Job]:
        self.tidy(queue)
        taken = [] if queue in self.paused else self.due(queue, **chosen)[:limit]
        for job in taken:
            del self.live[job.id]
        return taken

    def read_under_lease(self, queue: str, batch_size: int, consumed: int) -> list[Job]:
        """Take `consumed` of a leased batch and give the rest back: these claims count, and are allowed for."""
        self.tidy(queue)
        batch = [] if queue in self.paused else self.due(queue)[:batch_size]
        for job in batch:
            job.attempts += 1
        for job in batch[:consumed]:
            del self.live[job.id]
        for job in batch[consumed:]:
            job.max_attempts += 1
        return batch

    def move(self, queue: str, target: str, limit: int, **chosen: int) -> list[Job]:
        self.tidy(queue)
        moved = self.due(queue, **chosen)[:limit]
        for job in moved:
            job.queue = target
            self.known_queues.add(target)
            self.keys = {name: key for name, key in self.keys.items() if key.holder != job.id}
        return moved

    def delete_message(self, queue: str, message_id: int) -> bool:
        job = self.live.get(message_id)
        if job is None or job.queue != queue or self.lease_holds(job):
            return False
        return self.cancel(message_id)

    def delete_queue(self, queue: str) -> bool:
        jobs = self.in_queue(queue)
        for job in jobs:
            self.cancel(job.id)
        if queue not in self.paused:
            self.known_queues.discard(queue)
        return bool(jobs)

    # Dead letters and control

    def requeue(self, queue: str, job_id: int | None) -> int:
        chosen = [
            letter for letter in self.dead.values() if letter.job.queue == queue and job_id in (None, letter.job.id)
        ]
        for letter in chosen:
            job = letter.job
            del self.dead[job.id]
            job.attempts = 0
            job.max_attempts = max(job.max_attempts, 1)
            job.run_at = self.second
            job.expires_at = None
            self.live[job.id] = job
            self.known_queues.add(queue)
        return len(chosen)

    def purge(self, queue: str, older_than: float | None) -> int:
        chosen = [
            letter.job.id
            for letter in self.dead.values()
            if letter.job.queue == queue and (older_than is None or letter.died_at < self.now - older_than)
        ]
        for job_id in chosen:
            del self.dead[job_id]
        return len(chosen)

    def pause(self, queue: str) -> bool:
        changed = queue not in self.paused
        self.paused.add(queue)
        self.known_queues.add(queue)
        return changed

    def resume(self, queue: str) -> bool:
        changed = queue in self.paused
        self.paused.discard(queue)
        return changed

    # What can be seen

    def queue_names(self) -> list[str]:
        used = {job.queue for job in self.live.values()} | {letter.job.queue for letter in self.dead.values()}
        return sorted(self.known_queues | used)

    def stats(self, queue: str) -> dict[str, Any]:
        waiting = [job for job in self.in_queue(queue) if not job.leased]
        due = [job.run_at for job in waiting if job.run_at <= self.now]
        later = [job.run_at for job in waiting if job.run_at > self.now]
        return {
            "queue": queue,
            "pending": len(waiting),
            "delayed": len(later),
            "processing": sum(job.leased for job in self.in_queue(queue)),
            "dead": sum(letter.job.queue == queue for letter in self.dead.values()),
            "oldest_age": self.now - min(due) if due else None,
            "next_run_at": min(later, default=None),
            "paused": queue in self.paused,
        }

    def failures(self) -> dict[int, list[tuple[Any, ...]]]:
        jobs = [*self.live.values(), *(letter.job for letter in self.dead.values())]
        return {job.id: [astuple(failure) for failure in job.failures] for job in jobs if job.failures}
