"""The slots of one queue: claiming no more than can run now, settling what has ended, letting go of what runs."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from brant.errors import BrantError
from brant.failpoint import failpoint
from brant.job import Job
from brant.queue import Queue
from brant.storage.subscription import Subscribers, Subscription
from brant.worker.events import WorkerEvent
from brant.worker.execution import Execution, Tools
from brant.worker.settling import Settlement, Settler
from brant.worker.stopping import Stop

_SAFETY_POLL_S = 5.0
_TROUBLE_PAUSE_S = 0.5
_SETTLE_PAUSE_S = 0.2
_PRESENCE_CHECK_S = 0.5
# When a claim finds nothing although there seemed to be something: another process was faster.
_LOST_RACE_PAUSE_S = 0.01
_LONGEST_GUARD_S = 3600.0
_SHORTEST_GUARD_S = 0.001

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
    """The slots of one queue, and what runs in them.

    A thread of its own, the desk, does all that waits for the database: in turns, it settles what has ended and claims
    for the slots that are free. Functions run elsewhere, and ring at the desk when they have ended.
    """

    def __init__(self, queue: Queue, slots: int, tools: Tools, stop: Stop, on_idle: Callable[[], None]) -> None:
        self.queue = queue
        self.is_idle = False
        self._slots = slots
        self._tools = tools
        self._stop = stop
        self._on_idle = on_idle
        self._gate = _gate_of(queue)
        self._worker_id = queue.db.unique_worker_id()
        self._settler = Settler(queue.db)
        self._running: set[Execution] = set()  # changed by the desk only
        self._ended: deque[Settlement] = deque()
        self._unsettled: list[Settlement] = []
        self._settle_again_at = 0.0
        self._more_is_likely = False
        self._presence_unsure = False
        self._next_presence_check = 0.0
        self._is_cut_off = False
        self._failure: BaseException | None = None
        self._desk_left: asyncio.Future[None] = tools.loop.create_future()
        # Subscribed first, then looked, then waited: no commit goes unnoticed in between.
        self._bell = queue.db._storage.subscribe()

    # On the event loop

    async def work(self, grace_s: float) -> None:
        """Until stopping, and to the end of what runs then. Raises when the database is gone for good.

        What has not ended within the grace is cut off. The first cancelling stops, the second ends the grace.
        """
        guard = asyncio.create_task(self._guard_leases())
        try:
            await self._serve_until_stopped()
        finally:
            try:
                await self._finish(grace_s)
            finally:
                guard.cancel()

    async def _serve_until_stopped(self) -> None:
        threading.Thread(target=self._serve, name=f"brant-desk-{self.queue}", daemon=True).start()
        await self._stop.heeded.wait()

    async def _finish(self, grace_s: float) -> None:
        self._bell.ring()
        hurry = asyncio.create_task(self._stop.now.wait())
        ends: set[asyncio.Future[Any]] = {hurry, self._desk_left}
        try:
            await asyncio.wait(ends, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
            await self._cut_off()
        if self._failure is not None:
            raise self._failure

    async def _cut_off(self) -> None:
        self._is_cut_off = True
        for execution in list(self._running):
            execution.cut_off()
        self._bell.ring()
        await asyncio.wait({self._desk_left})

    async def _guard_leases(self) -> None:
        """End functions when their lease must be over, whatever the renewal waits for.

        A job that comes while this sleeps has its lease for at least as long.
        """
        while True:
            left = {execution: execution.lease_left_s for execution in list(self._running) if not execution.is_lost}
            for execution, left_s in left.items():
                if left_s <= 0:
                    execution.lose("the lease could not be renewed in time")
            next_end = min((left_s for left_s in left.values() if left_s > 0), default=self.queue.visibility_timeout_s)
            await asyncio.sleep(min(max(next_end, _SHORTEST_GUARD_S), _LONGEST_GUARD_S))

    # At the desk

    def _serve(self) -> None:
        while not self._is_over:
            try:
                patience = self._turn()
                self._presence_unsure |= self._bell.wait(patience)
            except BaseException as error:
                self._fail(error)
        self._bell.close()
        self._on_loop(self._desk_left.set_result, None)

    @property
    def _is_over(self) -> bool:
        return not self._running and not self._may_claim

    @property
    def _may_claim(self) -> bool:
        return self._failure is None and not self._stop.asked

    def _fail(self, error: BaseException) -> None:
        """Claim nothing more, but settle what runs: with a bell that only what has ended rings."""
        self._failure = self._failure or error
        self._bell.close()
        self._bell = Subscription(Subscribers())
        self._stop.ask()

    def _turn(self) -> float:
        """Settle what has ended and fill what is free; tells how long there is nothing else to do."""
        self._settle()
        try:
            pause = self._fill() if self._may_claim else _SAFETY_POLL_S
            self._drop_lost()
        except BrantError as error:
            self._more_is_likely = False
            self._trouble(str(error))
            pause = _TROUBLE_PAUSE_S
        now = time.monotonic()
        if self._unsettled:
            pause = min(pause, max(0.0, self._settle_again_at - now))
        if self._running and self._presence_unsure:
            pause = min(pause, max(0.0, self._next_presence_check - now))
        return pause

    def _settle(self) -> None:
        group: list[Settlement] = []
        if 0 < len(self._ended) < len(self._running):
            time.sleep(0)  # those that end at the same time, and need the GIL for it: the more, the fewer commits
        while self._ended:
            group.append(self._ended.popleft())
        if self._unsettled and time.monotonic() >= self._settle_again_at:
            group, self._unsettled = self._unsettled + group, []
        if not group:
            return
        again: list[Settlement] = []
        try:
            again = self._settler.settle(group)
        finally:
            for settlement in group:
                if settlement not in again:
                    self._let_go(settlement.execution)
        if again:
            self._unsettled += again
            self._settle_again_at = time.monotonic() + _SETTLE_PAUSE_S

    def _fill(self) -> float:
        """Claim for the free slots; tells how long there is nothing to do."""
        free = self._slots - len(self._running)
        if free == 0:
            return _SAFETY_POLL_S
        self.is_idle = False
        found = self._look(free)
        if not self._may_claim:
            self._put_back(found.jobs)
            return 0
        self._more_is_likely = len(found.jobs) == free
        for job in found.jobs:
            self._start(job, found.claimed_at)
        self.is_idle = not self._running and found.due_in != 0
        if self.is_idle:
            self._on_idle()
        if self._more_is_likely:
            return _SAFETY_POLL_S
        return _SAFETY_POLL_S if found.due_in is None else min(found.due_in, _SAFETY_POLL_S)

    def _look(self, free: int) -> _Found:
        with self._gate:
            if not self._more_is_likely and (due_in := self.queue.due_in()) != 0:
                return _Found(due_in)
            failpoint("claim.before")
            with self.queue.db.transaction() as tx:
                # Behind the wait for the write lock, and before the lease begins.
                begun = self.queue.db._storage.clock.monotonic()
                jobs = self.queue.claim_batch(self._worker_id, free, tx=tx)
        failpoint("claim.after")
        if not jobs and self._more_is_likely:
            return _Found(0.0)
        return _Found(0.0 if jobs else _LOST_RACE_PAUSE_S, jobs, begun)

    def _start(self, job: Job, claimed_at: float) -> None:
        execution = Execution(job, claimed_at, self._tools, self._function_ended)
        self._running.add(execution)
        try:
            execution.start()
        except Exception as error:
            Settlement(execution, None).fail(error)
            self._let_go(execution)
        # Added first, then checked: cutting off does the reverse, so one of the two sees the other.
        if self._is_cut_off:
            self._on_loop(execution.cut_off)

    def _let_go(self, execution: Execution) -> None:
        execution.settled()
        self._running.discard(execution)

    def _function_ended(self, execution: Execution, outcome: object) -> None:
        """From any thread. Noted first, then rung: the desk takes what there is before it waits."""
        self._ended.append(Settlement(execution, outcome))
        self._bell.ring()

    def _put_back(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                job.release()
            except BrantError as error:
                self._trouble(f"{job!r} could not be given back, and waits for its lease to end: {error}")

    def _drop_lost(self) -> None:
        """End the functions of jobs that were cancelled from elsewhere; looked for now and then, not at each commit."""
        now = time.monotonic()
        if not self._running or not self._presence_unsure or now < self._next_presence_check:
            return
        self._presence_unsure = False
        self._next_presence_check = now + _PRESENCE_CHECK_S
        for execution in self._running:
            if not execution.is_held_in(self.queue.get_job(execution.job.id)):
                execution.lose_from_elsewhere("the job was cancelled, or taken over")

    def _on_loop(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits for this any more
            self._tools.loop.call_soon_threadsafe(function, *args)

    def _trouble(self, error: str) -> None:
        self._tools.observers.tell(WorkerEvent("trouble", self.queue.name, error=error))
