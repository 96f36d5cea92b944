"""on Redis with default settings: no fsync, and what is not yet in a snapshot is lost with the server."""

from __future__ import annotations

import os
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware.asyncio import AsyncIO
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends.redis import RedisBackend

from bench.contenders import gate

_url = os.environ[gate.REDIS_URL]
_backend = RedisBackend(url=_url)
broker = RedisBroker(url=_url)
broker.add_middleware(Results(backend=_backend))
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def sync_noop(number: int) -> int:
    return number


@dramatiq.actor(store_results=True)
async def async_noop(number: int) -> int:
    return number


sync_hold = dramatiq.actor(actor_name="sync_hold")(gate.hold)
async_hold = dramatiq.actor(actor_name="async_hold")(gate.hold_async)


def enqueue(task: str, *args: int) -> Any:
    return globals()[task].send(*args)


def answer_of(handle: Any) -> object:
    try:
        return handle.get_result(backend=_backend)
    except ResultMissing:
        return None


def command(concurrency: int) -> list[str]:
    return ["dramatiq", __name__, "--processes", "1", "--threads", str(concurrency)]
