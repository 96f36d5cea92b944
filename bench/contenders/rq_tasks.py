"""on Redis as dramatiq; workers that do not fork for each job, its faster setting: one process a slot."""

from __future__ import annotations

import os
from typing import Any

from redis import Redis
from rq import Queue

from bench.contenders import gate

_url = os.environ[gate.REDIS_URL]
_queue = Queue("bench", connection=Redis.from_url(_url))


def sync_noop(number: int) -> int:
    return number


async def async_noop(number: int) -> int:
    return number


sync_hold, async_hold = gate.hold, gate.hold_async


def enqueue(task: str, *args: int) -> Any:
    return _queue.enqueue(globals()[task], *args)


def answer_of(handle: Any) -> object:
    return handle.return_value(refresh=True)


def command(concurrency: int) -> list[str]:
    workers = ["--num-workers", str(concurrency), "--worker-class", "rq.worker.SimpleWorker"]
    return ["rq", "worker-pool", "bench", "--url", _url, "--quiet", *workers]
