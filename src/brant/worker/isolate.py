"""A process for each job: whatever a function does to its process costs its own attempt and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import update_wrapper
from typing import Any

from brant.arguments import whole
from brant.errors import InvalidValue
from brant.outcomes import Retry
from brant.tasks import Registry
from brant.worker.answers import frame, read_frame, result_of
from brant.worker.context import current_task

# What a process wrote before it died is there already; only another process that it forked can keep it open.
_LAST_BYTES_S = 1.0
_FAREWELL_S = 5.0


def isolated(tasks: Registry, target: str, memory_mb: int | None = None) -> Registry:
    """The same tasks, each call in a fresh process that imports `target`: for a Worker's `registry`.

    The worker claims, renews the lease and settles. The process is killed when the task's `timeout_s` is over, when the
    claim is lost and when the worker stops; with `memory_mb` it gets no more memory than that.
    """
    if not hasattr(os, "killpg"):
        raise InvalidValue("a process for each job needs a POSIX system")
    if memory_mb is not None:
        whole(memory_mb, "memory_mb", minimum=1)
    apart = Registry()
    for spec in tasks:
        apart.register(replace(spec, fn=_InProcess(spec.fn, target, memory_mb)))
    return apart


class _InProcess:
    """A coroutine function with the signature of the task's own, which has another process do the work."""

    def __init__(self, fn: Callable[..., Any], target: str, memory_mb: int | None) -> None:
        update_wrapper(self, fn)
        self._target = target
        self._memory_mb = memory_mb

    async def __call__(self, *_: object, **__: object) -> object:
        # The process reads the call from the job itself.
        job = current_task().job
        request = {
            "queue": job.queue_name,
            "job_id": job.id,
            "attempt": job.attempts,
            "database": job.queue.db.path,
            "memory_mb": self._memory_mb,
        }
        child = await _Child.start(self._target)
        try:
            return await child.result_for(request)
        finally:
            await child.kill()


class _Child:
    """The process of one job, leading a group of its own: a Ctrl-C at the terminal is for the worker."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, target: str) -> _Child:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await _started(target, theirs.fileno())
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return cls(process, reader, writer)

    async def result_for(self, request: dict[str, Any]) -> object:
        answer = asyncio.create_task(self._ask(request))
        ended = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait({answer, ended}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({answer}, timeout=_LAST_BYTES_S)
            # Once it has answered it may flush and close in peace. Once it is dead this takes no time.
            await asyncio.wait({ended}, timeout=_FAREWELL_S)
            if answer.done() and answer.exception() is None:
                return result_of(answer.result())
            return Retry(None, f"the process of the task {_ending(self._process.returncode)} before it had an answer")
        finally:
            answer.cancel()
            ended.cancel()

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._writer.write(frame(request))
        return await read_frame(self._reader)

    async def kill(self) -> None:
        """It and what it has started, unless it has ended by itself."""
        self._writer.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()


async def _started(target: str, descriptor: int) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "brant.worker.isolated",
        target,
        str(descriptor),
        stdin=DEVNULL,
        pass_fds=(descriptor,),
        start_new_session=True,
    )


def _ending(code: int | None) -> str:
    if code is None:
        return "closed its connection"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by signal {-code} ({signal.strsignal(-code)})"
