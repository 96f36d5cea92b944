"""Random programs on a queue with limits, step by step against a model that counts leases and starts by hand.

Two clients on one file, and time that the program moves. Each claim must hand out exactly what the model does: never
more than a limit allows, and never less. After a claim in vain, what a worker is told to wait for is checked too.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import brant
from brant.limit import Limit
from brant.testing import FakeClock

KEYS = {
    None: None,
    "one": Limit("one", max_running=1),
    "two": Limit("two", max_running=2),
    "rated": Limit("rated", max_starts=2, per_s=7),
    "both": Limit("both", max_running=1, max_starts=3, per_s=5.5),
}
WHOLE = [
    None,
    None,
    None,
    Limit(max_running=3),
    Limit(max_starts=4, per_s=6),
    Limit(max_running=1, max_starts=2, per_s=3),
]
keys = st.sampled_from(list(KEYS))
picks = st.integers(0, 20)
delays = st.sampled_from([0, 0, 0, 1, 4.5])
leases = st.sampled_from([1, 5, 5, 2.5, 60])
clients = st.sampled_from([0, 1])


def moment_after(now: float, span: float) -> float:
    return int(now) + int(span) if span == int(span) else now + span


@dataclass
class ModelJob:
    id: int
    key: str | None
    priority: int
    run_at: float
    lease_end: float | None = None
    expires_at: float = math.inf

    def is_leased(self, now: float) -> bool:
        return self.lease_end is not None and (self.lease_end >= now or self.lease_end == int(now))

    def free_at(self) -> float:
        """The first moment at which the lease does not hold."""
        assert self.lease_end is not None
        return self.lease_end + 1 if isinstance(self.lease_end, int) else math.nextafter(self.lease_end, math.inf)


class Model:
    def __init__(self) -> None:
        self.jobs: dict[int, ModelJob] = {}
        self.starts: dict[str | None, list[float]] = {}
        self.whole: Limit | None = None
        self.whole_starts: list[float] = []

    def has_room(self, limit: Limit | None, leased: int, starts: list[float], now: float) -> bool:
        if limit is None:
            return True
        if limit.max_running is not None and leased >= limit.max_running:
            return False
        if limit.max_starts is None or limit.per_s is None:
            return True
        return sum(at + limit.per_s > now for at in starts) < limit.max_starts

    def may_start(self, job: ModelJob, now: float) -> bool:
        leased = [other for other in self.jobs.values() if other.is_leased(now)]
        of_key = sum(other.key == job.key for other in leased)
        return self.has_room(self.whole, len(leased), self.whole_starts, now) and self.has_room(
            KEYS[job.key], of_key, self.starts.get(job.key, []), now
        )

    def due(self, now: float) -> list[ModelJob]:
        due = [
            job for job in self.jobs.values() if job.run_at <= now and not job.is_leased(now) and job.expires_at > now
        ]
        return sorted(due, key=lambda job: (-job.priority, job.run_at, job.id))

    def claim(self, now: float, count: int, lease_end: float) -> list[int]:
        taken: list[int] = []
        for job in self.due(now):
            if len(taken) < count and self.may_start(job, now):
                job.lease_end = lease_end
                self.starts.setdefault(job.key, []).append(now)
                self.whole_starts.append(now)
                taken.append(job.id)
        return taken

    def moments(self) -> set[float]:
        """When anything may change by the clock alone."""
        moments = {job.run_at for job in self.jobs.values()}
        moments |= {job.free_at() for job in self.jobs.values() if job.lease_end is not None}
        for key, limit in KEYS.items():
            if limit is not None and limit.per_s is not None:
                moments |= {at + limit.per_s for at in self.starts.get(key, [])}
        if self.whole is not None and self.whole.per_s is not None:
            moments |= {at + self.whole.per_s for at in self.whole_starts}
        return moments

    def next_claim_at(self, now: float) -> float | None:
        later = sorted(at for at in self.moments() if at > now)
        return next((at for at in later if any(self.may_start(job, at) for job in self.due(at))), None)


class Programs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.dbs = [brant.open(f"{self.folder.name}/app.db", clock=self.clock) for _ in range(2)]
        self.queues = [db.queue("q", max_attempts=10_000, max_wait_s=None) for db in self.dbs]
        # So that the queue is one with limits from the first step to the last.
        self.queues[0].enqueue("never", delay=10**8, limit=Limit("never", max_running=1))
        self.model = Model()
        self.handles: list[brant.Job] = []

    def teardown(self) -> None:
        for db in self.dbs:
            db.close()
        self.folder.cleanup()

    @rule(client=clients, key=keys, priority=st.integers(0, 2), delay=delays, expires=st.sampled_from([None, None, 6]))
    def enqueue(self, client: int, key: str | None, priority: int, delay: float, expires: int | None) -> None:
        now = self.clock.now()
        job_id = self.queues[client].enqueue(0, delay=delay, priority=priority, expires=expires, limit=KEYS[key])
        job = ModelJob(job_id, key, priority, moment_after(now, delay))
        if expires is not None:
            job.expires_at = moment_after(now, expires)
        self.model.jobs[job_id] = job

    @rule(client=clients, key=keys, count=st.integers(1, 4))
    def enqueue_many(self, client: int, key: str | None, count: int) -> None:
        for job_id in self.queues[client].enqueue_many([0] * count, limit=KEYS[key]):
            self.model.jobs[job_id] = ModelJob(job_id, key, 0, int(self.clock.now()))

    @rule(client=clients, count=st.integers(1, 5), lease=leases)
    def claim(self, client: int, count: int, lease: float) -> None:
        now = self.clock.now()
        self.forget_expired(now)
        due_in = self.queues[client].due_in()
        jobs = self.queues[client].claim_batch("w", count, lease)
        expected = self.model.claim(now, count, moment_after(now, lease))
        assert [job.id for job in jobs] == sorted(
            expected, key=lambda job_id: (-self.model.jobs[job_id].priority, self.model.jobs[job_id].run_at, job_id)
        )
        self.handles += jobs
        if jobs:
            assert due_in == 0
        else:
            self.check_the_wait(client, now)

    def check_the_wait(self, client: int, now: float) -> None:
        due_in = self.queues[client].due_in()
        next_at = self.model.next_claim_at(now)
        if next_at is not None:
            assert due_in is not None
            assert now + due_in <= next_at + 1e-6
        # Nothing to claim now: a worker that was told otherwise would spin.
        assert due_in != 0

    def forget_expired(self, now: float) -> None:
        for job in list(self.model.jobs.values()):
            if job.expires_at <= now and not job.is_leased(now):
                del self.model.jobs[job.id]

    @precondition(lambda self: self.handles)
    @rule(
        pick=picks, verb=st.sampled_from(["ack", "ack", "retry", "release", "fail", "cancel", "extend"]), delay=delays
    )
    def settle(self, pick: int, verb: str, delay: float) -> None:
        """Often too late: those whose lease has run out are zombies, and change nothing."""
        job = self.handles.pop(pick % len(self.handles))
        now = self.clock.now()
        known: Any = self.model.jobs.get(job.id)
        holds = known is not None and known.is_leased(now) and known.lease_end == job.claim_expires_at
        holds = holds and self.attempts(job) == job.attempts
        if verb == "cancel":
            job.queue.cancel(job.id)
            self.model.jobs.pop(job.id, None)
            return
        verbs: dict[str, Callable[[], bool]] = {
            "ack": job.ack,
            "retry": lambda: job.retry(delay, "again"),
            "release": lambda: job.queue.release(job.id, "w", delay, attempt=job.attempts),
            "fail": lambda: job.fail("no"),
            "extend": lambda: job.heartbeat(20),
        }
        done = verbs[verb]()
        assert done == holds
        if not done:
            return
        if verb == "extend":
            known.lease_end = moment_after(now, 20)
        elif verb in ("retry", "release"):
            known.lease_end, known.run_at = None, moment_after(now, delay)
        else:
            del self.model.jobs[job.id]

    def attempts(self, job: brant.Job) -> int:
        row = job.queue.get_job(job.id)
        return -1 if row is None else int(row["attempts"])

    @rule(client=clients, whole=st.sampled_from(WHOLE))
    def limit_the_queue(self, client: int, whole: Limit | None) -> None:
        if whole != self.model.whole:
            # Its starts are counted from the time on that the limit was made.
            self.queues[client].set_limit(None)
            self.model.whole_starts = []
        self.queues[client].set_limit(whole)
        self.model.whole = whole

    @precondition(lambda self: self.model.jobs)
    @rule(client=clients)
    def read(self, client: int) -> None:
        message = self.queues[client].read()
        if message is not None:
            del self.model.jobs[message.id]

    @rule(span=st.sampled_from([0.5, 0.5, 1, 3, 5, 6.5]))
    def wait(self, span: float) -> None:
        self.clock.advance(span)

    @invariant()
    def no_key_has_more_leases_than_its_limit(self) -> None:
        rows = self.dbs[0].query(
            "SELECT key, count(*) AS running FROM _honker_live JOIN _brant_limited ON job_id = id"
            " WHERE state = 'processing' AND (claim_expires_at >= ? OR claim_expires_at = ?) GROUP BY key",
            [self.clock.now(), int(self.clock.now())],
        )
        for row in rows:
            limit = KEYS[row["key"]]
            assert limit is not None
            assert limit.max_running is None or row["running"] <= limit.max_running


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(
    max_examples=int(os.environ.get("BRANT_MODEL_EXAMPLES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
