"""A worker in a thread of its own, and what can be heard of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import brant
from brant.worker import Worker, WorkerEvent
from tests.waiting import PATIENCE_S, in_thread


class Heard:
    """The events of a worker, to wait for."""

    def __init__(self) -> None:
        self._events: list[WorkerEvent] = []
        self._more = threading.Condition()

    def __call__(self, event: WorkerEvent) -> None:
        with self._more:
            self._events.append(event)
            self._more.notify_all()

    def all(self, kind: str) -> list[WorkerEvent]:
        with self._more:
            return [event for event in self._events if event.kind == kind]

    def kinds(self) -> list[str]:
        with self._more:
            return [event.kind for event in self._events]

    def wait(self, kind: str, count: int = 1) -> list[WorkerEvent]:
        """The events of that kind, when there are so many."""
        with self._more:
            came = self._more.wait_for(lambda: len(self.all(kind)) >= count, PATIENCE_S)
            assert came, f"no {count} x {kind}: {self._events}"
            return self.all(kind)


@dataclass(frozen=True)
class RunningWorker:
    worker: Worker
    heard: Heard
    ended: Future[None]

    def wait(self, kind: str, count: int = 1) -> list[WorkerEvent]:
        return self.heard.wait(kind, count)

    def stop(self, *, now: bool = False) -> None:
        self.worker.stop(now=now)
        self.ended.result(PATIENCE_S)


def start(db: brant.Database, queue: str = "q", slots: int = 2, **options: Any) -> RunningWorker:
    heard = Heard()
    worker = db.worker({queue: slots}, **{"scheduler": False, "grace_s": 0, **options}, observers=(heard,))
    return RunningWorker(worker, heard, in_thread(asyncio.run, worker.run()))


@contextmanager
def running(db: brant.Database, queue: str = "q", slots: int = 2, **options: Any) -> Iterator[RunningWorker]:
    """A worker that is stopped at the end of the block, and must not have failed."""
    crew = start(db, queue, slots, **options)
    try:
        yield crew
    finally:
        crew.stop()
