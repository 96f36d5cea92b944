"""Verbs of work queues: enqueue, claim, settle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from brant.storage.base import JobRow, Row, moment_after, with_text
from brant.storage.limits import LimitRow, LimitVerbs
from brant.storage.rows import NamedTuple

JOB_EVENTS_TOPIC = "_brant:jobs"
EXHAUSTED = "max attempts exceeded"
EXPIRED = "expired"
TASK_ENVELOPE = "__honker_task__"

# Bounds the size of one statement's JSON argument and the time that one statement holds the loop.
ENQUEUE_CHUNK = 5_000
# So many expired rows are cheap to step over and are left for the sweep; more would make claims slow.
_FEW_EXPIRED = 99


class Claimable(NamedTuple):
    """Whether a claim would find something to do now, and when it next might."""

    now: bool
    next_at: float | None


class JobVerbs(LimitVerbs):
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
        limit: LimitRow | None = None,
    ) -> int:
        """Add a job; with a unique key that is held already, add none and give the holder's id."""
        params = self._new_job(queue, run_at, delay, priority, max_attempts, expires)
        if unique_key is not None and (holder := self._unique_holder(params, unique_key)) is not None:
            return holder
        params["payload"] = payload
        job_id, events = self.rows("enqueue", params)[0]
        if unique_key is not None:
            until = None if unique_for is None else self.now() + unique_for
            self.changed("hold_unique", {"queue": queue, "key": unique_key, "job_id": job_id, "expires_at": until})
        if limit is not None:
            self._limit_jobs(queue, [job_id], limit, priority)
        if events is None:
            self.changed("register_queue", params)
        elif events:
            self.emit("enqueued", [(job_id, queue, 0, _task_and_due(payload, params))])
        return int(job_id)

    def _unique_holder(self, params: dict[str, object], key: str) -> int | None:
        """The job that holds the unique key, if one does; some of those whose time is over are dropped on the way."""
        self.changed("outlive_unique", params)
        self.changed("drop_lapsed_unique", params)
        holder: int | None = self.value("unique_holder", params | {"key": key})
        return holder

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
        expires_at: float | None = None,
        limit: LimitRow | None = None,
    ) -> list[int]:
        if not payloads:
            return []
        params = self._new_job(queue, run_at, delay, priority, max_attempts, expires)
        if expires_at is not None:
            params["expires_at"] = expires_at
        ids: list[int] = []
        for start in range(0, len(payloads), ENQUEUE_CHUNK):
            params["payloads"] = json.dumps(payloads[start : start + ENQUEUE_CHUNK])
            ids += [row[0] for row in self.rows("enqueue_many", params)]
        if limit is not None:
            self._limit_jobs(queue, ids, limit, priority)
        self.changed("register_queue", params)
        if self.wants_events(queue):
            told = [_task_and_due(payload, params) for payload in payloads]
            self.emit("enqueued", [(job_id, queue, 0, facts) for job_id, facts in zip(ids, told, strict=True)])
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

    leased_at: float
    """When the leases of the last claim began, by the monotonic clock."""

    def claim(
        self, queue: str, worker: str, limit: int, lease: float, *, overdue: int = 0, max_wait: float = 0
    ) -> list[tuple[JobRow, str | None]]:
        """Lease up to `limit` due jobs (negative: all), in order, each with the error of its last attempt.

        First come up to `overdue` of those that are due for longer than `max_wait` seconds, whatever their priority.
        """
        params = self.times() | {"queue": queue, "worker": worker, "limit": limit, "max_wait": max_wait}
        self.leased_at = self.clock.monotonic()
        params["lease_end"] = moment_after(self.now(), lease)
        paused, events, limited = self.upkeep(params)
        if paused or limit == 0:
            return []
        if limited:
            rows = self._claim_within_limits(params, limit, overdue)
        else:
            rows = self._claim_overdue(params, min(overdue, limit)) if overdue else []
            if len(rows) != limit:
                rows += self._claim_ready(params | {"limit": limit - len(rows)} if rows else params)
        claimed = in_order(rows)
        if events:
            told = [(job.id, queue, job.attempts, task_of(job.payload)) for job, _ in claimed]
            self.emit("claimed", told, worker=worker)
        return claimed

    def _claim_ready(self, params: dict[str, object]) -> list[Row]:
        """Lease those that come first in order."""
        return self.rows("claim", params)

    def upkeep(self, params: dict[str, object]) -> tuple[bool, bool, bool]:
        """Before handing out: free lapsed leases, bury what may not run. Tells (paused, wants events, has limits)."""
        paused, events, lapsed, exhausted, expired, limited = self.rows("claim_upkeep", params)[0]
        if lapsed:
            self._end_lapsed_leases(params)
        if exhausted:
            self._bury_all("exhausted_jobs", params, EXHAUSTED)
        # Where there are limits, one that expired may be what others of its key wait for.
        if expired > (0 if limited else _FEW_EXPIRED):
            self._bury_all("expired_jobs", params, EXPIRED)
        return bool(paused), bool(events), bool(limited)

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
        self._settled("dead", self.rows("drop_jobs", params), error=error)

    def claimable(self, queue: str) -> Claimable:
        """What a worker should wait for; a read."""
        params = self.times() | {"queue": queue}
        paused, limited, now, next_run, next_lapse = self.rows("claimable", params)[0]
        if paused:
            return Claimable(False, None)
        if limited:
            now, moments = self._claimable_within_limits(params, bool(now), next_run, next_lapse)
        else:
            moments = (next_run, next_lapse)
        return Claimable(bool(now), min((at for at in moments if at is not None), default=None))

    def next_claim_at(self, queue: str) -> float:
        """Honker's answer to the same question: 0 when nothing is due later, also when something is due now."""
        return self.value("next_claim_at", self.times() | {"queue": queue}) or 0

    def ack(self, job_id: int, worker: str, attempt: int | None = None) -> bool:
        done = self.rows("ack", self._claim_of(job_id, worker, attempt))
        self._settled("completed", done, worker=worker)
        return bool(done)

    def ack_many(self, ids: Iterable[int], worker: str) -> int:
        done = self.rows("ack_many", self.times() | {"ids": json.dumps(list(ids)), "worker": worker})
        self._emit_for("completed", done, worker=worker)
        if self.value("any_batch_job", {}):
            settled = {"ids": json.dumps([row[0] for row in done])}
            self.date_settled(row[0] for row in self.rows("batches_of_jobs", settled))
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
        run_at = moment_after(self.now(), delay)
        self.changed("reschedule", {"id": job_id, "run_at": run_at})
        if owned[0][12]:
            later = {"run_at": run_at} if delay > 0 else {}
            self.emit("retried", [(job_id, job.queue, job.attempts, later)], worker=worker, error=error)
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
        self.changed("mark_cancelled", {"id": job_id})
        gone = self.rows("cancel", {"id": job_id})
        self._settled("cancelled", gone)
        return bool(gone)

    def get_job(self, job_id: int) -> JobRow | None:
        found = self.rows("get_job", {"id": job_id})
        return JobRow(*with_text(found[0])) if found else None

    def attempt_errors(self, job_id: int) -> list[Row]:
        return self.rows("attempt_errors", {"id": job_id})

    def times_failed(self, job_id: int) -> int:
        """How many attempts of a live job have failed; those that were released are not among them."""
        return int(self.value("times_failed", {"id": job_id}) or 0)

    def any_expired(self, queue: str) -> bool:
        """Whether a sweep would find something; a read."""
        return bool(self.value("any_expired", self.times() | {"queue": queue}))

    def sweep_expired(self, queue: str) -> int:
        """Make dead letters of the jobs that were not started in time."""
        return self._bury_all("expired_jobs", self.times() | {"queue": queue}, EXPIRED)

    def last_job_id(self) -> int:
        return int(self.value("last_job_id", {}) or 0)

    def wants_events(self, queue: str) -> bool:
        flags = self.rows("queue_flags", {"queue": queue})
        return bool(flags and flags[0][1])

    def _settled(self, event: str, rows: Sequence[Row], **facts: object) -> None:
        """Emit for rows of (id, queue, attempts, wants events, batch), and give their batches the time."""
        self._emit_for(event, rows, **facts)
        batches = {row[4] for row in rows if row[4] is not None}
        if batches:
            self.date_settled(batches)

    def date_settled(self, batches: Iterable[int]) -> None:
        """Those of the batches that a trigger has just settled, and their callbacks, get the time and an id of now."""
        now, micros = self.times(), int(self.now() * 1_000_000)
        for batch, inserted_id in self.rows("newly_settled", {"ids": json.dumps(list(batches))}):
            job_id = inserted_id
            if inserted_id is not None:
                job_id = micros if micros > self.last_job_id() else inserted_id
                dated = self.rows("date_callback", now | {"batch": batch, "job_id": job_id, "then_job_id": inserted_id})
                job_id = job_id if dated else inserted_id
                self.changed("raise_last_job_id", {"id": job_id})
                self._emit_for("enqueued", dated)
            self.changed("date_batch", now | {"id": batch, "job_id": job_id})

    def _emit_for(self, event: str, rows: Iterable[Row], **facts: object) -> None:
        """Emit for rows of (id, queue, attempts, wants events)."""
        wanted = [row[:3] for row in rows if row[3]]
        if wanted:
            self.emit(event, wanted, **facts)

    def emit(self, event: str, jobs: Iterable[Row], **facts: object) -> None:
        """Publish lifecycle events of jobs in the same transaction: (id, queue, attempts), and facts of their own."""
        at = self.now()
        events = []
        for job_id, queue, attempt, *own in jobs:
            told = {"event": event, "queue": queue, "job_id": job_id, "attempt": attempt, "at": at, **facts}
            for more in own:
                told.update(more)
            events.append((queue, json.dumps(told)))
        if events:
            self.rows("publish_many", self.times() | {"topic": JOB_EVENTS_TOPIC, "events": json.dumps(events)})


def in_order(rows: Iterable[Row]) -> list[tuple[JobRow, str | None]]:
    """Claimed jobs: RETURNING gives them in the order of the table, not in that of the claim."""
    claimed = [(JobRow(*with_text(row[:12])), row[12]) for row in rows]
    claimed.sort(key=lambda found: (-found[0].priority, found[0].run_at, found[0].id))
    return claimed


def task_of(payload: str | bytes) -> dict[str, object]:
    """What a lifecycle event says of a job that calls a task; no other part of a payload is told."""
    # Most payloads are not worth parsing for this.
    if not isinstance(payload, str) or TASK_ENVELOPE not in payload:
        return {}
    try:
        task = json.loads(payload)[TASK_ENVELOPE]["task"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}  # somebody's own payload with that word in it
    return {"task": task} if isinstance(task, str) else {}


def _task_and_due(payload: str, params: dict[str, object]) -> dict[str, object]:
    """With the time that a job is put off to: until then it does not wait."""
    run_at, now = params["run_at"], params["now"]
    is_later = isinstance(run_at, int | float) and isinstance(now, int | float) and run_at > now
    return task_of(payload) | ({"run_at": run_at} if is_later else {})
