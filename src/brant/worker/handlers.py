"""Running a task's function: on the event loop or in a thread, and ending it where that can be done."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TypeGuard

from brant.failpoint import failpoint
from brant.worker.calls import Call
from brant.worker.context import TaskContext
from brant.worker.hands import Hands, Report

# How long a coroutine that is cut off may take to clean up.
_LAST_WAIT_S = 5.0
_PLAIN = frozenset({type(None), bool, int, float, str, list, dict, tuple})
# As values: a future can't carry a StopIteration, and takes a CancelledError for its own.
Ending = tuple[object, BaseException | None]


class Handler:
    """One run of a function, whose end is told once: what it returned or raised, or None when it still runs.

    `start()` is for any thread, and so is what is told; the rest is for the event loop. `end()` ends a coroutine; a
    function in a thread can only be asked to end, by its context.
    """

    def __init__(
        self,
        call: Call,
        context: TaskContext,
        variables: contextvars.Context,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[[Ending | None], Report],
    ) -> None:
        self._call = call
        self._context = context
        self._variables = variables
        self._loop = loop
        self._name = f"brant-job-{context.job_id}"
        self._on_end = on_end
        self._handed_out: Awaitable[object] | None = None
        self._told = threading.Lock()  # taken by whoever tells of the end
        self._task: asyncio.Task[Ending] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.timed_out = False

    def start(self, hands: Hands) -> None:
        if self._call.spec.timeout_s is not None:
            self._on_loop(self._start_timer, self._call.spec.timeout_s)
        if self._call.spec.is_async:
            self._on_loop(self._start_task, self._called_async)
        else:
            hands.add(self._name, self._work)

    def end(self) -> None:
        self._context.give_up()
        if self._task is not None:
            self._task.cancel()

    def leave_alone(self) -> None:
        """End it, and wait no longer than a moment for that."""
        self.end()
        if self._task is None and not self._call.spec.is_async:
            self._tell(None)()
        else:
            self._loop.call_later(_LAST_WAIT_S, lambda: self._tell(None)())

    def _work(self) -> Report:
        """In a thread."""
        ending = self._variables.run(_called, self._call)
        if _is_awaitable(handed_out := ending[0]):
            # A plain function that hands out a coroutine: its work is done when that is.
            self._handed_out = handed_out
            return partial(self._on_loop, self._start_task, lambda: _awaited(lambda: handed_out))
        return self._tell(ending)

    def _called_async(self) -> Coroutine[object, object, Ending]:
        call = self._call

        def work() -> Awaitable[object]:
            failpoint("handler.before")
            awaitable: Awaitable[object] = call.spec.fn(*call.args, **call.kwargs)
            return awaitable

        return _awaited(work)

    def _start_task(self, work: Callable[[], Coroutine[object, object, Ending]]) -> None:
        if self._context.cancelled:
            self._not_begun()
            return
        self._task = self._loop.create_task(work(), name=self._name, context=self._variables)
        self._task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Ending]) -> None:
        if task.cancelled():
            self._not_begun()
        else:
            error = task.exception()
            self._tell(task.result() if error is None else (None, error))()

    def _not_begun(self) -> None:
        """Ended before it began. Python warns of a coroutine that nobody awaits, unless it is closed."""
        if inspect.iscoroutine(self._handed_out):
            self._handed_out.close()
        self._tell((None, asyncio.CancelledError()))()

    def _tell(self, ending: Ending | None) -> Report:
        if not self._told.acquire(blocking=False):
            return _nothing
        if self._timer is not None:
            self._on_loop(self._timer.cancel)
        return self._on_end(ending)

    def _start_timer(self, timeout_s: float) -> None:
        if not self._told.locked():
            self._timer = self._loop.call_later(timeout_s, self._time_over)

    def _time_over(self) -> None:
        if not self._told.locked():
            self.timed_out = True
            self.end()

    def _on_loop(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the function was left alone
            self._loop.call_soon_threadsafe(function, *args)


def _nothing() -> None:
    """Somebody else has told of the end."""


async def _awaited(work: Callable[[], Awaitable[object]]) -> Ending:
    try:
        value = await work()
        failpoint("handler.after")
    except (Exception, asyncio.CancelledError, SystemExit) as error:
        return None, error
    return value, None


def _called(call: Call) -> Ending:
    try:
        failpoint("handler.before")
        value = call.spec.fn(*call.args, **call.kwargs)
        if not _is_awaitable(value):
            failpoint("handler.after")
    except BaseException as error:
        return None, error
    return value, None


def _is_awaitable(value: object) -> TypeGuard[Awaitable[object]]:
    # The types that answers mostly have: to ask for an awaitable takes longer than the rest of a short job.
    return type(value) not in _PLAIN and inspect.isawaitable(value)
