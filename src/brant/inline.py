"""Running tasks where they are called, for tests: `run_inline` of `brant.testing`."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import traceback
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from brant import tasks
from brant.arguments import decode, encode
from brant.batch import Batch
from brant.errors import TaskFailed
from brant.inline_batch import InlineBatch, inline_members
from brant.job import Job
from brant.outcomes import Dead, Outcome, Retry, outcome_of
from brant.storage.base import JobRow
from brant.tasks import Task, TaskResult
from brant.transaction import Transaction
from brant.worker.context import TaskContext, enter

R = TypeVar("R")

_ids = itertools.count(-1, -1)  # below zero: never the id of a job


@contextmanager
def run_inline(*, raises: bool = True) -> Iterator[None]:
    """Inside the block a call of a task runs it at once, in this thread, and enqueues nothing; `.get()` answers.

    It runs once: no retries, no delays, no timeouts. An error of the function is raised by the call, or, with
    `raises=False`, is a TaskFailed of `.get()` as with a worker. Holds for all threads of the process.
    """

    def run(task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], batch: object) -> TaskResult[Any]:
        return _run(task, args, kwargs, raises, batch)

    previous, tasks.run_instead = tasks.run_instead, run
    try:
        yield
    finally:
        tasks.run_instead = previous


@dataclass(frozen=True)
class InlineResult(TaskResult[R]):
    """The answer that a call has had."""

    outcome: object = None

    def get(self, timeout: float | None = None) -> R:  # noqa: ARG002, there is nothing to wait for
        self._require_answer()
        match self.outcome:
            case Retry(reason=reason) | Dead(reason=reason):
                raise TaskFailed(f"the task failed, run inline: {reason}", error=reason, attempts=1)
            case Outcome():
                raise TimeoutError(f"no result: the task ended with {self.outcome!r}")
        return cast(R, self.outcome)

    async def aget(self, timeout: float | None = None) -> R:
        return self.get(timeout)


def _run(
    task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], raises: bool, batch: object
) -> InlineResult[Any]:
    members = None if batch is None else inline_members(batch)
    payload = encode(tasks.envelope(task.name, args, kwargs))
    call = decode(payload)[tasks.ENVELOPE]  # what a worker would read: a tuple has become a list
    context = _InlineContext(_unstored_job(task, payload), task.name, task.spec.timeout_s)
    context.members = members
    outcome = _outcome(context, task, call["args"], call["kwargs"], raises)
    if members is not None:
        members.count(outcome)
    if task.spec.store_result and not isinstance(outcome, Outcome):
        outcome = decode(encode(outcome))
    return InlineResult(context.job_id, task.queue, task.spec.store_result, outcome)


def _outcome(
    context: TaskContext, task: Task[..., Any], args: list[Any], kwargs: dict[str, Any], raises: bool
) -> object:
    try:
        return _called(context, task, args, kwargs)
    except Exception as error:
        outcome = outcome_of(error)
        if outcome is None and raises:
            raise
        return outcome or Retry(None, f"{error}\n{''.join(traceback.format_exception(error))}")


def _called(context: TaskContext, task: Task[..., Any], args: list[Any], kwargs: dict[str, Any]) -> object:
    variables = contextvars.copy_context()
    variables.run(enter, context)
    answer = variables.run(task.fn, *args, **kwargs)
    if not inspect.isawaitable(answer):
        return answer
    # In a thread of its own, since the caller's may have an event loop that runs already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(variables.run, asyncio.run, _awaited(answer)).result()


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def _unstored_job(task: Task[..., Any], payload: str) -> Job:
    now = task.queue.db._storage.clock.now()
    row = JobRow(
        id=next(_ids),
        queue=task.queue.name,
        payload=payload,
        state="processing",
        priority=task.spec.priority,
        run_at=now,
        worker_id="inline",
        claim_expires_at=None,
        attempts=1,
        max_attempts=1,
        created_at=now,
        expires_at=None,
    )
    return _UnstoredJob(task.queue, row, None)


class _InlineContext(TaskContext):
    members: InlineBatch | None

    @property
    def batch(self) -> Batch | None:
        return self.members


class _UnstoredJob(Job):
    """A job that is in no database: nothing to renew, nothing to ack."""

    def heartbeat(self, extend_s: float | None = None) -> bool:  # noqa: ARG002, nobody else can claim it
        return True

    def transaction(self, *, late: bool = False) -> Transaction:
        return Transaction(self.queue.db._storage, self.queue.db, late=late)
