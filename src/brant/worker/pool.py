"""The worker: a loop for each queue that claims no more than it can run now."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from brant.arguments import seconds, whole
from brant.errors import BrantError, InvalidValue, LeadershipLost, LockHeld
from brant.tasks import Registry
from brant.tasks import registry as process_registry
from brant.worker.events import Observer, Observers, WorkerEvent
from brant.worker.execution import Execution

if TYPE_CHECKING:
    from brant.database import Database
    from brant.queue import Queue

_SAFETY_POLL_S = 5.0
_TROUBLE_PAUSE_S = 0.5
_PRESENCE_CHECK_S = 0.5
_LEADER_POLL_S = 5.0


class Worker:
    """Runs the tasks of some queues until it is stopped.

    Nothing but stopping ends it: a bad payload, an unknown task, a failing function, a busy database concern the one
    job. Stopping is soft: no new claims, what runs may finish within `grace_s` seconds; what is cut off is given back
    at once. `stop(now=True)` cuts off at once.
    """

    def __init__(
        self,
        db: Database,
        queues: Mapping[str, int] | None = None,
        *,
        concurrency: int | None = None,
        registry: Registry | None = None,
        scheduler: bool = True,
        grace_s: float = 10.0,
        drain: bool = False,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        self.db = db
        self._registry = registry or process_registry()
        slots = default_concurrency(concurrency)
        wanted = dict.fromkeys(self._registry.queues(), slots) if queues is None else dict(queues)
        if not wanted:
            raise BrantError("no tasks: decorate a function with @queue.task before running a worker")
        for name, count in wanted.items():
            whole(count, f"concurrency of {name}", minimum=1)
        self._queues = [(db.queue(name), count) for name, count in wanted.items()]
        self._scheduler = scheduler
        self._grace_s = seconds(grace_s, "grace_s", minimum=0)
        self._drain = drain
        self._observers = Observers(observers)
        self._threads = ThreadPoolExecutor(sum(wanted.values()), thread_name_prefix="brant-task")
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self, *, now: bool = False) -> None:
        """Stop softly, or at once; from any thread, and from a signal handler."""
        events = (self._stopping, self._now) if now else (self._stopping,)
        for event in events:
            if self._loop is None:
                event.set()
            else:
                self._loop.call_soon_threadsafe(event.set)

    async def run(self, stop_event: asyncio.Event | None = None) -> None:
        """Work until stopped, by `stop()`, by `stop_event`, or, when draining, once nothing is due."""
        self._loop = asyncio.get_running_loop()
        helpers = [asyncio.create_task(self._run_scheduler())] if self._scheduler else []
        if stop_event is not None:
            helpers.append(asyncio.create_task(self._follow(stop_event)))
        try:
            await asyncio.gather(*(self._work_on(queue, slots) for queue, slots in self._queues))
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            # A function that no longer heeds anything must not keep the process: its lease runs out.
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._observers.tell(WorkerEvent("stop", ",".join(queue.name for queue, _ in self._queues)))

    async def _follow(self, stop_event: asyncio.Event) -> None:
        await stop_event.wait()
        self.stop()

    async def _work_on(self, queue: Queue, slots: int) -> None:
        bench = _Bench(self, queue, slots)
        try:
            await bench.work()
        finally:
            await bench.finish(self._grace_s)

    async def _run_scheduler(self) -> None:
        """Lead when nobody else does; stand by otherwise."""
        while True:
            try:
                await self.db.scheduler().run(self._stopping)
                return
            except (LockHeld, LeadershipLost):
                pass
            except BrantError as error:
                if "no registered tasks" not in str(error):
                    self._observers.tell(WorkerEvent("trouble", "", error=f"the scheduler failed: {error}"))
            await asyncio.sleep(_LEADER_POLL_S)


class _Bench:
    """The slots of one queue, and what runs in them."""

    def __init__(self, worker: Worker, queue: Queue, slots: int) -> None:
        self._worker = worker
        self._queue = queue
        self._slots = slots
        self._id = queue.db.unique_worker_id()
        self._subscription = queue.db._storage.subscribe()
        self._running: dict[asyncio.Task[None], Execution] = {}
        self._next_presence_check = 0.0

    async def work(self) -> None:
        stopping = asyncio.create_task(self._worker._stopping.wait())
        try:
            while not stopping.done():
                try:
                    idle_s = await self._fill()
                except BrantError as error:
                    self._worker._observers.tell(WorkerEvent("trouble", self._queue.name, error=str(error)))
                    idle_s = _TROUBLE_PAUSE_S
                if idle_s is None:
                    return
                await self._wait(idle_s, stopping)
        finally:
            stopping.cancel()

    async def _fill(self) -> float | None:
        """Claim for the free slots; tells how long there is nothing to do, None when drained."""
        free = self._slots - len(self._running)
        if free == 0:
            return _SAFETY_POLL_S
        due_in = await asyncio.to_thread(self._queue.due_in)
        if due_in != 0:
            drained = self._worker._drain and not self._running
            return None if drained else _SAFETY_POLL_S if due_in is None else min(due_in, _SAFETY_POLL_S)
        for job in await asyncio.to_thread(self._queue.claim_batch, self._id, free):
            execution = Execution(job, self._worker._registry, self._worker._threads, self._worker._observers)
            self._running[asyncio.create_task(execution.run(), name=f"brant-job-{job.id}")] = execution
        return 0

    async def _wait(self, idle_s: float, stopping: asyncio.Task[bool]) -> None:
        """For a free slot, a commit, the next due time or the stop; whatever comes first."""
        if idle_s == 0 and len(self._running) < self._slots:
            await asyncio.sleep(0)
        else:
            waiting: set[asyncio.Task[object]] = {stopping, *self._running}
            commit = None
            if len(self._running) < self._slots or self._running:
                commit = asyncio.create_task(self._subscription.wait_async(idle_s or _SAFETY_POLL_S))
                waiting.add(commit)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if commit is not None:
                await self._checked(commit)
        self._clear_ended()
        await self._drop_cancelled()

    async def _checked(self, commit: asyncio.Task[bool]) -> None:
        if commit.done():
            commit.result()  # raises when the file was replaced or closed: that ends the worker, loudly
        else:
            commit.cancel()

    def _clear_ended(self) -> None:
        for task in [task for task in self._running if task.done()]:
            del self._running[task]
            if not task.cancelled() and task.exception() is not None:
                error = repr(task.exception())
                self._worker._observers.tell(WorkerEvent("trouble", self._queue.name, error=error))

    async def _drop_cancelled(self) -> None:
        """End the functions of jobs that were cancelled from elsewhere; looked for now and then, not at each commit."""
        monotonic = self._queue.db._storage.clock.monotonic
        if not self._running or monotonic() < self._next_presence_check:
            return
        self._next_presence_check = monotonic() + _PRESENCE_CHECK_S
        for execution in list(self._running.values()):
            if await asyncio.to_thread(self._queue.get_job, execution.job.id) is None:
                execution.lose()

    async def finish(self, grace_s: float) -> None:
        self._subscription.close()
        now = asyncio.create_task(self._worker._now.wait())
        try:
            deadline = asyncio.get_running_loop().time() + grace_s
            while self._running and not now.done():
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    break
                await asyncio.wait({now, *self._running}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                self._clear_ended()
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        finally:
            now.cancel()


def default_concurrency(wanted: int | None) -> int:
    return whole((os.cpu_count() or 1) if wanted is None else wanted, "concurrency", minimum=1)


def parse_queues(words: list[str], concurrency: int) -> dict[str, int]:
    """`emails` or `reports=2`, as typed."""
    queues = {}
    for word in words:
        name, equals, count = word.partition("=")
        if equals and not (count.isascii() and count.isdigit() and int(count) > 0):
            raise InvalidValue(f"--queue {word}: the number behind = must be 1 or more")
        queues[name] = int(count) if equals else concurrency
    return queues
