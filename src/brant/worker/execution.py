"""One job: its function is found and run, its lease renewed meanwhile, and the job settled by how it ended."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import traceback
from concurrent.futures import Executor
from typing import Any

from brant.errors import BrantError, ClaimLost
from brant.job import Job
from brant.outcomes import Cancel, Dead, Retry, Snooze, outcome_of
from brant.tasks import ENVELOPE, Registry, TaskSpec
from brant.worker.context import TaskContext, enter
from brant.worker.events import Observers, WorkerEvent

_SETTLE_PAUSE_S = 0.2


class Call:
    """A task's call, as the payload has it."""

    def __init__(self, spec: TaskSpec, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.spec = spec
        self.args = args
        self.kwargs = kwargs


def call_of(job: Job, registry: Registry) -> Call | Dead:
    """What the job asks for; Dead, with the reason, when nobody here can do it."""
    try:
        payload = job.payload
    except ValueError as error:
        return Dead(f"the payload is not JSON: {error}")
    body = payload.get(ENVELOPE) if isinstance(payload, dict) else None
    if not isinstance(body, dict):
        return Dead(
            "raw (non-decorated) payload: this queue is worked on by tasks; claim it with queue.claim() instead"
        )
    spec = registry.get(str(body.get("task")))
    if spec is None:
        return Dead(f"unknown task: {body.get('task')!r}; this worker knows {', '.join(registry.names()) or 'none'}")
    args, kwargs = body.get("args", []), body.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return Dead("the payload of the task is malformed: args must be a list and kwargs an object")
    try:
        inspect.signature(spec.fn).bind(*args, **kwargs)
    except TypeError as error:
        return Dead(f"wrong arguments for {spec.name}: {error}")
    return Call(spec, args, kwargs)


class Execution:
    """Runs one claimed job to its end."""

    def __init__(self, job: Job, registry: Registry, threads: Executor, observers: Observers) -> None:
        self.job = job
        self._threads = threads
        self._observers = observers
        self._call = call_of(job, registry)
        self._context: TaskContext | None = None
        self._handler: asyncio.Future[Any] | None = None
        self._monotonic = job.queue.db._storage.clock.monotonic
        self._lease_s = job.queue.visibility_timeout_s
        # Counted from before the claim was sent: the database's own count can only end later.
        self._held_until = self._monotonic() + self._lease_s
        self.in_thread = False

    @property
    def task(self) -> str | None:
        return self._call.spec.name if isinstance(self._call, Call) else None

    async def run(self) -> None:
        """Never raises, but when cancelled: then the job has been given back, if its function could be ended."""
        if isinstance(self._call, Dead):
            await self._settle(self._call)
            return
        self._context = TaskContext(self.job, self._call.spec.name, self._call.spec.timeout_s)
        self._tell("start")
        renewal = asyncio.create_task(self._keep_renewing())
        try:
            outcome = await self._outcome(self._call)
        except asyncio.CancelledError:
            await self._give_back()
            raise
        finally:
            renewal.cancel()
        if self._context.cancelled and not self._is_timeout(outcome):
            self._tell("lost", error="the claim was lost while the task ran")
            return
        await self._settle(outcome)

    def lose(self) -> None:
        """The job is somebody else's, or nobody's: end the function where that can be done."""
        if self._context is not None:
            self._context.give_up()
        if self._handler is not None and not self.in_thread:
            self._handler.cancel()

    async def _outcome(self, call: Call) -> object:
        """What the function answered, or what its error asks for."""
        assert self._context is not None  # noqa: S101
        try:
            if call.spec.is_async:
                return await self._run_on_loop(call)
            return await self._run_in_thread(call)
        except _TimedOut:
            return Retry(None, f"timeout after {call.spec.timeout_s}s")
        except asyncio.CancelledError:
            if self._context.cancelled:
                return None
            raise
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                return Retry(None, f"the task raised {type(error).__name__}")
            return outcome_of(error) or Retry(None, f"{_text_of(error)}\n{_trace_of(error)}")

    async def _run_on_loop(self, call: Call) -> object:
        context = contextvars.copy_context()
        assert self._context is not None  # noqa: S101
        context.run(enter, self._context)
        self._handler = asyncio.get_running_loop().create_task(_awaited(call), context=context)
        done, _ = await asyncio.wait({self._handler}, timeout=call.spec.timeout_s)
        if not done:
            self._handler.cancel()
            await asyncio.wait({self._handler})
            raise _TimedOut
        return self._handler.result()

    async def _run_in_thread(self, call: Call) -> object:
        # A thread can't be ended: one whose time is over keeps its lease until it ends, and then counts as timed out.
        # So there are never two copies of one job.
        assert self._context is not None  # noqa: S101
        context = contextvars.copy_context()
        context.run(enter, self._context)
        self.in_thread = True
        loop = asyncio.get_running_loop()
        self._handler = loop.run_in_executor(self._threads, context.run, _called, call)
        timer = None
        if call.spec.timeout_s is not None:
            timer = loop.call_later(call.spec.timeout_s, self._context.give_up)
        started = self._monotonic()
        try:
            value, error = await asyncio.shield(self._handler)
        finally:
            if timer is not None:
                timer.cancel()
        if call.spec.timeout_s is not None and self._monotonic() - started > call.spec.timeout_s:
            raise _TimedOut
        if error is not None:
            raise error
        return value

    def _is_timeout(self, outcome: object) -> bool:
        return isinstance(outcome, Retry) and outcome.reason.startswith("timeout after")

    async def _keep_renewing(self) -> None:
        """At a third of the lease. What can't reach the database is tried again until the lease must have run out."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            sent = self._monotonic()
            try:
                held = await asyncio.to_thread(self.job.heartbeat)
            except BrantError as error:
                self._tell("trouble", error=f"the lease could not be renewed: {error}")
                held = sent < self._held_until
            else:
                if held:
                    self._held_until = sent + self._lease_s
                    self._tell("renew")
            if not held:
                self.lose()
                return

    async def _give_back(self) -> None:
        if not self.in_thread:
            await asyncio.shield(asyncio.to_thread(self._release))

    def _release(self) -> None:
        try:
            self.job.release()
        except BrantError as error:
            self._tell("trouble", error=f"the job could not be given back: {error}")

    async def _settle(self, outcome: object) -> None:
        """Book how it ended; tried again while the database is busy and the lease holds."""
        while True:
            try:
                await asyncio.to_thread(self._book, outcome)
                return
            except BrantError as error:
                if self._monotonic() > self._held_until:
                    self._tell("lost", error=str(error))
                    return
                self._tell("trouble", error=f"the job could not be settled yet: {error}")
                await asyncio.sleep(_SETTLE_PAUSE_S)

    def _book(self, outcome: object) -> None:
        job = self.job
        match outcome:
            case Retry(after_s=after, reason=reason):
                delay = self._delay() if after is None else after
                last = job.attempts >= job.max_attempts
                held = job.retry(delay, reason)
                self._tell(("dead" if last else "retry") if held else "lost", error=reason)
            case Snooze(for_s=pause):
                self._tell("snooze" if job.release(delay_s=pause) else "lost")
            case Dead(reason=reason):
                self._tell("dead" if job.fail(reason) else "lost", error=reason)
            case Cancel(reason=reason):
                self._tell("cancel" if job.ack() else "lost", error=reason)
            case _:
                self._finish(outcome)

    def _finish(self, value: object) -> None:
        assert isinstance(self._call, Call)  # noqa: S101
        assert self._context is not None  # noqa: S101
        spec = self._call.spec
        if self._context.acked:
            if spec.store_result:
                self._save(value, None)
            self._tell("success")
            return
        try:
            # In one commit: a claim that was lost leaves no result either.
            with self.job.transaction() as tx:
                if spec.store_result:
                    self._save(value, tx)
        except ClaimLost:
            self._tell("lost")
            return
        self._tell("success")

    def _save(self, value: object, tx: object | None) -> None:
        assert isinstance(self._call, Call)  # noqa: S101
        try:
            self.job.queue.save_result(self.job.id, value, self._call.spec.result_ttl_s, tx=tx)
        except TypeError as error:
            # The work is done: that its answer can't be stored is no reason to do it again.
            self._tell("trouble", error=f"the result was not stored: {error}")

    def _delay(self) -> float:
        return self._call.spec.delay_after(self.job.attempts) if isinstance(self._call, Call) else 60

    def _tell(self, kind: str, error: str | None = None) -> None:
        context = self._context
        self._observers.tell(
            WorkerEvent(
                kind=kind,
                queue=self.job.queue_name,
                job_id=self.job.id,
                task=self.task,
                attempt=self.job.attempts,
                duration_s=None if context is None else self._monotonic() - context.started,
                error=error,
            )
        )


class _TimedOut(Exception):
    """The task's time was over; its own TimeoutError is another thing."""


async def _awaited(call: Call) -> object:
    return await call.spec.fn(*call.args, **call.kwargs)


def _called(call: Call) -> tuple[object, BaseException | None]:
    # As a value: a future can't carry a StopIteration, and takes a CancelledError for its own.
    try:
        return call.spec.fn(*call.args, **call.kwargs), None
    except BaseException as error:
        return None, error


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
