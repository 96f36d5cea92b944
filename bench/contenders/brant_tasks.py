"""one file in WAL mode, synchronous NORMAL; a lease for each task, the ack and the result in one commit."""

from __future__ import annotations

from typing import Any

import brant
from bench.contenders import gate

db = brant.open(gate.place() / "brant.db")
queue = db.queue("bench")


@queue.task
def sync_noop(number: int) -> int:
    return number


@queue.task
async def async_noop(number: int) -> int:
    return number


sync_hold = queue.task("sync_hold")(gate.hold)
async_hold = queue.task("async_hold")(gate.hold_async)


def enqueue(task: str, *args: int) -> Any:
    return globals()[task](*args)


def answer_of(handle: Any) -> object:
    """What the task answered; None while there is no answer."""
    return queue.get_result(handle.id)[1]


def command(concurrency: int) -> list[str]:
    return ["brant", "worker", f"{__name__}:db", "--quiet", "--no-scheduler", "--concurrency", str(concurrency)]
