"""Running a task's function: on the event loop or in a thread, and ending it where that can be done."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from brant.worker.calls import Call
from brant.worker.context import TaskContext, enter

# How long a coroutine that is cut off may take to clean up.
_LAST_WAIT_S = 5.0
# As values: a future can't carry a StopIteration, and takes a CancelledError for its own.
Ending = tuple[object, BaseException | None]


class Handler:
    """One run of a function. `end()` ends a coroutine; a thread can only be asked to end, by its context."""

    def __init__(self, call: Call, context: TaskContext) -> None:
        self._call = call
        self._context = context
        self._left_alone = asyncio.Event()
        self._future: asyncio.Future[Ending] | None = None
        self._in_thread = False
        self.timed_out = False

    async def run(self) -> Ending | None:
        """What the function returned or raised; None when it was left alone and still runs."""
        timeout_s = self._call.spec.timeout_s
        timer = None
        if timeout_s is not None:
            timer = asyncio.get_running_loop().call_later(timeout_s, self._time_over)
        try:
            return await self._run()
        except asyncio.CancelledError:
            self.end()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def _run(self) -> Ending | None:
        if self._call.spec.is_async:
            self._start_on_loop(_awaited(lambda: self._call.spec.fn(*self._call.args, **self._call.kwargs)))
        else:
            self._start_in_thread()
        ending = await self._ending()
        if ending is not None and inspect.isawaitable(handed_out := ending[0]):
            # A plain function that hands out a coroutine: its work is done when that is.
            self._start_on_loop(_awaited(lambda: handed_out))
            ending = await self._ending()
        return ending

    def end(self) -> None:
        self._context.give_up()
        if self._future is not None and not self._in_thread:
            self._future.cancel()

    def leave_alone(self) -> None:
        """End it, and wait no longer than a moment for that."""
        self.end()
        self._left_alone.set()

    def _time_over(self) -> None:
        if self._future is not None and not self._future.done():
            self.timed_out = True
            self.end()

    async def _ending(self) -> Ending | None:
        assert self._future is not None  # noqa: S101
        left_alone = asyncio.create_task(self._left_alone.wait())
        try:
            ends: set[asyncio.Future[Any]] = {self._future, left_alone}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not self._in_thread:
                await asyncio.wait({self._future}, timeout=_LAST_WAIT_S)
        finally:
            left_alone.cancel()
        return _ending_of(self._future) if self._future.done() else None

    def _start_on_loop(self, work: Coroutine[object, object, Ending]) -> None:
        self._in_thread = False
        self._future = asyncio.get_running_loop().create_task(work, context=self._own_context())

    def _start_in_thread(self) -> None:
        loop = asyncio.get_running_loop()
        self._in_thread = True
        self._future = future = loop.create_future()
        context = self._own_context()

        def work() -> None:
            ending = context.run(_called, self._call)
            with suppress(RuntimeError):  # the loop is closed: the function was left alone
                loop.call_soon_threadsafe(_resolve, future, ending)

        # A daemon: a function that heeds nothing must not keep the process from ending.
        threading.Thread(target=work, name=f"brant-job-{self._context.job_id}", daemon=True).start()

    def _own_context(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(enter, self._context)
        return context


async def _awaited(work: Callable[[], Awaitable[object]]) -> Ending:
    try:
        return await work(), None
    except (Exception, asyncio.CancelledError, SystemExit) as error:
        return None, error


def _called(call: Call) -> Ending:
    try:
        return call.spec.fn(*call.args, **call.kwargs), None
    except BaseException as error:
        return None, error


def _resolve(future: asyncio.Future[Ending], ending: Ending) -> None:
    if not future.done():
        future.set_result(ending)


def _ending_of(future: asyncio.Future[Ending]) -> Ending:
    # Cancelled when it had not begun.
    return (None, asyncio.CancelledError()) if future.cancelled() else future.result()
