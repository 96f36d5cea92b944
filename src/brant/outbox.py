"""Side effects that follow a commit: enqueued with the business write, delivered afterwards, with retries."""

from __future__ import annotations

import asyncio
import inspect
import random
import traceback
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from brant.arguments import seconds
from brant.errors import Retryable
from brant.job import Job
from brant.queue import Queue

if TYPE_CHECKING:
    from brant.database import Database

_LONGEST_BACKOFF_S = 3600.0


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
        self._queue = db.queue(f"_outbox:{name}", visibility_timeout_s, max_attempts)

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
        with each attempt and spread by chance, or after the delay that a `Retryable` asks for.
        """
        claims = self._queue.claim(worker_id)
        try:
            async for job in claims:
                await self._deliver(job)
        finally:
            await asyncio.to_thread(claims.close)

    async def _deliver(self, job: Job) -> None:
        renewal = asyncio.create_task(self._keep_renewing(job))
        try:
            await self._call(job)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            delay = error.delay_s if isinstance(error, Retryable) else self.backoff(job.attempts)
            reason = f"{error}\n{traceback.format_exc()}"
            await asyncio.to_thread(job.retry, delay, reason)
        else:
            await asyncio.to_thread(job.ack)
        finally:
            renewal.cancel()

    async def _call(self, job: Job) -> None:
        payload = job.payload
        if inspect.iscoroutinefunction(self.delivery):
            outcome = self.delivery(payload)
        else:
            outcome = await asyncio.to_thread(self.delivery, payload)
        # Also for objects whose __call__ is a coroutine, which no inspection of the object itself shows.
        if inspect.isawaitable(outcome):
            await outcome

    async def _keep_renewing(self, job: Job) -> None:
        while True:
            await asyncio.sleep(self._queue.visibility_timeout_s / 3)
            if not await asyncio.to_thread(job.heartbeat):
                return

    def backoff(self, attempt: int) -> float:
        """Seconds to wait after that many attempts: doubled each time, at most an hour, 10 % more or less by chance."""
        doubled = self.base_backoff_s * 2.0 ** min(attempt - 1, 32)
        return min(doubled, _LONGEST_BACKOFF_S) * random.uniform(0.9, 1.1)
