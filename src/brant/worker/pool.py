"""The worker: a bench for each queue, a scheduler among them, and a soft end."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from brant.arguments import seconds, whole
from brant.errors import BrantError, InvalidValue, LeadershipLost, LockHeld
from brant.job import Job
from brant.tasks import Registry
from brant.tasks import registry as process_registry
from brant.worker.bench import Bench
from brant.worker.events import Observer, Observers, WorkerEvent
from brant.worker.execution import Tools
from brant.worker.leases import LeaseKeeper
from brant.worker.stopping import Stop

if TYPE_CHECKING:
    from brant.database import Database

_LEADER_POLL_S = 5.0


class Worker:
    """Runs the tasks of some queues until it is stopped. One object runs once.

    Nothing but stopping ends it: a bad payload, an unknown task, a failing function, a busy database concern the one
    job. Stopping is soft: no new claims, what runs may finish within `grace_s` seconds; what is cut off is given back
    at once, but for a plain function, which can't be ended: its job stays claimed until the lease runs out.
    `stop(now=True)` cuts off at once. Observers are called from several threads.
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
        for queue, _ in self._queues:
            seconds(queue.visibility_timeout_s, f"visibility_timeout_s of {queue}", above=0)
        self._scheduler = scheduler
        self._grace_s = seconds(grace_s, "grace_s", minimum=0)
        self._drain = drain
        self._observers = Observers(observers)
        self._stop = Stop()
        self._has_run = False
        self._benches: list[Bench] = []

    def stop(self, *, now: bool = False) -> None:
        """Stop softly, or at once; from any thread, and from a signal handler."""
        self._stop.ask(now=now)

    async def run(self, stop_event: asyncio.Event | None = None) -> None:
        """Work until stopped, by `stop()`, by `stop_event`, or, when draining, once nothing is due.

        Cancelling this stops it softly, cancelling it again at once.
        """
        if self._has_run:
            raise BrantError("this Worker has run already: make a new one")
        self._has_run = True
        loop = asyncio.get_running_loop()
        self._stop.tell(loop)
        leases = LeaseKeeper(self.db._storage.clock, self._tell_trouble)
        tools = Tools(self._registry, self._observers, leases, loop, contextvars.copy_context())
        helpers: list[asyncio.Task[None]] = []
        try:
            self._benches = [
                Bench(queue, slots, tools, self._stop, self._stop_if_drained) for queue, slots in self._queues
            ]
            helpers = self._start_helpers(stop_event)
            await self._work()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            leases.end()
            self._observers.tell(WorkerEvent("stop", ",".join(queue.name for queue, _ in self._queues)))

    def _start_helpers(self, stop_event: asyncio.Event | None) -> list[asyncio.Task[None]]:
        helpers = [asyncio.create_task(self._run_scheduler())] if self._scheduler else []
        if stop_event is not None:
            helpers.append(asyncio.create_task(self._follow(stop_event)))
        return helpers

    async def _work(self) -> None:
        working = [asyncio.create_task(bench.work(self._grace_s)) for bench in self._benches]
        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._stop.ask()
            await asyncio.gather(*working, return_exceptions=True)
        for task in working:
            task.result()

    async def _follow(self, stop_event: asyncio.Event) -> None:
        await stop_event.wait()
        self.stop()

    def _stop_if_drained(self) -> None:
        """Only when all queues are idle at once: a task of one may have enqueued to another."""
        if not self._drain or not all(bench.is_idle for bench in self._benches):
            return
        dues = [queue.due_in() for queue, _ in self._queues]
        if 0 not in dues and all(bench.is_idle for bench in self._benches):
            self.stop()

    async def _run_scheduler(self) -> None:
        """Lead when nobody else does; stand by otherwise."""
        scheduler = self.db.scheduler()
        scheduler.shorten_lock()
        while True:
            try:
                if await asyncio.to_thread(scheduler.schedules):
                    await scheduler.run(self._stop.heeded)
                    return
            except (LockHeld, LeadershipLost):
                pass
            except Exception as error:
                self._observers.tell(WorkerEvent("trouble", "", error=f"the scheduler failed: {error!r}"))
            await asyncio.sleep(_LEADER_POLL_S)

    def _tell_trouble(self, job: Job, error: str) -> None:
        self._observers.tell(WorkerEvent("trouble", job.queue_name, job.id, attempt=job.attempts, error=error))


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
