"""What tests of event loops need: an end, waiting for what commits bring about, hearing warnings."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import brant
from brant.outbox import Outbox
from tests.waiting import PATIENCE_S


def run(test: Coroutine[Any, Any, None]) -> None:
    """In a loop of its own, and not for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test

    asyncio.run(bounded())


async def until(db: brant.Database, condition: Callable[[], bool]) -> None:
    """Until it holds, which only a commit or a step of the clock can bring about."""
    changes = aiter(db.update_events())
    while not condition():
        await anext(changes)


@asynccontextmanager
async def working(*outboxes: Outbox) -> AsyncIterator[None]:
    """A worker for each, which must not end before the block does."""
    workers = [asyncio.create_task(outbox.run_worker()) for outbox in outboxes]
    try:
        yield
        assert not any(worker.done() for worker in workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)


class Warnings(logging.Handler):
    """Waits for what a logger says."""

    def __init__(self, logger: str) -> None:
        super().__init__()
        self.heard = threading.Event()
        logging.getLogger(logger).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.set()
