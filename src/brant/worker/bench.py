"""The slots of one queue: claiming no more than can run now, settling what has ended, letting go of what runs."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from brant.errors import BrantError, DatabaseClosed, DatabaseReplaced
from brant.failpoint import failpoint
from brant.job import Job
from brant.queue import Queue
from brant.worker.claiming import Claim
from brant.worker.doorbell import Doorbell
from brant.worker.events import WorkerEvent
from brant.worker.execution import Execution, Tools
from brant.worker.hands import Hands
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


class Bench:
    """The slots of one queue, and what runs in them.

    At the desk, one thread at a time settles what has ended and claims for the slots that are free: in one commit,
    where there is likely to be more. A thread that has run a plain function sits down there by itself, and runs what
    it has claimed. A thread of the bench's own waits for all else: for commits, for the time, and for the end of
    coroutines, whose loop must not wait for the database.
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
        self._hands = Hands(slots, self._has_ended, self._attend)
        self._desk = threading.Lock()  # whoever holds it may change what follows
        self._running: set[Execution] = set()
        self._ended: deque[Settlement] = deque()  # added to by all
        self._unsettled: list[Settlement] = []
        self._settle_again_at = 0.0
        self._more_is_likely = False
        self._found_nothing = False
        self._presence_unsure = False
        self._next_presence_check = 0.0
        self._monotonic = queue.db._storage.clock.monotonic
        self._next_sweep = self._monotonic()
        self._is_cut_off = False
        self._failure: BaseException | None = None
        self._desk_left: asyncio.Future[None] = tools.loop.create_future()
        # Listened first, then looked, then waited: no commit goes unnoticed in between.
        self._bell = Doorbell(queue.db._storage)

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

    # The thread of the bench

    def _serve(self) -> None:
        while True:
            try:
                with self._desk:
                    # Asked at the desk: whoever sits there may have claimed something that does not run yet.
                    if self._is_over:
                        break
                    self._sweep_expired()
                    pause = self._turn()
                    self._drop_lost()
                self._hands.call_if_needed()
                self._wait(pause)
            except BaseException as error:
                self._fail(error)
        self._bell.close()
        self._hands.end()
        self._on_loop(self._desk_left.set_result, None)

    def _wait(self, pause: float) -> None:
        """For a ring, or for a commit: that matters when a slot is free, and now and then for what runs."""
        if self._ended:
            return  # while this was at the desk, where nobody else could sit down
        now = time.monotonic()
        if self._unsettled:
            pause = min(pause, max(0.0, self._settle_again_at - now))
        until_check = self._next_presence_check - now
        if self._running and self._presence_unsure:
            pause = min(pause, max(0.0, until_check))
        if self._is_full and until_check > 0:
            self._presence_unsure = True
            self._bell.ignore_commits()
            self._bell.wait(min(pause, until_check))
        elif self._is_listening():
            self._presence_unsure |= self._bell.wait_again(pause, found_nothing=self._found_nothing)

    def _is_listening(self) -> bool:
        """False when it was not, or can't: then look once more before waiting."""
        try:
            return self._bell.listen()
        except (DatabaseClosed, DatabaseReplaced):
            raise
        except Exception as error:
            self._trouble(f"commits are not noticed: {error}")
            self._bell.wait(_TROUBLE_PAUSE_S)
            return False

    def _drop_lost(self) -> None:
        """End the functions of jobs that were cancelled from elsewhere; looked for now and then, not at each commit."""
        now = time.monotonic()
        if not self._running or not self._presence_unsure or now < self._next_presence_check:
            return
        self._presence_unsure = False
        self._next_presence_check = now + _PRESENCE_CHECK_S
        try:
            self._look_for_lost()
        except (DatabaseClosed, DatabaseReplaced):
            raise
        except BrantError as error:
            # Unknown is not lost. Counted from now: a server that is away may have been waited for.
            self._trouble(f"nobody knows whether what runs was cancelled: {error}")
            self._presence_unsure = True
            self._next_presence_check = time.monotonic() + _PRESENCE_CHECK_S

    def _look_for_lost(self) -> None:
        for execution in self._running:
            if not execution.is_held_in(self.queue.get_job(execution.job.id)):
                execution.lose_from_elsewhere("the job was cancelled, or taken over")

    def _sweep_expired(self) -> None:
        """Now and then make dead letters of jobs that were not started in time: somebody may wait for their end.

        Claims only step over them. Before the turn: a worker that drains stops there.
        """
        if not self._may_claim or self._monotonic() < self._next_sweep:
            return
        try:
            with self._gate:
                if self._any_expired():
                    self.queue.sweep_expired()
        except (DatabaseClosed, DatabaseReplaced):
            raise
        except BrantError as error:
            self._trouble(f"expired jobs could not be swept: {error}")
        self._next_sweep = self._monotonic() + _SAFETY_POLL_S

    def _any_expired(self) -> bool:
        with self.queue.db._storage.reading() as session:
            return session.any_expired(self.queue.name)

    # From any thread

    def _function_ended(self, execution: Execution, outcome: object) -> None:
        """Noted first, then rung: whoever leaves the desk looks for more."""
        self._ended.append(Settlement(execution, outcome))
        if not self._hands.is_member():
            self._bell.ring()

    def _has_ended(self) -> bool:
        return bool(self._ended)

    def _attend(self) -> None:
        """For a thread that has nothing to run: sit down at the desk, if that is free and there is something to do."""
        while self._ended and not self._hands.has_waiting and self._desk.acquire(blocking=False):
            try:
                pause = self._turn()
            except BaseException as error:
                self._fail(error)
                pause = 0
            finally:
                self._desk.release()
            if pause < _SAFETY_POLL_S or self._unsettled or not self._is_full:
                self._bell.ring()

    # At the desk

    @property
    def _is_over(self) -> bool:
        return not self._running and not self._may_claim

    @property
    def _is_full(self) -> bool:
        return len(self._running) >= self._slots

    @property
    def _may_claim(self) -> bool:
        return self._failure is None and not self._stop.asked

    def _fail(self, error: BaseException) -> None:
        """Claim nothing more, but settle what runs: with a bell that only what has ended rings."""
        self._failure = self._failure or error
        self._bell.close()
        self._bell.ring()
        self._stop.ask()

    def _turn(self) -> float:
        """Settle what has ended and fill what is free; tells how long there is nothing else to do."""
        try:
            claim = self._settle()
            return self._fill(claim) if self._may_claim or claim else _SAFETY_POLL_S
        except BrantError as error:
            self._more_is_likely = False
            self._trouble(str(error))
            return _TROUBLE_PAUSE_S

    def _settle(self) -> Claim | None:
        """Gives the claim that was made with it."""
        group = self._to_settle()
        if not group:
            return None
        try:
            claim = self._claim_with(group)
        except BaseException:
            self._ended.extendleft(reversed(group))  # for the next turn, which claims nothing
            raise
        again: list[Settlement] = []
        try:
            again = self._settler.settle(group, claim)
        finally:
            for settlement in group:
                if settlement not in again:
                    self._let_go(settlement.execution)
        if again:
            self._unsettled += again
            self._settle_again_at = time.monotonic() + _SETTLE_PAUSE_S
        return claim if claim is not None and claim.jobs is not None else None

    def _to_settle(self) -> list[Settlement]:
        if 0 < len(self._ended) < len(self._running):
            time.sleep(0)  # those that end at the same time, and need the GIL for it: the more, the fewer commits
        group: list[Settlement] = []
        while self._ended:
            group.append(self._ended.popleft())
        if self._unsettled and time.monotonic() >= self._settle_again_at:
            group, self._unsettled = self._unsettled + group, []
        return group

    def _claim_with(self, group: list[Settlement]) -> Claim | None:
        """Only with what went well: a job that is tried again must not lose an attempt to a crash here."""
        if not self._more_is_likely or not self._may_claim or any(each.step != "ack" for each in group):
            return None
        failpoint("claim.before")
        return Claim(self.queue, self._worker_id, self._slots - len(self._running) + len(group))

    def _fill(self, claim: Claim | None) -> float:
        """Run what was claimed, or claim for the free slots; tells how long there is nothing to do."""
        if claim is None:
            free = self._slots - len(self._running)
            if free == 0:
                return _SAFETY_POLL_S
            self.is_idle = False
            claim = Claim(self.queue, self._worker_id, free)
            due_in = self._look(claim)
        else:
            due_in = 0.0
        jobs = claim.jobs or []
        if claim.jobs is not None:
            failpoint("claim.after")
        if not self._may_claim:
            self._put_back(jobs)
            return 0
        self._more_is_likely = len(jobs) == claim.slots
        self._found_nothing = not jobs
        for job in jobs:
            self._start(job, claim.made_at)
        self.is_idle = not self._running and due_in != 0
        if self.is_idle:
            self._on_idle()
        if self._more_is_likely:
            return _SAFETY_POLL_S
        return _SAFETY_POLL_S if due_in is None else min(due_in, _SAFETY_POLL_S)

    def _look(self, claim: Claim) -> float | None:
        """Claim, if there seems to be something; tells how long there is nothing to do (None: nobody knows)."""
        with self._gate:
            if not self._more_is_likely and (due_in := self.queue.due_in()) != 0:
                return due_in
            failpoint("claim.before")
            with self.queue.db._storage.transaction() as session:
                claim.make(session)
        return 0.0 if claim.jobs or self._more_is_likely else _LOST_RACE_PAUSE_S

    def _start(self, job: Job, claimed_at: float) -> None:
        execution = Execution(job, claimed_at, self._tools, self._hands, self._function_ended)
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

    def _put_back(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                job.release()
            except BrantError as error:
                self._trouble(f"{job!r} could not be given back, and waits for its lease to end: {error}")

    def _on_loop(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits for this any more
            self._tools.loop.call_soon_threadsafe(function, *args)

    def _trouble(self, error: str) -> None:
        self._tools.observers.tell(WorkerEvent("trouble", self.queue.name, error=error))
