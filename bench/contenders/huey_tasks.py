"""on SQLite in WAL mode without any fsync, its faster setting; a task whose worker dies is gone; no coroutines."""

from __future__ import annotations

from typing import Any

from huey import SqliteHuey

from bench.contenders import gate

huey: Any = SqliteHuey("bench", filename=str(gate.place() / "huey.db"), fsync=False)


@huey.task()
def sync_noop(number: int) -> int:
    return number


sync_hold = huey.task()(gate.hold)


def enqueue(task: str, *args: int) -> Any:
    return globals()[task](*args)


def answer_of(handle: Any) -> object:
    return handle.get(preserve=True)


def command(concurrency: int) -> list[str]:
    return ["huey_consumer", f"{__name__}.huey", "-k", "thread", "-w", str(concurrency), "-q"]
