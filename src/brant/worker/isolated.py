"""`python -m brant.worker.isolated MODULE:VAR FD`: runs the task of one job for the worker at the other end of FD."""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from brant.errors import ClaimLost, InvalidValue, TransactionError
from brant.job import Job
from brant.outcomes import Dead, Retry, outcome_of
from brant.storage.base import JobRow
from brant.tasks import registry
from brant.worker.answers import answer_of, frame, receive_frame
from brant.worker.calls import Call, call_of
from brant.worker.context import TaskContext, enter
from brant.worker.target import load

_MEGABYTE = 1024 * 1024
# What Linux counts as data is what a program asked for; its address space is far larger where there are threads.
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


def main(target: str, descriptor: int) -> None:
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    request = receive_frame(channel)
    threading.Thread(target=_die_with_the_worker, args=(channel,), name="brant-leash", daemon=True).start()
    answer = answer_of(_outcome(target, request))
    sys.stdout.flush()
    sys.stderr.flush()
    channel.sendall(frame(answer))


def _die_with_the_worker(channel: socket.socket) -> None:
    """Another worker may have the job as soon as this one's is gone: two must not run it."""
    if not channel.recv(1):
        os.killpg(0, signal.SIGKILL)


def _outcome(target: str, request: dict[str, Any]) -> object:
    memory_mb = request["memory_mb"]
    try:
        if memory_mb is not None:
            _limit_memory(memory_mb * _MEGABYTE)
        return _run(_claimed_job(load(target), request))
    except MemoryError as error:
        limit = "" if memory_mb is None else f": it may use {memory_mb} MB"
        return Retry(None, f"the task ran out of memory{limit}\n{_trace_of(error)}")
    except (KeyboardInterrupt, SystemExit) as error:
        return Retry(None, f"the task raised {type(error).__name__}")
    except BaseException as error:
        return outcome_of(error) or Retry(None, f"{str(error) or type(error).__name__}\n{_trace_of(error)}")


def _limit_memory(limit: int) -> None:
    _, most = resource.getrlimit(_MEMORY)
    allowed = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(_MEMORY, (allowed, allowed))


def _claimed_job(db: Any, request: dict[str, Any]) -> Job:
    if db.path != request["database"]:
        raise InvalidValue(f"the module opened {db.path} and not {request['database']}, which the worker has")
    queue = db.queue(request["queue"])
    row = queue.get_job(request["job_id"])
    if row is None or row["attempts"] != request["attempt"]:
        raise ClaimLost(f"the job {request['job_id']} is no longer this worker's")
    return Job(queue, JobRow(**row), None)


def _run(job: Job) -> object:
    call = call_of(job, registry())
    if isinstance(call, Dead):
        return call
    enter(_IsolatedContext(job, call.spec.name, call.spec.timeout_s))
    if call.spec.is_async:
        return asyncio.run(_awaited(lambda: _called(call)))
    answer = _called(call)
    if inspect.isawaitable(answer):
        # A plain function that hands out a coroutine: its work is done when that is.
        return asyncio.run(_awaited(lambda: answer))
    return answer


def _called(call: Call) -> Any:
    return call.spec.fn(*call.args, **call.kwargs)


async def _awaited(work: Callable[[], Awaitable[object]]) -> object:
    """Called on the loop: one that is only marked as a coroutine function may need that before it is awaited."""
    return await work()


class _IsolatedContext(TaskContext):
    """Of a task that does not run where its job is settled."""

    def transaction(self, *, late: bool = False) -> NoReturn:  # noqa: ARG002
        _refuse("transaction")

    def at_ack(self, work: object, on_error: object = None) -> NoReturn:  # noqa: ARG002
        _refuse("at_ack")


def _refuse(method: str) -> NoReturn:
    raise TransactionError(
        f"current_task().{method}() does not work in a process of its own, since the worker acks the job: "
        "run this task without --isolate, or write in db.transaction() and make it safe to repeat"
    )


def _trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
