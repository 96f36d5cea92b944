"""Side effects that follow a commit: enqueued with the business write, delivered afterwards, with retries."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from brant.arguments import seconds, whole
from brant.errors import DatabaseReplaced, Retryable, StorageError
from brant.job import Job
from brant.outcomes import Cancel, Dead, Outcome, Retry, Snooze
from brant.queue import Queue

if TYPE_CHECKING:
    from brant.database import Database

_LONGEST_BACKOFF_S = 3600.0
_LONGEST_DELAY_S = 100 * 365 * 86_400
# After the database refused: somebody else writes, the disk is full, the connection was lost.
_TROUBLE_PAUSE_S = 1.0
_log = logging.getLogger("brant.outbox")
_current: ContextVar[Job | None] = ContextVar("brant_outbox_job", default=None)


def current_delivery() -> Job | None:
    """The job that is being delivered here: its id is the same over all attempts. None outside a delivery."""
    return _current.get()


class Outbox:
    """A queue with one consumer function; make one with `db.outbox(name, delivery)`."""

    def __init__(
        self,
        db: Database,
        name: str,
        delivery: Callable[[Any], Any],
        max_attempts: int = 5,
        base_backoff_s: float = 5,
        visibility_timeout_s: float = 60,
    ) -> None:
        if not callable(delivery):
            raise TypeError(f"delivery must be a function of the payload, not {type(delivery).__name__}")
        self.name = name
        self.delivery = delivery
        self.base_backoff_s = seconds(base_backoff_s, "base_backoff_s", minimum=0)
        self._queue = db.queue(
            f"_outbox:{name}",
            seconds(visibility_timeout_s, "visibility_timeout_s", above=0),
            whole(max_attempts, "max_attempts", minimum=1),
        )

    @property
    def queue(self) -> Queue:
        return self._queue

    def enqueue(
        self,
        payload: object,
        tx: object | None = None,
        priority: int = 0,
        delay: float | None = None,
        run_at: float | datetime | None = None,
        expires: float | None = None,
    ) -> int:
        """Have the payload delivered once the transaction has committed; gives the job's id."""
        return self._queue.enqueue(payload, tx=tx, priority=priority, delay=delay, run_at=run_at, expires=expires)

    async def run_worker(self, worker_id: str | None = None) -> None:
        """Deliver until cancelled, one at a time; start several for more.

        A plain function runs in a thread, a coroutine on the loop. A failure is retried after base_backoff_s, doubled
        with each attempt and spread by chance, or after the delay that a `Retryable` asks for. A delivery may also
        raise or return what a task may: `Retry`, `Snooze`, `Cancel` and `Dead` of `brant.outcomes`.
        """
        claims = self._queue.claim(worker_id)
        # A thread of its own: in the loop's pool, slow deliveries would leave none to renew their leases.
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"brant-outbox-{self.name}")
        try:
            while True:
                try:
                    job = await anext(claims)
                except StorageError as error:
                    await _pause(error)
                else:
                    await self._deliver(job, thread)
                    if _is_being_stopped():
                        raise asyncio.CancelledError  # which the delivery has kept to itself
        finally:
            thread.shutdown(wait=False)
            await asyncio.to_thread(claims.close)

    async def _deliver(self, job: Job, thread: Executor) -> None:
        renewal = asyncio.create_task(self._keep_renewing(job))
        try:
            await _settle(await self._outcome(job, thread))
        finally:
            renewal.cancel()

    async def _outcome(self, job: Job, thread: Executor) -> Callable[[], bool]:
        """Deliver, and give the call that settles the job."""
        try:
            payload = job.payload
        except ValueError as error:
            return partial(job.fail, f"the payload is not JSON: {error}")
        _current.set(job)
        answer: BaseException | None
        try:
            answer = await self._call(job, payload, thread)
        except (Exception, asyncio.CancelledError) as error:
            # A cancellation of something inside the delivery is a failure like any other.
            if isinstance(error, asyncio.CancelledError) and _is_being_stopped():
                raise
            answer = error
        finally:
            _current.set(None)
        return self._settling(job, answer)

    def _settling(self, job: Job, answer: object) -> Callable[[], bool]:
        # A snooze gives its attempt back by adding one to those that the job has.
        attempt = max(1, job.attempts - max(0, job.max_attempts - self._queue.max_attempts))
        match answer:
            case Snooze(for_s=pause):
                return partial(job.release, self._checked(pause, attempt))
            case Dead(reason=reason):
                return partial(job.fail, reason)
            case Retry(after_s=after, reason=reason):
                return partial(job.retry, self._checked(after, attempt), reason)
            case BaseException() if not isinstance(answer, Cancel):
                delay = answer.delay_s if isinstance(answer, Retryable) else None
                return partial(job.retry, self._checked(delay, attempt), _reason(answer))
            case _:
                return job.ack

    async def _call(self, job: Job, payload: Any, thread: Executor) -> Outcome | None:
        if inspect.iscoroutinefunction(self.delivery):
            outcome = self.delivery(payload)
        else:
            call = partial(copy_context().run, _called, self.delivery, payload)
            outcome, error = await asyncio.get_running_loop().run_in_executor(thread, call)
            if error is not None:
                raise error
        # Also for objects whose __call__ is a coroutine, which no inspection of the object itself shows.
        if inspect.isawaitable(outcome):
            try:
                outcome = await outcome
            except asyncio.CancelledError:
                # Cut off for good, so the next worker may have it. A thread can't be: there the lease stays.
                if _is_being_stopped():
                    await _give_back(job)
                raise
        return outcome if isinstance(outcome, Outcome) else None

    async def _keep_renewing(self, job: Job) -> None:
        while True:
            await asyncio.sleep(self._queue.visibility_timeout_s / 3)
            try:
                if not await asyncio.to_thread(job.heartbeat):
                    return
            except StorageError as error:
                if isinstance(error, DatabaseReplaced):
                    raise
                _log.warning("a lease could not be renewed, trying again: %s", error)

    def _checked(self, delay: object, attempt: int) -> float:
        """What the delivery asked for, if that is a time; else the outbox's own."""
        if isinstance(delay, (int, float)) and 0 <= delay <= _LONGEST_DELAY_S:
            return delay
        return self.backoff(attempt)

    def backoff(self, attempt: int) -> float:
        """Seconds to wait after that many attempts: doubled each time, at most an hour, 10 % more or less by chance.

        In whole seconds, as times are stored, unless it is less than one.
        """
        doubled = self.base_backoff_s * 2.0 ** min(attempt - 1, 32)
        spread = min(doubled, _LONGEST_BACKOFF_S) * random.uniform(0.9, 1.1)
        return spread if spread < 1 else round(spread)


def _called(delivery: Callable[[Any], Any], payload: Any) -> tuple[Any, BaseException | None]:
    # As a value: a future can't carry a StopIteration, and takes a CancelledError for its own.
    try:
        return delivery(payload), None
    except (Exception, asyncio.CancelledError) as error:
        return None, error


def _is_being_stopped() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _give_back(job: Job) -> None:
    try:
        await asyncio.to_thread(job.retry, 0, "cut off: the worker was stopped during the delivery")
    except StorageError as error:
        # Not again and again, since the worker is to end: then it is due when its lease is over.
        _log.warning("a delivery that was cut off could not be given back: %s", error)


async def _settle(settle: Callable[[], bool]) -> None:
    while True:
        try:
            # Again is safe where a commit was lost on its way: of a job that is no longer held it changes nothing.
            await asyncio.to_thread(settle)
            return
        except StorageError as error:
            await _pause(error)


async def _pause(error: StorageError) -> None:
    """Whatever the database refuses may pass; only a file that is no longer there does not come back."""
    if isinstance(error, DatabaseReplaced):
        raise error
    _log.warning("trying again soon: %s", error)
    await asyncio.sleep(_TROUBLE_PAUSE_S)


def _reason(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = type(error).__name__
    return f"{message}\n{''.join(traceback.format_exception(error))}"
