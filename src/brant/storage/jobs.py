"""Verbs of work queues: enqueue, claim, settle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from brant.storage.base import JobRow, Row, Statements, moment_after, with_text
from brant.storage.rows import NamedTuple

JOB_EVENTS_TOPIC = "_brant:jobs"
EXHAUSTED = "max attempts exceeded"
EXPIRED = "expired"

# Bounds the size of one statement's JSON argument and the time that one statement holds the loop.
_ENQUEUE_CHUNK = 5_000


class Claimable(NamedTuple):
    """Whether a claim would find something to do now, and when it next might."""

    now: bool
    next_at: float | None


class JobVerbs(Statements):
    def enqueue(
        self,
        queue: str,
        payload: str,
        *,
        run_at: float | None = None,
        delay: float | None = None,
        priority: int = 0,
        max_attempts: int = 3,
        expires: float | None = None,
        unique_key: str | None = None,
        unique_for: float | None = None,
    ) -> int:
        """Add a job; with a unique key that is held already, add none and give the holder's id."""
        params = self._new_job(queue, run_at, delay, priority, max_attempts, expires)
        if unique_key is not None:
            self.changed("outlive_unique", params)
            self.changed("drop_lapsed_unique", params)
            holder: int | None = self.value("unique_holder", params | {"key": unique_key})
            if holder is not None:
                return holder
        params["payload"] = payload
        job_id, events = self.rows("enqueue", params)[0]
        if unique_key is not None:
            until = None if unique_for is None else self.now() + unique_for
            self.changed("hold_unique", {"queue": queue, "key": unique_key, "job_id": job_id, "expires_at": until})
        if events is None:
            self.changed("register_queue", params)
        elif events:
            self.emit("enqueued", [(job_id, queue, 0)])
        return int(job_id)

    def enqueue_many(
        self,
        queue: str,
        payloads: Sequence[str],
        *,
        run_at: float | None = None,
        delay: float | None = None,
        priority: int = 0,
        max_attempts: int = 3,
        expires: float | None = None,
    ) -> list[int]:
        if not payloads:
            return []
        params = self._new_job(queue, run_at, delay, priority, max_attempts, expires)
        ids: list[int] = []
        for start in range(0, len(payloads), _ENQUEUE_CHUNK):
            params["payloads"] = json.dumps(payloads[start : start + _ENQUEUE_CHUNK])
            ids += [row[0] for row in self.rows("enqueue_many", params)]
        self.changed("register_queue", params)
        if self.wants_events(queue):
            self.emit("enqueued", [(job_id, queue, 0) for job_id in ids])
        return ids

    def _new_job(
        self,
        queue: str,
        run_at: float | None,
        delay: float | None,
        priority: int,
        max_attempts: int,
        expires: float | None,
    ) -> dict[str, object]:
        now = self.now()
        second = int(now)
        if delay is not None:
            run_at = moment_after(now, delay)
        return {
            "now": now,
            "second": second,
            "micros": int(now * 1_000_000),
            "queue": queue,
            "priority": priority,
            "run_at": second if run_at is None else run_at,
            "max_attempts": max_attempts,
            "expires_at": None if expires is None else moment_after(now, expires),
        }

    def claim(self, queue: str, worker: str, limit: int, lease: float) -> list[tuple[JobRow, str | None]]:
        """Lease up to `limit` due jobs (negative: all), in order, each with the error of its last attempt."""
        params = self.times() | {"queue": queue, "worker": worker, "limit": limit}
        params["lease_end"] = moment_after(self.now(), lease)
        paused, events = self.upkeep(params)
        if paused or limit == 0:
            return []
        claimed = [(JobRow(*with_text(row[:12])), row[12]) for row in self.rows("claim", params)]
        # RETURNING gives rows in the order of the table, not in that of the claim.
        claimed.sort(key=lambda found: (-found[0].priority, found[0].run_at, found[0].id))
        if events:
            self.emit("claimed", [(job.id, queue, job.attempts) for job, _ in claimed], worker=worker)
        return claimed

    def upkeep(self, params: dict[str, object]) -> tuple[bool, bool]:
        """Before rows are handed out: free lapsed leases, bury what may not run. Tells (paused, wants events)."""
        paused, events, lapsed, exhausted, expired = self.rows("claim_upkeep", params)[0]
        if lapsed:
            self._end_lapsed_leases(params)
        if exhausted:
            self._bury_all("exhausted_jobs", params, EXHAUSTED)
        if expired:
            # A few expired rows are cheap to step over and are left for the sweep; many would make claims slow.
            self._bury_all("expired_jobs", params, EXPIRED)
        return bool(paused), bool(events)

    def _end_lapsed_leases(self, params: dict[str, object]) -> None:
        lapsed = self.rows("lapsed_jobs", params)
        self.changed("note_lapsed", params | {"ids": json.dumps([row[0] for row in lapsed])})
        exhausted = [job_id for job_id, spent, _ in lapsed if spent]
        expired = [job_id for job_id, spent, over in lapsed if over and not spent]
        again = [job_id for job_id, spent, over in lapsed if not (spent or over)]
        self.bury(exhausted, EXHAUSTED)
        self.bury(expired, EXPIRED)
        self.changed("free_lapsed", params | {"ids": json.dumps(again)})

    def _bury_all(self, statement: str, params: dict[str, object], error: str) -> int:
        buried = 0
        while doomed := [row[0] for row in self.rows(statement, params)]:
            self.bury(doomed, error)
            buried += len(doomed)
        return buried

    def bury(self, ids: Sequence[int], error: str) -> None:
        """Make dead letters of live jobs, with the reason."""
        if not ids:
            return
        params = self.times() | {"ids": json.dumps(list(ids)), "error": error}
        self.changed("bury", params)
        self._emit_for("dead", self.rows("drop_jobs", params), error=error)

    def claimable(self, queue: str) -> Claimable:
        """What a worker should wait for; a read."""
        paused, now, next_run, next_lapse = self.rows("claimable", self.times() | {"queue": queue})[0]
        if paused:
            return Claimable(False, None)
        return Claimable(bool(now), min((at for at in (next_run, next_lapse) if at is not None), default=None))

    def next_claim_at(self, queue: str) -> float:
        """Honker's answer to the same question: 0 when nothing is due later, also when something is due now."""
        return self.value("next_claim_at", self.times() | {"queue": queue}) or 0

    def ack(self, job_id: int, worker: str, attempt: int | None = None) -> bool:
        done = self.rows("ack", self._claim_of(job_id, worker, attempt))
        self._emit_for("completed", done, worker=worker)
        return bool(done)

    def ack_many(self, ids: Iterable[int], worker: str) -> int:
        done = self.rows("ack_many", self.times() | {"ids": json.dumps(list(ids)), "worker": worker})
        self._emit_for("completed", done, worker=worker)
        return len(done)

    def retry(self, job_id: int, worker: str, delay: float, error: str, attempt: int | None = None) -> bool:
        """Put a claimed job back for later; one whose attempts are used up becomes a dead letter."""
        claim = self._claim_of(job_id, worker, attempt)
        owned = self.rows("owned_job", claim)
        if not owned:
            return False
        job = JobRow(*with_text(owned[0][:12]))
        self.changed("note_error", claim | {"attempt": job.attempts, "error": error})
        if job.attempts >= job.max_attempts:
            self.bury([job_id], error)
            return True
        self.changed("reschedule", {"id": job_id, "run_at": moment_after(self.now(), delay)})
        if owned[0][12]:
            self.emit("retried", [(job_id, job.queue, job.attempts)], worker=worker, error=error)
        return True

    def fail(self, job_id: int, worker: str, error: str, attempt: int | None = None) -> bool:
        claim = self._claim_of(job_id, worker, attempt)
        owned = self.rows("owned_job", claim)
        if not owned:
            return False
        self.changed("note_error", claim | {"attempt": JobRow(*owned[0][:12]).attempts, "error": error})
        self.bury([job_id], error)
        return True

    def extend(self, job_id: int, worker: str, lease: float, attempt: int | None = None) -> float | None:
        """Renew a lease that still holds: its new end, or None when the claim is lost."""
        lease_end = moment_after(self.now(), lease)
        held = self.rows("extend", self._claim_of(job_id, worker, attempt) | {"lease_end": lease_end})
        return lease_end if held else None

    def release(self, ids: Iterable[int], worker: str, attempt: int | None = None, delay: float | None = None) -> int:
        """Give claimed jobs back unused: due at once, and the attempt does not count."""
        claims = self.times() | {"ids": json.dumps(list(ids)), "worker": worker, "attempt": attempt}
        claims["run_at"] = None if delay is None else moment_after(self.now(), delay)
        return len(self.rows("release", claims))

    def _claim_of(self, job_id: int, worker: str, attempt: int | None) -> dict[str, object]:
        return self.times() | {"id": job_id, "worker": worker, "attempt": attempt}

    def cancel(self, job_id: int) -> bool:
        gone = self.rows("cancel", {"id": job_id})
        self._emit_for("cancelled", gone)
        return bool(gone)

    def get_job(self, job_id: int) -> JobRow | None:
        found = self.rows("get_job", {"id": job_id})
        return JobRow(*with_text(found[0])) if found else None

    def attempt_errors(self, job_id: int) -> list[Row]:
        return self.rows("attempt_errors", {"id": job_id})

    def sweep_expired(self, queue: str) -> int:
        """Make dead letters of the jobs that were not started in time."""
        return self._bury_all("expired_jobs", self.times() | {"queue": queue}, EXPIRED)

    def last_job_id(self) -> int:
        return int(self.value("last_job_id", {}) or 0)

    def wants_events(self, queue: str) -> bool:
        flags = self.rows("queue_flags", {"queue": queue})
        return bool(flags and flags[0][1])

    def _emit_for(self, event: str, rows: Iterable[Row], **facts: object) -> None:
        """Emit for rows of (id, queue, attempts, wants events)."""
        wanted = [row[:3] for row in rows if row[3]]
        if wanted:
            self.emit(event, wanted, **facts)

    def emit(self, event: str, jobs: Iterable[Row], **facts: object) -> None:
        """Publish lifecycle events of jobs, given as (id, queue, attempts), in the same transaction."""
        at = self.now()
        events = [
            (
                queue,
                json.dumps({"event": event, "queue": queue, "job_id": job_id, "attempt": attempt, "at": at, **facts}),
            )
            for job_id, queue, attempt in jobs
        ]
        if events:
            self.rows("publish_many", self.times() | {"topic": JOB_EVENTS_TOPIC, "events": json.dumps(events)})
