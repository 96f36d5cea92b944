"""One job: its function is found and run, and what becomes of the job is told by how it ended."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from brant.job import Job
from brant.outcomes import Dead, Outcome, Retry, outcome_of
from brant.storage.inside import call_with
from brant.tasks import Registry, TaskSpec
from brant.transaction import Transaction
from brant.worker.calls import call_of
from brant.worker.context import TaskContext, enter
from brant.worker.events import Observers, WorkerEvent
from brant.worker.handlers import Ending, Handler
from brant.worker.hands import Hands, Report
from brant.worker.leases import Lease, LeaseKeeper


@dataclass(frozen=True)
class Tools:
    """What the executions of a worker share. `variables` are those of whoever runs the worker: each job has a copy."""

    registry: Registry
    observers: Observers
    leases: LeaseKeeper
    loop: asyncio.AbstractEventLoop
    variables: contextvars.Context


class GiveBack(Outcome):
    """The function was ended before it was done: the job is somebody else's to do, if it still exists."""


class StillRunning(Outcome):
    """The function could not be ended: the job stays claimed, so that nobody runs a second copy beside it."""


class Execution:
    """Runs one claimed job; tells its outcome once, from whatever thread, when the function has ended."""

    def __init__(
        self, job: Job, claimed_at: float, tools: Tools, hands: Hands, on_end: Callable[[Execution, object], None]
    ) -> None:
        self.job = job
        self.spec: TaskSpec | None = None
        self.is_cut_off = False
        self._tools = tools
        self._hands = hands
        self._on_end = on_end
        self._context: TaskContext | None = None
        self._variables = tools.variables
        self._handler: Handler | None = None
        self._loss: str | None = None
        self._monotonic = job.queue.db._storage.clock.monotonic
        self._lease = Lease(job, claimed_at, on_renewal=lambda: self.tell("renew"), on_loss=self.lose_from_elsewhere)

    def start(self) -> None:
        """Find the function and have it run."""
        self._tools.leases.keep(self._lease)
        if (reason := self._reason_to_end()) is not None:
            self._on_end(self, GiveBack(reason))
            return
        call = call_of(self.job, self._tools.registry)
        if isinstance(call, Dead):
            self._on_end(self, call)
            return
        self.spec = call.spec
        self._context = TaskContext(self.job, call.spec.name, call.spec.timeout_s)
        variables = self._variables = self._tools.variables.copy()
        variables.run(enter, self._context)
        # Told among the variables that the function gets: a trace may put itself there.
        variables.run(self.tell, "start", facts={"call": call.body})
        self._handler = Handler(call, self._context, variables, self._tools.loop, self._function_ended)
        try:
            self._handler.start(self._hands)
        except Exception as error:
            self._on_end(self, Retry(None, f"the task could not be run: {_text_of(error)}"))
            return
        if self._reason_to_end() is not None:
            # Lost or cut off while there was no handler to be told.
            self._on_loop(self._catch_up)

    def settled(self) -> None:
        """The job is no longer this one's to keep."""
        self._tools.leases.drop(self._lease)

    def lose(self, why: str) -> None:
        """The job is somebody else's, or nobody's: end the function where that can be done. For the event loop."""
        if self._context is not None and self._context.acking:
            return  # the task commits its own ack: it is not lost but done, or finds out by itself
        self._loss = self._loss or why
        if self._handler is not None:
            self._handler.end()

    def lose_from_elsewhere(self, why: str) -> None:
        """As `lose()`, from any thread."""
        self._on_loop(self.lose, why)

    def cut_off(self) -> None:
        """The worker ends: what runs is ended where that can be done, what is being settled may be."""
        self.is_cut_off = True
        if self._handler is not None:
            self._handler.leave_alone()

    def _catch_up(self) -> None:
        assert self._handler is not None  # noqa: S101
        self._handler.leave_alone() if self.is_cut_off else self._handler.end()

    @property
    def has_acked(self) -> bool:
        """Whether the task has committed the ack itself."""
        return self._context is not None and self._context.acked

    @property
    def has_work(self) -> bool:
        """Whether the task has left something to do in the transaction of its ack."""
        return self._context is not None and self._context.work is not None

    def do_work(self, tx: Transaction) -> None:
        assert self._context is not None and self._context.work is not None  # noqa: PT018, S101
        # Whatever a transaction that was undone has left there.
        self._context.settled_as, self.job._settled_as = None, ("success", None)
        call_with(self._variables, self._context.work, tx)

    def answer_error(self, tx: Transaction, error: BaseException) -> None:
        """What the work wrote is undone: the task may settle its job itself."""
        if self._context is not None and self._context.on_error is not None:
            call_with(self._variables, self._context.on_error, tx, error)

    @property
    def settled_as(self) -> tuple[str, str | None]:
        """What the task's own transaction has made of the job, and why."""
        context = self._context
        if context is None or context.settled_as is None:
            return self.job._settled_as
        return context.settled_as, context.settled_because

    @property
    def is_lost(self) -> bool:
        return self._loss is not None

    @property
    def lease_left_s(self) -> float:
        return self._lease.held_until - self._monotonic()

    def is_held_in(self, row: dict[str, Any] | None) -> bool:
        """Whether that row, the job's own, still says that it is this worker's."""
        return row is not None and (row["worker_id"], row["attempts"]) == (self.job.worker_id, self.job.attempts)

    def _function_ended(self, ending: Ending | None) -> Report:
        try:
            outcome = StillRunning() if ending is None else self._judged(ending)
        except Exception as error:
            outcome = Retry(None, f"the end of the task could not be read: {_text_of(error)}")
        return lambda: self._on_end(self, outcome)

    def _judged(self, ending: Ending) -> object:
        """What the function answered, or what its error asks for."""
        assert self._handler is not None  # noqa: S101
        assert self.spec is not None  # noqa: S101
        value, error = ending
        if self._handler.timed_out and not self.has_acked:
            return Retry(None, f"timeout after {self.spec.timeout_s}s")
        if error is None:
            return value
        if isinstance(error, asyncio.CancelledError):
            reason = self._reason_to_end()
            return Retry(None, "the task was cancelled from within") if reason is None else GiveBack(reason)
        return outcome_of_error(error)

    def _reason_to_end(self) -> str | None:
        return self._loss or ("the worker stopped" if self.is_cut_off else None)

    def _on_loop(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop was closed, and its executions with it
            self._tools.loop.call_soon_threadsafe(function, *args)

    def tell(self, kind: str, error: str | None = None, facts: dict[str, Any] | None = None) -> None:
        if not self._tools.observers.want(kind):
            return
        context = self._context
        self._tools.observers.tell(
            WorkerEvent(
                kind=kind,
                queue=self.job.queue_name,
                job_id=self.job.id,
                task=None if self.spec is None else self.spec.name,
                attempt=self.job.attempts,
                duration_s=None if context is None else self._monotonic() - context.started,
                error=error,
                facts=facts or {},
            )
        )


def outcome_of_error(error: BaseException) -> Outcome:
    """What it asks for, or to try again."""
    return outcome_of(error) or Retry(None, f"{_text_of(error)}\n{_trace_of(error)}")


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
