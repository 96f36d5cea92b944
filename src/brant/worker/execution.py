"""One job: its function is found and run, its lease kept meanwhile, and the job settled by how it ended."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from brant.errors import BrantError, ClaimLost, DatabaseClosed, DatabaseReplaced, InvalidValue
from brant.job import Job
from brant.outcomes import Cancel, Dead, Outcome, Retry, Snooze, outcome_of
from brant.tasks import Registry, TaskSpec
from brant.worker.calls import call_of
from brant.worker.context import TaskContext
from brant.worker.events import Observers, WorkerEvent
from brant.worker.handlers import Ending, Handler
from brant.worker.leases import Lease, LeaseKeeper

_SETTLE_PAUSE_S = 0.2
_DELAY_WITHOUT_TASK_S = 60.0


@dataclass(frozen=True)
class Tools:
    """What the executions of a worker share. Threads of `desk` do what waits for the database."""

    registry: Registry
    observers: Observers
    leases: LeaseKeeper
    desk: Executor


class _GiveBack(Outcome):
    """The function was ended before it was done: the job is somebody else's to do, if it still exists."""


class _StillRunning(Outcome):
    """The function could not be ended: the job stays claimed, so that nobody runs a second copy beside it."""


class Execution:
    """Runs one claimed job to its end."""

    def __init__(self, job: Job, claimed_at: float, tools: Tools) -> None:
        self.job = job
        self._tools = tools
        self._spec: TaskSpec | None = None
        self._context: TaskContext | None = None
        self._handler: Handler | None = None
        self._cut_off = False
        self._loss: str | None = None
        self._monotonic = job.queue.db._storage.clock.monotonic
        loop = asyncio.get_running_loop()
        self._lease = Lease(
            job,
            claimed_at,
            on_renewal=lambda: self._tell("renew"),
            on_loss=lambda why: _tell_loop(loop, self.lose, why),
        )

    async def run(self) -> None:
        """Ends when the job is settled, given back or lost; which of them is told as an event."""
        with self._lease_kept():
            await self._settle(await self._outcome())

    def lose(self, why: str) -> None:
        """The job is somebody else's, or nobody's: end the function where that can be done."""
        if self._context is not None and self._context.acking:
            return  # the task commits its own ack: it is not lost but done, or finds out by itself
        self._loss = self._loss or why
        if self._handler is not None:
            self._handler.end()

    def cut_off(self) -> None:
        """The worker ends: what runs is ended where that can be done, what is being settled may be."""
        self._cut_off = True
        if self._handler is not None:
            self._handler.leave_alone()

    def is_held_in(self, row: dict[str, Any] | None) -> bool:
        """Whether that row, the job's own, still says that it is this worker's."""
        return row is not None and (row["worker_id"], row["attempts"]) == (self.job.worker_id, self.job.attempts)

    @contextmanager
    def _lease_kept(self) -> Iterator[None]:
        self._tools.leases.keep(self._lease)
        guard = asyncio.create_task(self._guard_deadline())
        try:
            yield
        finally:
            guard.cancel()
            self._tools.leases.drop(self._lease)

    async def _guard_deadline(self) -> None:
        """End the function when the lease must be over, whatever the renewal waits for."""
        while (left := self._lease.held_until - self._monotonic()) > 0:
            await asyncio.sleep(left)
        self.lose("the lease could not be renewed in time")

    async def _outcome(self) -> object:
        """What the function answered, or what its error asks for."""
        if (reason := self._reason_to_end()) is not None:
            return _GiveBack(reason)
        call = call_of(self.job, self._tools.registry)
        if isinstance(call, Dead):
            return call
        self._spec = call.spec
        self._context = TaskContext(self.job, call.spec.name, call.spec.timeout_s)
        self._handler = Handler(call, self._context)
        self._tell("start")
        try:
            ending = await self._handler.run()
        except Exception as error:
            return Retry(None, f"the task could not be run: {_text_of(error)}")
        return _StillRunning() if ending is None else self._judged(call.spec, ending)

    def _judged(self, spec: TaskSpec, ending: Ending) -> object:
        assert self._handler is not None  # noqa: S101
        value, error = ending
        if self._handler.timed_out and not self._has_acked:
            return Retry(None, f"timeout after {spec.timeout_s}s")
        if error is None:
            return value
        if isinstance(error, asyncio.CancelledError):
            reason = self._reason_to_end()
            return Retry(None, "the task was cancelled from within") if reason is None else _GiveBack(reason)
        return outcome_of(error) or Retry(None, f"{_text_of(error)}\n{_trace_of(error)}")

    def _reason_to_end(self) -> str | None:
        return self._loss or ("the worker stopped" if self._cut_off else None)

    @property
    def _has_acked(self) -> bool:
        return self._context is not None and self._context.acked

    async def _settle(self, outcome: object) -> None:
        """Book how it ended; tried again while the database can't be reached and the lease holds."""
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._tools.desk, self._book, outcome)
                return
            except (InvalidValue, TypeError, ValueError, ArithmeticError) as error:
                # The outcome itself is bad, such as a delay that is no number.
                outcome = Retry(_DELAY_WITHOUT_TASK_S, f"the task ended with a bad {type(outcome).__name__}: {error}")
            except BrantError as error:
                if self._is_hopeless(error):
                    self._tell("lost", error=f"the job could not be settled: {error}")
                    return
                self._tell("trouble", error=f"the job could not be settled yet: {error}")
                await asyncio.sleep(_SETTLE_PAUSE_S)

    def _is_hopeless(self, error: BrantError) -> bool:
        gone = isinstance(error, (DatabaseClosed, DatabaseReplaced))
        return gone or self._cut_off or self._monotonic() > self._lease.held_until

    def _book(self, outcome: object) -> None:
        job = self.job
        match outcome:
            case _StillRunning():
                self._tell("lost", error="cut off while it ran: the lease runs out by itself")
            case _ if self._has_acked:
                self._book_committed(outcome)
            case _GiveBack():
                self._tell("release" if job.release() else "lost", error=str(outcome))
            case Retry(after_s=after, reason=reason):
                last = job.attempts >= job.max_attempts
                held = job.retry(self._delay() if after is None else after, reason)
                self._tell(("dead" if last else "retry") if held else "lost", error=reason)
            case Snooze(for_s=pause):
                self._tell("snooze" if job.release(delay_s=pause) else "lost")
            case Dead(reason=reason):
                self._tell("dead" if job.fail(reason) else "lost", error=reason)
            case Cancel(reason=reason):
                self._tell("cancel" if job.ack() else "lost", error=reason)
            case _:
                self._book_value(outcome)

    def _book_value(self, value: object) -> None:
        try:
            # In one commit: a claim that was lost leaves no result either.
            with self.job.transaction() as tx:
                self._save(value, tx)
        except ClaimLost as error:
            self._tell("lost", error=str(error))
        else:
            self._tell("success")

    def _book_committed(self, outcome: object) -> None:
        """The task has acked its job in its own transaction: whatever came then can't undo that."""
        if isinstance(outcome, Outcome):
            self._tell("trouble", error=f"after its transaction had committed: {outcome or type(outcome).__name__}")
        else:
            self._save(outcome, None)
        self._tell("success")

    def _save(self, value: object, tx: object | None) -> None:
        if self._spec is None or not self._spec.store_result:
            return
        try:
            self.job.queue.save_result(self.job.id, value, self._spec.result_ttl_s, tx=tx)
        except TypeError as error:
            # The work is done: that its answer can't be stored is no reason to do it again.
            self._tell("trouble", error=f"the result was not stored: {error}")

    def _delay(self) -> float:
        return _DELAY_WITHOUT_TASK_S if self._spec is None else self._spec.delay_after(self.job.attempts)

    def _tell(self, kind: str, error: str | None = None) -> None:
        context = self._context
        self._tools.observers.tell(
            WorkerEvent(
                kind=kind,
                queue=self.job.queue_name,
                job_id=self.job.id,
                task=None if self._spec is None else self._spec.name,
                attempt=self.job.attempts,
                duration_s=None if context is None else self._monotonic() - context.started,
                error=error,
            )
        )


def _tell_loop(loop: asyncio.AbstractEventLoop, function: Callable[[str], None], why: str) -> None:
    with suppress(RuntimeError):  # the loop was closed, and its executions with it
        loop.call_soon_threadsafe(function, why)


def _text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _trace_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return "(the traceback can't be shown)"
