"""Other queues on Postgres, through their public APIs, on the same server with its own synchronous_commit."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from bench.measure import Work

Peer = dict[str, Work]
Round = Callable[[], Awaitable[object]]


class _Loop:
    """One event loop for all of a peer's turns."""

    def __init__(self, stack: ExitStack, factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._runner = stack.enter_context(asyncio.Runner(loop_factory=factory))

    def get(self, found: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await found

        return self._runner.run(wait())

    def repeated(self, call: Round, size: int = 1) -> Work:
        """Work that awaits the call once for every `size` of its count."""

        async def repeat(times: int) -> None:
            for _ in range(times):
                await call()

        return lambda count: self._runner.run(repeat(count // size))


def procrastinate(address: str, stack: ExitStack) -> Peer:
    """procrastinate: asynchronous, one connection in its pool; enqueues by its synchronous connector.

    A finished job is deleted, as an acked one is. It fetches one job at a time: there are no batches.
    """
    from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
    from procrastinate.jobs import Status

    app = stack.enter_context(App(connector=SyncPsycopgConnector(conninfo=address, min_size=1, max_size=1)).open())
    app.schema_manager.apply_schema()

    @app.task(name="noop", queue="q")
    def noop(n: int) -> None: ...

    hundred: list[dict[str, Any]] = [{"n": 1}] * 100

    def hundreds(count: int) -> None:
        for _ in range(count // 100):
            noop.batch_defer(*hundred)

    def singly(count: int) -> None:
        for _ in range(count):
            noop.defer(n=1)

    loop = _Loop(stack)
    working = App(connector=PsycopgConnector(conninfo=address, min_size=1, max_size=1))
    loop.get(working.open_async())
    stack.callback(lambda: loop.get(working.close_async()))
    jobs = working.job_manager
    worker = loop.get(jobs.register_worker())

    async def fetch_and_finish() -> None:
        job = await jobs.fetch_job(queues=["q"], worker_id=worker)
        assert job is not None
        await jobs.finish_job(job, Status.SUCCEEDED, delete_job=True)

    return {"enqueue": singly, "enqueue_many": hundreds, "claim 1": loop.repeated(fetch_and_finish)}


def pgqueuer(address: str, stack: ExitStack) -> Peer:
    """pgqueuer: asynchronous, on asyncpg and uvloop, one connection; its tables are logged, as by default.

    No limits on concurrency. A finished job is moved to its log, as its workers do.
    """
    import asyncpg
    import uvloop
    from pgqueuer.ports.repository import EntrypointExecutionParameter
    from pgqueuer.queries import Queries

    loop = _Loop(stack, uvloop.new_event_loop)
    connection = loop.get(asyncpg.connect(address))
    stack.callback(lambda: loop.get(connection.close()))
    queries: Any = Queries.from_asyncpg_connection(connection)
    loop.get(queries.install())
    entrypoints = {"q": EntrypointExecutionParameter(concurrency_limit=0)}
    manager = uuid.uuid4()

    async def hundred() -> None:
        await queries.enqueue(["q"] * 100, [b'{"n": 1}'] * 100, [0] * 100)

    def claims(size: int) -> Work:
        async def take_and_finish() -> None:
            jobs = await queries.dequeue(size, entrypoints, manager, None, timedelta(seconds=300))
            assert len(jobs) == size
            await queries.log_jobs([(job, "successful", None) for job in jobs])

        return loop.repeated(take_and_finish, size)

    return {
        "enqueue": loop.repeated(lambda: queries.enqueue("q", b'{"n": 1}')),
        "enqueue_many": loop.repeated(hundred, 100),
        **{f"claim {size}": claims(size) for size in (1, 32, 128)},
    }


MAKERS: dict[str, Callable[[str, ExitStack], Peer]] = {"procrastinate": procrastinate, "pgqueuer": pgqueuer}
NEEDED = {"procrastinate": ("procrastinate",), "pgqueuer": ("pgqueuer", "asyncpg", "uvloop")}
WORKS = {
    "procrastinate": ("enqueue", "enqueue_many", "claim 1"),
    "pgqueuer": ("enqueue", "enqueue_many", "claim 1", "claim 32", "claim 128"),
}
