"""For tests of programs that use Brant: time that moves on command, draining, assertions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from brant.clock import Clock
from brant.job import Job
from brant.queue import Queue

__all__ = ["FakeClock", "assert_enqueued", "drain", "pending_payloads"]

_EVERYTHING = 2**62


class FakeClock(Clock):
    """Stands still until it is moved; pass it as `brant.open(..., clock=clock)`.

    Whoever waits for a time (a delayed job, a lease, a schedule) looks again when it moves.
    """

    def __init__(self, now: float | datetime = 1_700_000_000) -> None:
        self._now = now.timestamp() if isinstance(now, datetime) else float(now)
        self._monotonic = 0.0
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let that much time pass."""
        if seconds < 0:
            raise ValueError("time only passes forwards; step_wall() moves the wall clock alone")
        with self._lock:
            self._now += seconds
            self._monotonic += seconds
        self._tell()

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forwards or back, as an administrator or NTP may do; no time passes."""
        with self._lock:
            self._now += seconds
        self._tell()

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def _tell(self) -> None:
        for callback in list(self._callbacks):
            callback()


def drain(queue: Queue, handler: Callable[[Job], Any], *, limit: int = 10_000) -> int:
    """Run `handler` on every job that is due, and ack it; tells how many ran.

    An exception of the handler is not hidden: it is raised, after the job was put back (or, on its last attempt, has
    become a dead letter).
    """
    worker = queue.db.unique_worker_id()
    for count in range(limit):
        job = queue.claim_one(worker)
        if job is None:
            return count
        try:
            handler(job)
        except BaseException:
            job.retry(0, "raised in drain()")
            raise
        job.ack()
    raise AssertionError(f"{queue!r} was not empty after {limit} jobs: does the handler enqueue to its own queue?")


def pending_payloads(queue: Queue) -> list[Any]:
    """The payloads of all live jobs of the queue: due, delayed and claimed."""
    rows = queue.db.query("SELECT payload FROM _honker_live WHERE queue = ? ORDER BY id", [queue.name])
    return [_decoded(row["payload"]) for row in rows]


def _decoded(text: str) -> Any:
    from brant.job import message_payload

    return message_payload(text)


def assert_enqueued(queue: Queue, payload: object = ..., *, count: int | None = None) -> None:
    """Fail unless the queue holds this payload (any, when none is given), or holds it exactly `count` times."""
    payloads = pending_payloads(queue)
    matching = payloads if payload is ... else [found for found in payloads if found == payload]
    wanted = "a job" if payload is ... else f"a job with the payload {payload!r}"
    if count is None and not matching:
        raise AssertionError(f"{queue!r} has not got {wanted}; it holds {payloads!r}")
    if count is not None and len(matching) != count:
        raise AssertionError(f"{queue!r} has got {wanted} {len(matching)} times, not {count}; it holds {payloads!r}")
