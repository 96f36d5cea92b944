"""A worker inside a web application: for Starlette, FastAPI and whatever takes their kind of lifespan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from brant.database import Database
from brant.worker import Worker

__all__ = ["worker_lifespan"]

_logger = logging.getLogger("brant.worker")

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def worker_lifespan(db: Database, queues: Mapping[str, int] | None = None, **options: Any) -> Lifespan:
    """`Starlette(lifespan=worker_lifespan(db))`: a worker runs while the application does, and stops softly with it.

    Takes what `Worker` takes. Several server processes may each run one on the same file. To combine it with a
    lifespan of your own, enter it there: `async with worker_lifespan(db)(app): ...`.
    """

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:  # noqa: ARG001, servers pass it
        worker = Worker(db, queues, **options)
        running = asyncio.create_task(worker.run(), name="brant-worker")
        running.add_done_callback(_tell_of_failure)
        try:
            yield
        finally:
            worker.stop()
            await running

    return lifespan


def _tell_of_failure(running: asyncio.Task[None]) -> None:
    # At once: the application learns of it when it stops, which may be in a month.
    if not running.cancelled() and running.exception() is not None:
        _logger.error("the worker inside the application has ended", exc_info=running.exception())
