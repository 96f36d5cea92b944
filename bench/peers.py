"""Other queues on SQLite, through their public APIs, with the same durability (WAL, synchronous NORMAL)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import Work

# One that was put is one that is taken: each peer offers what it can of these.
Peer = dict[str, Work]


def available(folder: Path) -> dict[str, Peer]:
    """The peers that are installed."""
    makers: dict[str, Callable[[Path], Peer]] = {
        "honker": _honker,
        "simplebroker": _simplebroker,
        "huey": _huey,
        "litequeue": _litequeue,
        "persist-queue": _persist_queue,
    }
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make(folder)
        except ImportError:
            continue
    return found


def _times(count: int, call: Callable[[], object]) -> None:
    for _ in range(count):
        call()


def _honker(folder: Path) -> Peer:
    import honker

    db: Any = honker.open(str(folder / "honker.db"))
    queue = db.queue("q")

    def hundreds(count: int) -> None:
        for _ in range(count // 100):
            with db.transaction() as tx:
                for _ in range(100):
                    queue.enqueue({"n": 1}, tx=tx)

    def batches(size: int) -> Work:
        def work(count: int) -> None:
            for _ in range(count // size):
                queue.ack_batch([job.id for job in queue.claim_batch("w", size)], "w")

        return work

    return {
        "enqueue": lambda count: _times(count, lambda: queue.enqueue({"n": 1})),
        "enqueue_many": hundreds,
        "claim 1": lambda count: _times(count, lambda: queue.claim_one("w").ack()),
        "claim 32": batches(32),
        "claim 128": batches(128),
    }


def _simplebroker(folder: Path) -> Peer:
    os.environ["BROKER_SYNC_MODE"] = "NORMAL"
    from simplebroker import Queue

    queue: Any = Queue("q", db_path=str(folder / "simplebroker.db"), persistent=True)
    return {
        "enqueue": lambda count: _times(count, lambda: queue.write('{"n": 1}')),
        "claim 1": lambda count: _times(count, queue.read),
    }


def _huey(folder: Path) -> Peer:
    from huey.storage import SqliteStorage

    storage: Any = SqliteStorage("q", filename=str(folder / "huey.db"), journal_mode="wal", timeout=5)
    return {
        "enqueue": lambda count: _times(count, lambda: storage.enqueue(b'{"n": 1}')),
        "claim 1": lambda count: _times(count, storage.dequeue),
    }


def _litequeue(folder: Path) -> Peer:
    from litequeue import LiteQueue

    queue: Any = LiteQueue(str(folder / "litequeue.db"))
    return {
        "enqueue": lambda count: _times(count, lambda: queue.put('{"n": 1}')),
        "claim 1": lambda count: _times(count, lambda: queue.done(queue.pop().message_id)),
    }


def _persist_queue(folder: Path) -> Peer:
    from persistqueue import SQLiteAckQueue

    queue: Any = SQLiteAckQueue(str(folder / "persist"), auto_commit=True)
    return {
        "enqueue": lambda count: _times(count, lambda: queue.put({"n": 1})),
        "claim 1": lambda count: _times(count, lambda: queue.ack(queue.get(block=False))),
    }
