"""The slots of one queue: claiming no more than can run now, and letting go of what runs."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from brant.errors import BrantError
from brant.job import Job
from brant.queue import Queue
from brant.worker.events import WorkerEvent
from brant.worker.execution import Execution, Tools

T = TypeVar("T")

_SAFETY_POLL_S = 5.0
_TROUBLE_PAUSE_S = 0.5
_PRESENCE_CHECK_S = 0.5
# When a claim finds nothing although there seemed to be something: another process was faster.
_LOST_RACE_PAUSE_S = 0.01

# One look at a time for all the workers of a process on one queue: of those that a commit wakes, one claims, and the
# others see by a read that there is nothing left.
_gates: weakref.WeakKeyDictionary[Queue, threading.Lock] = weakref.WeakKeyDictionary()
_gates_lock = threading.Lock()


def _gate_of(queue: Queue) -> threading.Lock:
    with _gates_lock:
        return _gates.setdefault(queue, threading.Lock())


@dataclass(frozen=True)
class _Found:
    """What a look at the queue brought: jobs, or how long there is nothing to do (None: nobody knows)."""

    due_in: float | None
    jobs: list[Job] = field(default_factory=list)
    claimed_at: float = 0.0


class Bench:
    """The slots of one queue, and what runs in them."""

    def __init__(
        self, queue: Queue, slots: int, tools: Tools, stopping: asyncio.Event, on_idle: Callable[[], Awaitable[None]]
    ) -> None:
        self.queue = queue
        self.is_idle = False
        self._slots = slots
        self._tools = tools
        self._stopping = stopping
        self._on_idle = on_idle
        self._gate = _gate_of(queue)
        self._worker_id = queue.db.unique_worker_id()
        self._running: dict[asyncio.Task[None], Execution] = {}
        self._presence_unsure = False
        self._next_presence_check = 0.0
        # Subscribed first, then looked, then waited: no commit goes unnoticed in between.
        self._subscription = queue.db._storage.subscribe()

    async def work(self) -> None:
        """Until stopping; raises when the database is gone for good."""
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                await self._wait(await self._fill(), stopped)
        finally:
            stopped.cancel()
            self._subscription.close()

    async def finish(self, grace_s: float, now: asyncio.Event) -> None:
        """Let what runs end within the grace, and cut off the rest. Cancelling this ends the grace."""
        hurry = asyncio.create_task(now.wait())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        try:
            while self._running and not hurry.done() and (left := deadline - loop.time()) > 0:
                await asyncio.wait({hurry, *self._running}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                self._clear_ended()
        finally:
            hurry.cancel()
            for execution in self._running.values():
                execution.cut_off()
            if self._running:
                await asyncio.wait(self._running)
            self._clear_ended()

    async def _fill(self) -> float:
        """Claim for the free slots; tells how long there is nothing to do."""
        free = self._slots - len(self._running)
        if free == 0:
            return _SAFETY_POLL_S
        self.is_idle = False
        try:
            found = await self._look(free)
        except BrantError as error:
            self._trouble(str(error))
            return _TROUBLE_PAUSE_S
        if self._stopping.is_set():
            await self._at_desk(self._put_back, found.jobs)
            return 0
        for job in found.jobs:
            execution = Execution(job, found.claimed_at, self._tools)
            self._running[asyncio.create_task(execution.run(), name=f"brant-job-{job.id}")] = execution
        self.is_idle = not self._running and found.due_in != 0
        if self.is_idle:
            await self._on_idle()
        return _SAFETY_POLL_S if found.due_in is None else min(found.due_in, _SAFETY_POLL_S)

    async def _look(self, free: int) -> _Found:
        look = asyncio.ensure_future(self._at_desk(self._look_and_claim, free))
        try:
            return await asyncio.shield(look)
        except asyncio.CancelledError:
            # The claim goes on in its thread: nobody would run its jobs before their leases end.
            with suppress(BrantError):
                await self._at_desk(self._put_back, (await look).jobs)
            raise

    def _look_and_claim(self, free: int) -> _Found:
        with self._gate:
            due_in = self.queue.due_in()
            if due_in != 0:
                return _Found(due_in)
            with self.queue.db.transaction() as tx:
                # Behind the wait for the write lock, and before the lease begins.
                begun = self.queue.db._storage.clock.monotonic()
                jobs = self.queue.claim_batch(self._worker_id, free, tx=tx)
        return _Found(0.0 if jobs else _LOST_RACE_PAUSE_S, jobs, begun)

    def _put_back(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                job.release()
            except BrantError as error:
                self._trouble(f"{job!r} could not be given back, and waits for its lease to end: {error}")

    async def _wait(self, idle_s: float, stopped: asyncio.Task[Any]) -> None:
        """For a free slot, a commit, the next due time or the stop; whatever comes first."""
        if idle_s > 0 or len(self._running) == self._slots:
            commit = asyncio.create_task(self._subscription.wait_async(self._patience(idle_s or _SAFETY_POLL_S)))
            try:
                await asyncio.wait({stopped, commit, *self._running}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                commit.cancel()
            # Waited for also when cancelled: two must not wait at the same doorbell.
            await asyncio.wait({commit})
            if not commit.cancelled():
                commit.result()  # raises when the file was replaced or closed: that ends the worker, loudly
                self._presence_unsure = True
        self._clear_ended()
        await self._drop_lost()

    def _patience(self, idle_s: float) -> float:
        if not (self._running and self._presence_unsure):
            return idle_s
        return min(idle_s, max(0.0, self._next_presence_check - asyncio.get_running_loop().time()))

    def _clear_ended(self) -> None:
        for task in [task for task in self._running if task.done()]:
            del self._running[task]
            if not task.cancelled() and (error := task.exception()) is not None:
                self._trouble(f"an execution failed: {error!r}")

    async def _drop_lost(self) -> None:
        """End the functions of jobs that were cancelled from elsewhere; looked for now and then, not at each commit."""
        now = asyncio.get_running_loop().time()
        if not self._running or not self._presence_unsure or now < self._next_presence_check:
            return
        self._presence_unsure = False
        self._next_presence_check = now + _PRESENCE_CHECK_S
        executions = list(self._running.values())
        try:
            lost = await self._at_desk(self._lost_among, executions)
        except BrantError as error:
            self._trouble(str(error))
            return
        for execution in lost:
            execution.lose("the job was cancelled, or taken over")

    def _lost_among(self, executions: list[Execution]) -> list[Execution]:
        return [each for each in executions if not each.is_held_in(self.queue.get_job(each.job.id))]

    async def _at_desk(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._tools.desk, function, *args)

    def _trouble(self, error: str) -> None:
        self._tools.observers.tell(WorkerEvent("trouble", self.queue.name, error=error))
