"""For tests of programs that use Brant: time that moves on command, draining, running inline, assertions."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, overload

from brant.arguments import decode, encode
from brant.clock import Clock
from brant.database import Database
from brant.errors import InvalidValue
from brant.inline import run_inline
from brant.job import Job, message_payload
from brant.queue import Queue
from brant.tasks import ENVELOPE, Task, registry
from brant.worker import Worker, WorkerEvent
from brant.worker.events import OUTCOMES

__all__ = ["FakeClock", "assert_enqueued", "drain", "drain_tasks", "pending_payloads", "run_inline"]


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
    if queue.due_in() != 0:
        return limit
    raise AssertionError(f"{queue!r} was not empty after {limit} jobs: does the handler enqueue to its own queue?")


def drain_tasks(db: Database, *queues: str, limit: int = 10_000) -> dict[str, int]:
    """Run every due task of these queues, or of all queues that have tasks, and what they enqueue; tells the outcomes.

    One at a time, queue by queue, by a worker's own rules: a failed task is put back with its delay, or is a dead
    letter after its last attempt. What is not due yet stays. The answer counts how attempts ended (`success`,
    `retry`, `snooze`, `cancel`, `dead`), without those that did not happen.
    """
    if _loop_runs():
        raise InvalidValue("drain_tasks() blocks: inside an event loop use `await asyncio.to_thread(drain_tasks, db)`")
    if not queues and not registry().queues():
        raise InvalidValue("no tasks to drain: import the module that has them, or name the queues")
    outcomes = _Outcomes(limit)
    asyncio.run(_drain_in_turns(db, queues, outcomes))
    if outcomes.total() >= limit and any(db.queue(name).due_in() == 0 for name in queues or _queues_with_tasks(db)):
        raise AssertionError(f"the queues were not empty after {limit} tasks: does a task enqueue itself?")
    return dict(outcomes.counts)


async def _drain_in_turns(db: Database, queues: tuple[str, ...], outcomes: _Outcomes) -> None:
    before = -1
    # A task of one queue may have enqueued to another: until a whole round finds nothing.
    while before < outcomes.total() < outcomes.limit:
        before = outcomes.total()
        for name in queues or _queues_with_tasks(db):
            worker = Worker(db, {name: 1}, scheduler=False, drain=True, observers=(outcomes,))
            outcomes.worker = worker
            await worker.run()


def _queues_with_tasks(db: Database) -> list[str]:
    # Those in this file only: the process may have tasks of other databases.
    return sorted(set(registry().queues()) & set(db.queue_names()))


class _Outcomes:
    """Counts how tasks ended, and stops the worker at the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self.worker: Worker | None = None

    def total(self) -> int:
        return self.counts.total()

    def __call__(self, event: WorkerEvent) -> None:
        if event.kind not in OUTCOMES:
            return
        self.counts[event.kind] += 1
        if self.total() >= self.limit and self.worker is not None:
            self.worker.stop()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def pending_payloads(queue: Queue) -> list[Any]:
    """The payloads of all live jobs of the queue: due, delayed and claimed."""
    rows = queue.db.query("SELECT payload FROM _honker_live WHERE queue = ? ORDER BY id", [queue.name])
    return [message_payload(row["payload"]) for row in rows]


@overload
def assert_enqueued(queue: Queue, /, payload: object = ..., *, count: int | None = None) -> None: ...


@overload
def assert_enqueued(
    task: Task[..., Any],
    /,
    *,
    args: Iterable[object] = ...,
    kwargs: Mapping[str, object] = ...,
    count: int | None = None,
) -> None: ...


def assert_enqueued(
    where: Queue | Task[..., Any],
    /,
    payload: object = ...,
    *,
    args: object = ...,
    kwargs: object = ...,
    count: int | None = None,
) -> None:
    """Fail unless the queue holds this payload, or a call of the task with these arguments, or exactly `count` of them.

    What is not given may be anything. Arguments are compared as they were passed: `send(1)` has args `[1]`,
    `send(n=1)` has kwargs `{"n": 1}`.
    """
    if isinstance(where, Task):
        _assert_called(where, args, kwargs, count)
    else:
        payloads = pending_payloads(where)
        matching = payloads if payload is ... else [found for found in payloads if found == payload]
        wanted = "a job" if payload is ... else f"a job with the payload {payload!r}"
        _assert_held(where, wanted, len(matching), count, payloads)


def _assert_called(task: Task[..., Any], args: object, kwargs: object, count: int | None) -> None:
    calls = [
        body
        for payload in pending_payloads(task.queue)
        if isinstance(payload, dict) and (body := payload.get(ENVELOPE)) and body["task"] == task.name
    ]
    wanted = {
        name: decode(encode(list(value) if name == "args" else value))  # type: ignore[call-overload]
        for name, value in (("args", args), ("kwargs", kwargs))
        if value is not ...
    }
    matching = [call for call in calls if all(call[name] == value for name, value in wanted.items())]
    told = "".join(f", {name} {value!r}" for name, value in wanted.items())
    _assert_held(task.queue, f"a call of {task.name}{told}", len(matching), count, calls)


def _assert_held(queue: Queue, wanted: str, found: int, count: int | None, held: list[Any]) -> None:
    if count is None and not found:
        raise AssertionError(f"{queue!r} has not got {wanted}; it holds {held!r}")
    if count is not None and found != count:
        raise AssertionError(f"{queue!r} has got {wanted} {found} times, not {count}; it holds {held!r}")
